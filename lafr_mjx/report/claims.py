"""The paper's claims, and what a set of runs says about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.adaptation.batch import finished
from lafr_mjx.output import counted
from lafr_mjx.run_spec import EngineName, RunSpec
from lafr_mjx.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

THRESHOLD_M = 0.35
RATE_AT_LIMIT = 5.9  # rad/s, of 6
CHANGE_AT = 6  # flight before which the midway scenarios change
_FAULTS = ("payload", "propeller", "combined")


class Row(NamedTuple):
    """One line of the table."""

    claim: str
    paper: str
    wanted: str
    measured: str
    reached: bool


class Plan(NamedTuple):
    """What is flown."""

    seeds: tuple[int, ...]
    plants: int
    engine: EngineName

    def specs(self) -> list[RunSpec]:
        """All runs, the ones that most claims need first."""

        def run(task: str, scenario: str, **more: Any) -> RunSpec:
            return RunSpec(task, scenario, engine=self.engine, **more)

        runs = []
        for seed in self.seeds:
            runs += [run("figure8", "nominal", seed=seed), run("shuttle", "nominal", seed=seed)]
            for method in ("ours", "baseline"):
                runs += [
                    run("figure8", "wind5", method=method, seed=seed),
                    run("figure8", "wind5", method=method, seed=seed, ats="hold", iterations=2),
                ]
            for fault in _FAULTS:
                runs += [
                    run("figure8", fault, seed=seed),
                    run("figure8", fault, seed=seed, ats="hold", iterations=3),
                ]
            runs += [run("figure8", f"{what}-midway", seed=seed) for what in ("payload", "wind")]
        first = self.seeds[0]
        for scenario in ("randomised", "randomised-noisy"):
            for task in ("figure8", "shuttle"):
                runs += [
                    run(task, scenario, seed=first, plant=plant) for plant in range(self.plants)
                ]
        return runs


class NotFlown(Exception):
    """A run that a claim needs is not there or not finished."""


class Evidence:
    """Records of finished runs."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan

    def records(self, task: str, scenario: str, **more: Any) -> list[dict[str, Any]]:
        """Iterations of a run."""
        spec = RunSpec(task, scenario, engine=self.plan.engine, **more)
        if not finished(spec, self.folder):
            raise NotFlown(spec.name)
        return RunFolder.open(self.folder / spec.name).iterations()

    def last_rate_share(self, task: str, scenario: str, seed: int, ramp_s: float = 1.5) -> float:
        """Share of the last flight with a commanded body rate at its limit."""
        spec = RunSpec(task, scenario, seed=seed, engine=self.plan.engine)
        run = RunFolder.open(self.folder / spec.name)
        rollout = run.load_rollout(run.rollout_numbers()[-1])
        counted = np.asarray(rollout.valid) & (np.asarray(rollout.time) >= ramp_s)
        rates = np.abs(np.asarray(rollout.command)[counted, 1:]).max(axis=1)
        return float(np.mean(rates >= RATE_AT_LIMIT))


def rows(evidence: Evidence, base_s: float | None) -> list[Row]:
    """The whole table."""
    seeds = evidence.plan.seeds
    table = []
    if base_s is not None:
        table.append(Row("base policy, without compiling", "seconds", "< 60 s",
                         f"{base_s:.0f} s", base_s < 60.0))  # fmt: skip
    parts = {
        "seconds per iteration": lambda: [_iteration_time(evidence)],
        "wind5 after one update": lambda: [_after_one_update(evidence, seeds)],
        "wind5": lambda: _wind(evidence, seeds),
        "figure8 nominal": lambda: _speed(
            evidence, seeds, "figure8", 2.60, 7.15, "2.2 → 7.2 m/s, 2.60 s"
        ),
        "shuttle nominal": lambda: _speed(
            evidence, seeds, "shuttle", 2.30, 7.25, "2.0 → 7.3 m/s, 2.30 s"
        ),
        "payload, propeller, combined": lambda: _faults(evidence, seeds),
        "random plants, figure8": lambda: _random_plants(evidence, "figure8"),
        "random plants, shuttle": lambda: _random_plants(evidence, "shuttle"),
        "random plants, noise × 2": lambda: [_noisy_plants(evidence)],
        "payload midway": lambda: [_midway(evidence, seeds, "payload")],
        "wind midway": lambda: [_midway(evidence, seeds, "wind")],
    }
    for name, part in parts.items():
        try:
            table += part()
        except NotFlown as missing:
            table.append(Row(name, "", "", f"not flown yet: {missing}", False))
    return table


def _iteration_time(evidence: Evidence) -> Row:
    first = evidence.records("figure8", "nominal", seed=evidence.plan.seeds[0])
    # The first three compile.
    seconds = float(np.median([r["wall_s"] for r in first[3:]]))
    return Row("one iteration, without compiling", "9 s (RTX 4090)", "< 4 s", f"{seconds:.1f} s",
               seconds < 4.0)  # fmt: skip


