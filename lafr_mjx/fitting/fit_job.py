"""The work of `lafr-mjx fit`: split logs, fit the models, test them, estimate the vehicle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.errors import InputError
from lafr_mjx.logs import log_checks, time_offset
from lafr_mjx.logs.log_readers import read_logs
from lafr_mjx.logs.resample import uniform
from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lafr_mjx.fitting.fit_report import Console
    from lafr_mjx.logs.flight_log import FlightLog
    from lafr_mjx.logs.log_readers import ReadOptions
    from lafr_mjx.logs.raw_log import RawLog
    from lafr_mjx.plant.vehicle import Vehicle

HORIZONS = {"20ms": 1, "100ms": 5, "500ms": 25}
"""Horizons of the tests, in control intervals."""

QUANTITIES = ("position_mm", "velocity_cmps", "attitude_deg")
_LARGEST_SHIFT = 0.03  # s; a gyroscope that is further off is no gyroscope of this flight
_LEAST_S = 2.0


class Split(NamedTuple):
    """A log and which of its samples are for training and for testing."""

    log: FlightLog
    train: tuple[int, int] | None
    test: tuple[int, int] | None
    offset: float | None  # s, the attitude's turn behind the rates


@dataclass(frozen=True)
class Job:
    """What was asked for."""

    vehicle: Vehicle
    seeds: int
    seed: int
    online: bool
    ignore_checks: bool


@dataclass
class Result:
    """Figures for JSON, and what plots need."""

    figures: dict[str, Any]
    splits: list[Split]
    choice: Any = None
    errors: dict[str, Any] = field(default_factory=dict)  # model -> [steps, 3] mm, cm/s, °
    curve: dict[str, list[tuple[float, list[float]]]] = field(default_factory=dict)
    replay: dict[str, Any] = field(default_factory=dict)
    identified: Any = None
    hybrid: Any = None
    predicted: dict[str, Any] = field(default_factory=dict)
    residual: dict[str, Any] = field(default_factory=dict)


def prepare(
    job: Job,
    logs: Sequence[Path],
    tests: Sequence[Path],
    *,
    options: ReadOptions,
    share: float,
    first: bool,
    seconds: float | None,
    show: Console,
) -> list[Split]:
    """Read all logs, say what looks wrong, and split them."""
    splits = []
    groups = [(path, False) for path in logs] + [(path, True) for path in tests]
    for path, only_test in groups:
        with show.busy(f"reading {path} ..."):
            raws = read_logs(path, options)
        for raw in raws:
            log = _on_clock(job, raw, show)
            size = len(log.time)
            if only_test:
                train, test = None, (0, size)
            elif tests:
                train, test = (0, size), None
            else:
                # An even split at one half leaves the middle sample to the test.
                cut = int(size * (share if first else 1.0 - share))
                train, test = ((0, cut), (cut, size)) if first else ((cut, size), (0, cut))
            if train is not None and seconds is not None:
                train = (train[0], min(train[1], train[0] + round(seconds / SAMPLE_DT)))
            splits.append(_aligned(Split(log, train, test, None), show))
    _check_lengths(splits)
    _check_kinds(splits)
    return splits


def _on_clock(job: Job, raw: RawLog, show: Console) -> FlightLog:
    log = uniform(raw)
    show.log(log)
    findings = log_checks.check(log)
    for finding in findings:
        show.warn(f"{raw.path}: {finding.text}")
    serious = [finding for finding in findings if finding.serious]
    if serious and not job.ignore_checks:
        raise InputError(
            f"{raw.path}: {serious[0].text}; correct the log or its column map "
            "(--ignore-checks goes on regardless)"
        )
    return log


def _aligned(split: Split, show: Console) -> Split:
    """Measured rates are moved to the attitude's clock, by what the training part says."""
    log = split.log
    part = split.train or split.test or (0, len(log.time))
    offset = time_offset.rates_offset(log, *part)
    if offset is None:
        return split
    if log.commanded:
        late = "at once" if abs(offset) < 1e-3 else f"{1e3 * offset:.0f} ms later"
        show.note(f"{log.name}: the body rates follow their command {late}")
    elif log.has_state and abs(offset) <= _LARGEST_SHIFT:
        show.note(
            f"{log.name}: the attitude turns {abs(1e3 * offset):.1f} ms "
            f"{'after' if offset > 0.0 else 'before'} the measured rates; the rates are shifted"
        )
        log = uniform(log.raw, rates_shift=-offset)
    elif log.has_state:
        show.warn(f"{log.name}: rates and attitude seem {1e3 * offset:.0f} ms apart; not corrected")
    return Split(log, split.train, split.test, offset)


def _check_kinds(splits: list[Split]) -> None:
    first = splits[0].log
    for split in splits[1:]:
        if split.log.commanded != first.commanded:
            words = {True: "commanded", False: "measured"}
            raise InputError(
                f"{split.log.raw.path}: has {words[split.log.commanded]} body rates, "
                f"{first.raw.path} has {words[first.commanded]} ones; fit them separately"
            )


def _check_lengths(splits: list[Split]) -> None:
    for kind in ("train", "test"):
        parts = [(s, getattr(s, kind)) for s in splits if getattr(s, kind) is not None]
        usable = sum(float(s.log.usable[a:b].sum()) * SAMPLE_DT for s, (a, b) in parts)
        if usable < _LEAST_S:
            names = ", ".join(str(s.log.raw.path) for s, _ in parts)
            raise InputError(
                f"{names}: {usable:.2f} s to {kind} with; at least {_LEAST_S:g} s are needed"
            )


def work(job: Job, splits: list[Split], show: Console) -> Result:
    """Fit and test everything that the logs allow."""
    from lafr_mjx import compilation_cache
    from lafr_mjx.fitting import rate_models, state_models

    compilation_cache.enable()
    result = Result(figures=_about(job, splits), splits=splits)
    complete = [s for s in splits if s.log.has_state]
    if any(s.train for s in complete) and any(s.test for s in complete):
        state_models.work(job, complete, result, show)
    else:
        show.note("no attitude in the logs: only the body rates can be compared")
    if any(s.log.commanded and s.log.rates is not None for s in splits):
        rate_models.work(splits, result, show)
    return result


def _about(job: Job, splits: list[Split]) -> dict[str, Any]:
    def seconds(part: tuple[int, int] | None, log: FlightLog) -> float:
        return 0.0 if part is None else float(log.usable[slice(*part)].sum()) * SAMPLE_DT

    return {
        "logs": [str(s.log.raw.path) for s in splits],
        "vehicle": job.vehicle.name,
        "seed": job.seed,
        "seeds": job.seeds,
        "train_s": sum(seconds(s.train, s.log) for s in splits),
        "test_s": sum(seconds(s.test, s.log) for s in splits),
        "inputs": "commanded" if splits[0].log.commanded else "measured",
        "rates_offset_ms": None if splits[0].offset is None else 1e3 * splits[0].offset,
    }
