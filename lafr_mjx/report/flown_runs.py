"""Finished runs as a report reads them: from run folders, ablations, and folders full of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.ablation import table as ablation_table
from lafr_mjx.errors import InputError
from lafr_mjx.output import counted
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs.rollout_file import load_rollout
from lafr_mjx.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lafr_mjx.types import Rollout

_CONFIG = "config.toml"
_NEEDED = ("flight_time_s", "time_scale", "lap_time_s", "peak_speed_mps", "rmse_m",
           "peak_error_m", "crashed")  # fmt: skip
_ALIKE = (
    "features",
    "policy",
    "reference",
    "cost",
    "corridor",
    "noise_prior",
    "lag_prior",
    "plugins",
    "vehicle",
)
_DEPTH = 3  # how far below a given folder runs are looked for


class FlownRun(NamedTuple):
    """One adaptation: what was asked and the figures of its iterations."""

    spec: RunSpec
    records: list[dict[str, Any]]  # as in iterations.jsonl
    folder: Path | None = None  # None: no recorded flights
    config: Mapping[str, Any] = MappingProxyType({})
    written_by: str = ""
    variant: str = ""  # what makes it differ from the runs that a report compares
    flights: Path | None = None  # recorded flights of a run without a folder of its own

    @property
    def task(self) -> str:
        """Name of the task, also if it was given as a file."""
        return _name(self.spec.task)

    @property
    def scenario(self) -> str:
        """Name of the scenario, also if it was given as a file."""
        return _name(str(self.spec.scenario))

    @property
    def complete(self) -> bool:
        """Whether all iterations that were asked for are there."""
        return len(self.records) >= self.spec.iterations

    def rollout(self, number: int) -> Rollout | None:
        """The recorded flight of an iteration, None if it is not there."""
        if self.folder is None:
            file = self.flights / f"{number:03d}.npz" if self.flights else None
            return load_rollout(file) if file is not None and file.is_file() else None
        folder = RunFolder.open(self.folder)
        return folder.load_rollout(number) if number in folder.rollout_numbers() else None


class Collected(NamedTuple):
    """What was read, and what a reader must know about it."""

    runs: list[FlownRun]
    notes: list[str]

    def matching(self, **wanted: Any) -> list[FlownRun]:
        """Runs by task, scenario, method and the like, in the order of their seeds.

        What is not named is as usual: verified time scaling, the usual horizon, no variant.
        """
        usual = {"ats": "verified", "horizon": RunSpec().horizon, "variant": ""} | wanted

        def fits(run: FlownRun) -> bool:
            values = run.spec.table() | {
                "task": run.task, "scenario": run.scenario, "variant": run.variant
            }  # fmt: skip
            return all(values[key] == value for key, value in usual.items())

        found = [run for run in self.runs if fits(run)]
        return sorted(found, key=lambda run: (run.spec.seed, run.spec.plant))


def collect(paths: Sequence[Path]) -> Collected:
    """Read run folders, and all runs in folders that are none themselves.

    A folder that was named must hold at least one run with a finished iteration. A run that
    cannot be read among others is left out, and a note says so.
    """
    if not paths:
        raise InputError("no run is given; name run folders, or folders that contain them")
    runs: dict[tuple, FlownRun] = {}
    notes: list[str] = []
    for path in paths:
        inside = list(_run_folders(path))
        if not inside:
            # The message says what is wrong with it.
            RunFolder.open(path)
        fresh = 0
        for folder in inside:
            try:
                found = _read_ablation(folder) if _is_ablation(folder) else [_read(folder)]
            except InputError as error:
                if folder == path:
                    raise
                notes.append(f"Left out: {error}")
                continue
            for run in found:
                runs.setdefault((folder.resolve(), run.spec, run.variant), run)
            fresh += len(found)
        if not fresh:
            raise InputError(f"{path}: holds no run that can be reported: {notes[-1]}")
    kept = _without_doubles(runs.values(), notes)
    notes += _warnings(kept)
    return Collected(kept, notes)


def _run_folders(path: Path) -> Iterator[Path]:
    if (path / _CONFIG).is_file():
        yield path
    elif path.is_dir():
        for depth in range(1, _DEPTH + 1):
            for config in sorted(path.glob("*/" * depth + _CONFIG)):
                hidden = any(part.startswith(".") for part in config.relative_to(path).parts)
                if not hidden:
                    yield config.parent


def _read(folder: Path) -> FlownRun:
    run = RunFolder.open(folder)
    given = run.config.get("run")
    if not isinstance(given, dict) or "task" not in given or "scenario" not in given:
        raise InputError(f"{folder / _CONFIG}: 'run.task' and 'run.scenario' must be there")
    usual = RunSpec(scenario="").table()
    known = {key: value for key, value in given.items() if key in usual}
    for key, value in known.items():
        if type(value) is not type(usual[key]):
            raise InputError(f"{folder / _CONFIG}: 'run.{key}' is {value!r}")
    newer = [f"{key} {value}" for key, value in given.items() if key not in usual]
    records = run.iterations()
    if not records:
        raise InputError(f"{folder}: no iteration of this run is finished yet")
    _check_records(str(folder), records)
    spec = RunSpec(**known)
    odd = ", ".join(newer + _unusual(spec))
    return FlownRun(spec, records, folder, run.config, run.written_by, odd)


def _unusual(spec: RunSpec) -> list[str]:
    """What the usual comparison does not vary."""
    usual, given = RunSpec().table(), spec.table()
    return [f"{key} {_name(str(given[key]))}" for key in _ALIKE if given[key] != usual[key]]


def _is_ablation(folder: Path) -> bool:
    text = (folder / _CONFIG).read_text(encoding="utf-8", errors="replace")
    return "\n[ablation]\n" in text


def _read_ablation(folder: Path) -> list[FlownRun]:
    config = ablation_table.read_config(folder)
    asked = config["ablation"]
    shared = {key: asked[key] for key in RunSpec().table() if key in asked}
    runs = []
    for result in ablation_table.read_results(folder):
        _check_records(f"{folder}: {result.name}", result.iterations)
        own = {key: getattr(result, key) for key in ("task", "scenario", "method", "seed", "plant")}
        spec = RunSpec(**shared, **own)
        odd = [f"{key} {value:g}" for key, value in result.sweep.items()]
        odd += _unusual(spec)
        written_by = str(config.get("lafr_mjx_version", ""))
        flights = folder / ablation_table.FLIGHTS / result.name
        runs.append(FlownRun(spec, result.iterations, None, {}, written_by, ", ".join(odd),
                             flights if flights.is_dir() else None))  # fmt: skip
    return runs


def _check_records(where: str, records: Sequence[Mapping[str, Any]]) -> None:
    for i, record in enumerate(records):
        missing = [key for key in _NEEDED if key not in record]
        if missing:
            raise InputError(
                f"{where}: '{missing[0]}' is missing in the record of iteration {i}; it is of "
                f"another version"
            )


def _without_doubles(runs: Iterable[FlownRun], notes: list[str]) -> list[FlownRun]:
    """Of two runs of the same thing, the one with more iterations: seeds count once."""
    kept: dict[tuple, FlownRun] = {}
    for run in runs:
        key = (replace(run.spec, iterations=0, engine="mjx"), run.variant)
        other = kept.get(key)
        if other is None:
            kept[key] = run
            continue
        better, worse = (run, other) if len(run.records) > len(other.records) else (other, run)
        kept[key] = better
        notes.append(
            f"Left out: {worse.folder or worse.spec.name} repeats {better.folder or 'another run'}"
        )
    return list(kept.values())


def _warnings(runs: Sequence[FlownRun]) -> list[str]:
    notes = [
        f"Unfinished: {run.folder or run.spec.name} has {len(run.records)} of "
        f"{counted(run.spec.iterations, 'iteration')}"
        for run in runs if not run.complete
    ]  # fmt: skip
    for what, values in (
        ("engines", {run.spec.engine for run in runs}),
        ("versions", {run.written_by for run in runs if run.written_by}),
    ):
        if len(values) > 1:
            notes.append(f"Runs of several {what} stand side by side: {', '.join(sorted(values))}")
    return notes


def _name(name_or_path: str) -> str:
    return Path(name_or_path).stem if name_or_path.endswith(".toml") else name_or_path