def _after_one_update(evidence: Evidence, seeds: Sequence[int]) -> Row:
    ours, base = (
        [evidence.records("figure8", "wind5", method=m, ats="hold", iterations=2, seed=s)[1]
         ["rmse_m"] for s in seeds] for m in ("ours", "baseline")
    )  # fmt: skip
    ratios = [b / o for o, b in zip(ours, base, strict=True)]
    return Row(
        "wind5, RMSE after one update, same α", "0.06 m, 4 × under baseline",
        "≤ 0.06 m, ≥ 3 × under baseline", f"{_each(ours, '.3f')} m, {_each(ratios, '.1f')} ×",
        max(ours) <= 0.06 and min(ratios) >= 3.0,
    )  # fmt: skip


def _wind(evidence: Evidence, seeds: Sequence[int]) -> list[Row]:
    # Ten iterations, as the paper: flights 0 to 10.
    ours = [evidence.records("figure8", "wind5", seed=s)[:11] for s in seeds]
    base = [evidence.records("figure8", "wind5", method="baseline", seed=s)[:11] for s in seeds]
    speed = [run[-1]["peak_speed_mps"] for run in ours]
    slower = [max(r["peak_speed_mps"] for r in run if not r["crashed"]) for run in base]
    worst = [max(r["rmse_m"] for r in run) for run in ours]
    beyond = [_beyond(run) for run in ours]
    crashes = [_crashes(run) for run in ours]
    return [
        Row("wind5, 10 iterations: peak speed", "2.6 → 6.8 m/s", "≥ 6.8 m/s",
            f"{_each([run[0]['peak_speed_mps'] for run in ours], '.1f')} → {_each(speed, '.2f')}",
            min(speed) >= 6.8),
        Row("wind5: safety", "error < 0.35 m",
            "no crash, RMSE < 0.35 m, peak > 0.35 m at most once",
            f"crashes {_each(crashes, 'd')}, RMSE ≤ {_each(worst, '.3f')} m, peaks beyond "
            f"{_each(beyond, 'd')}",
            not any(crashes) and max(worst) < THRESHOLD_M and max(beyond) <= 1),
        Row("wind5: baseline", "stuck at 4.7 m/s", "≥ 1 m/s slower",
            f"{_each(slower, '.2f')} m/s, crashes {_each([_crashes(r) for r in base], 'd')}",
            all(o - b >= 1.0 for o, b in zip(speed, slower, strict=True))),
    ]  # fmt: skip


def _speed(
    evidence: Evidence, seeds: Sequence[int], task: str, lap_s: float, mps: float, paper: str
) -> list[Row]:
    runs = [evidence.records(task, "nominal", seed=s) for s in seeds]
    laps = [run[-1]["lap_time_s"] or np.inf for run in runs]
    speeds = [run[-1]["peak_speed_mps"] for run in runs]
    crashes = [_crashes(run) for run in runs]
    seconds = [sum(r["flight_time_s"] for r in run) for run in runs]
    table = [
        Row(f"{task} nominal, {_each(seconds, '.0f')} s of flight", paper,
            f"≤ {lap_s:.2f} s, ≥ {mps} m/s, no crash",
            f"{_each(laps, '.2f')} s, {_each(speeds, '.2f')} m/s, crashes {_each(crashes, 'd')}",
            max(laps) <= lap_s and min(speeds) >= mps and not any(crashes)),
    ]  # fmt: skip
    if task == "figure8":
        shares = [evidence.last_rate_share(task, "nominal", s) for s in seeds]
        table.append(
            Row("figure8 nominal: commanded rates ≥ 5.9 rad/s", "persistent saturation",
                "≥ 5 % of the last flight", _each(shares, ".1%"), min(shares) >= 0.05)
        )  # fmt: skip
    return table


def _faults(evidence: Evidence, seeds: Sequence[int]) -> list[Row]:
    table, ceilings = [], {}
    for fault in ("nominal", *_FAULTS):
        runs = [evidence.records("figure8", fault, seed=s) for s in seeds]
        ceilings[fault] = [run[-1]["peak_speed_mps"] for run in runs]
        if fault == "nominal":
            continue
        held = [evidence.records("figure8", fault, seed=s, ats="hold", iterations=3)
                for s in seeds]  # fmt: skip
        drops = [run[0]["rmse_m"] / run[2]["rmse_m"] for run in held]
        crashes = [_crashes(run) for run in runs]
        table.append(
            Row(f"{fault}: RMSE by the second update, same α", "sharp drop after one update",
                "≥ 2 × lower, no crash",
                f"{_each(drops, '.1f')} ×, crashes {_each(crashes, 'd')}",
                min(drops) >= 2.0 and not any(crashes))
        )  # fmt: skip
    single = [np.maximum(a, b) for a, b in zip(ceilings["payload"], ceilings["propeller"],
                                               strict=True)]  # fmt: skip
    least = [np.minimum(a, b) for a, b in zip(ceilings["payload"], ceilings["propeller"],
                                              strict=True)]  # fmt: skip
    ordered = [n > s and low > c for n, s, low, c in zip(
        ceilings["nominal"], single, least, ceilings["combined"], strict=True)]  # fmt: skip
    table.append(
        Row("ceilings: nominal > single faults > combined", "lower ceiling", "ordered",
            "; ".join(f"{name} {_each(v, '.1f')}" for name, v in ceilings.items()) + " m/s",
            all(ordered))
    )  # fmt: skip
    return table


def _random_plants(evidence: Evidence, task: str) -> list[Row]:
    plan = evidence.plan
    runs = [evidence.records(task, "randomised", seed=plan.seeds[0], plant=i)
            for i in range(plan.plants)]  # fmt: skip
    crashes = sum(_crashes(run) > 0 for run in runs)
    beyond = [_beyond(run) for run in runs]
    gains = [run[-1]["peak_speed_mps"] / run[0]["peak_speed_mps"] for run in runs]
    spreads = [_spread([r["lap_time_s"] for r in run[-3:]]) for run in runs]
    ratios = [r["peak_error_m"] / r["predicted_peak_error_m"] for run in runs for r in run[1:]]
    laps = [run[-1]["lap_time_s"] or np.inf for run in runs]
    median, high = np.median(ratios), np.percentile(ratios, 90)
    head = f"{plan.plants} random plants, {task}"
    return [
        Row(f"{head}: crashes", "–", "none",
            f"{counted(crashes, 'run')}; laps {min(laps):.2f} to {max(laps):.2f} s", crashes == 0),
        Row(f"{head}: flights > 0.35 m", "–", "≤ 1 per run",
            f"at most {max(beyond)}, {counted(sum(b > 1 for b in beyond), 'run')} with more than 1",
            max(beyond) <= 1),
        Row(f"{head}: last over first speed", "–", "≥ 1.8", f"at least {min(gains):.2f}",
            min(gains) >= 1.8),
        Row(f"{head}: spread of the last 3 laps", "–", "< 5 %",
            f"at most {max(spreads):.1%}, {counted(sum(s >= 0.05 for s in spreads), 'run')} beyond",
            max(spreads) < 0.05),
        Row(f"{head}: flown over predicted error", "–", "median ≤ 1.4, p90 ≤ 2",
            f"{median:.2f}, {high:.2f}", bool(median <= 1.4 and high <= 2.0)),
    ]  # fmt: skip


def _noisy_plants(evidence: Evidence) -> Row:
    plan = evidence.plan
    crashes = {
        task: sum(
            _crashes(evidence.records(task, "randomised-noisy", seed=plan.seeds[0], plant=i)) > 0
            for i in range(plan.plants)
        )
        for task in ("figure8", "shuttle")
    }
    text = ", ".join(f"{task} {count}" for task, count in crashes.items())
    return Row(f"{plan.plants} random plants, noise × 2: runs that crashed", "–", "none", text,
               not any(crashes.values()))  # fmt: skip


def _midway(evidence: Evidence, seeds: Sequence[int], what: str) -> Row:
    runs = [evidence.records("figure8", f"{what}-midway", seed=s) for s in seeds]
    scales = [[r["time_scale"] for r in run] for run in runs]
    rises = [run[CHANGE_AT + 1] / run[CHANGE_AT] - 1.0 for run in scales]
    # Faster at the end than at the slowest since the change.
    recovers = [run[-1] < max(run[CHANGE_AT + 1 :]) for run in scales]
    crashes = [_crashes(run) for run in runs]
    return Row(
        f"{what} at flight {CHANGE_AT}", "adapts within one update",
        "α rises within one iteration, then recovers; no crash",
        f"α {_each(rises, '+.0%')}, recovers {_each(recovers, '')}, crashes "
        f"{_each(crashes, 'd')}",
        min(rises) > 0.0 and all(recovers) and not any(crashes),
    )  # fmt: skip


def _crashes(run: list[dict[str, Any]]) -> int:
    return sum(bool(r["crashed"]) for r in run)


def _beyond(run: list[dict[str, Any]]) -> int:
    return sum(r["peak_error_m"] > THRESHOLD_M for r in run)


def _spread(laps: Sequence[float | None]) -> float:
    if any(lap is None for lap in laps):
        return float("inf")
    known = np.array(laps, float)
    return float((known.max() - known.min()) / known.mean())


def _each(values: Sequence[Any], form: str) -> str:
    """A figure per seed."""
    return " / ".join(
        ("yes" if v else "no") if isinstance(v, bool) else format(v, form) for v in values
    )
