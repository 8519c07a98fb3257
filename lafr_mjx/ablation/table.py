"""The folder of an ablation: what was asked, and a line of results for each finished run.

    config.toml       what was asked, with the version that wrote it
    results.jsonl     one line per run: what it was, and the figures of its iterations
    scenarios/        the scenario file of each point of a sweep, for `lafr-mjx adapt`
    flights/RUN/      the recorded flights that were to be kept
    summary.json      figures of each group of runs, written at the end

Lines are added chunk by chunk and are on the disk before the next chunk is flown. A killed
writer may leave half a line: it is dropped, and its run flown again.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import lafr_mjx
from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs import rollout_file
from lafr_mjx.runs import run_files as files
from lafr_mjx.runs.run import table_of
from lafr_mjx.runs.toml_text import toml_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from lafr_mjx.reference import path as paths
    from lafr_mjx.types import Rollout

SCHEMA_VERSION = 1
CONFIG, RESULTS, SCENARIOS, FLIGHTS = "config.toml", "results.jsonl", "scenarios", "flights"

_KINDS = {
    "name": str, "method": str, "task": str, "scenario": str, "seed": int, "plant": int,
    "sweep": dict, "command": str, "iterations": list,
}  # fmt: skip
_NUMBER = (int, float, type(None))  # None: what is not finite
_FLIGHT_KINDS = {
    "lap_time_s": _NUMBER, "peak_speed_mps": _NUMBER, "rmse_m": _NUMBER, "crashed": bool,
}  # fmt: skip


class RunResult(NamedTuple):
    """One finished run, as `lafr_mjx.ablate` and `lafr_mjx.certify` return them.

    Examples:
        >>> import lafr_mjx as lm
        >>> results = lm.ablate(out="runs/ablation", only_print=True)
        >>> [run.table["peak_speed_mps"][-1] for run in results if run.method == "ours"]
    """

    name: str  # unlike any other's in its folder
    method: str
    task: str  # as it was asked for: a name or a path; the scenario likewise
    scenario: str
    seed: int
    plant: int  # which one of a randomised scenario; otherwise 0
    sweep: dict[str, float]  # the swept settings with their values; empty if nothing was swept
    command: str  # repeats it
    iterations: list[dict[str, Any]]  # with the keys of a run folder's iterations.jsonl

    @property
    def table(self) -> dict[str, np.ndarray]:
        """The figures by column, one value for each flight, as `Run.table` has them."""
        return table_of(self.iterations)


def read_results(folder: Path | str) -> list[RunResult]:
    """The finished runs of an ablation's folder, in the order in which they ended.

    Raises:
        InputError: there is no ablation, no result, or results of another version.
    """
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: is not the folder of an ablation: it has no {CONFIG}")
    read_config(folder)
    results, _ = _read(folder / RESULTS)
    if not results:
        raise InputError(f"{folder}: has no results yet; no run of this ablation is finished")
    return results


def read_config(folder: Path) -> dict[str, Any]:
    """What was asked, and the digests of what it was made of."""
    path = folder / CONFIG
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if "ablation" not in config:
        raise InputError(f"{path}: is not the configuration of an ablation")
    _check_version(str(path), config)
    return config


class AblationTable(Closing):
    """An ablation on disk, open for writing; its only writer."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder, self._lock = folder, lock
        results, whole = _read(folder / RESULTS)
        self.done = {result.name for result in results}
        path = folder / RESULTS
        size = path.stat().st_size if path.exists() else 0
        self.dropped_bytes = size - whole
        """Length of the half line that was found and is dropped; 0 if there was none."""
        if self.dropped_bytes:
            files.append_lines(path, [], whole)

    @classmethod
    def open(
        cls, folder: Path, config: Mapping[str, Any], scenarios: Mapping[str, str]
    ) -> AblationTable:
        """Begin an ablation in a new or empty folder, or go on with the same one."""
        lock: int | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            begun = (folder / CONFIG).is_file()
            strange = [p.name for p in folder.iterdir() if not p.name.startswith(".")]
            if not begun and strange:
                raise InputError(
                    f"{folder}: holds other things ({min(strange)}); give a new or empty folder"
                )
            if begun:
                _refuse_contradictions(folder, config)
            lock = files.locked(folder)
            if not begun:
                (folder / SCENARIOS).mkdir(exist_ok=True)
                for name, text in scenarios.items():
                    files.write_whole(folder / SCENARIOS / name, text.encode("utf-8"))
                head = {
                    "schema_version": SCHEMA_VERSION,
                    "lafr_mjx_version": lafr_mjx.__version__,
                }
                # Last: a folder with a configuration is complete.
                files.write_whole(folder / CONFIG, toml_text({**head, **config}).encode("utf-8"))
            return cls(folder, lock)
        except OSError as error:
            files.unlock(lock)
            raise InputError(
                f"{folder}: results cannot be written there: {error.strerror or error}"
            ) from error
        except BaseException:
            files.unlock(lock)
            raise

    def append(self, results: Sequence[RunResult]) -> None:
        """Add finished runs; when this returns they are on the disk. A known run is left out."""
        new = [result for result in results if result.name not in self.done]
        path = self.folder / RESULTS
        records = [{"schema_version": SCHEMA_VERSION, **result._asdict()} for result in new]
        files.append_lines(path, records, path.stat().st_size if path.exists() else 0)
        self.done |= {result.name for result in new}

    def save_flight(self, name: str, number: int, rollout: Rollout, reference: paths.Path) -> None:
        """Keep a recorded flight of a run, with its reference."""
        folder = self.folder / FLIGHTS / name
        folder.mkdir(parents=True, exist_ok=True)
        rollout_file.save_rollout(folder / f"{number:03d}.npz", rollout, reference)

    def close(self) -> None:
        """Let other processes write."""
        files.unlock(self._lock)
        self._lock = None


def _read(path: Path) -> tuple[list[RunResult], int]:
    """Finished runs, and how many bytes of the file are whole lines."""

    def refused(number: int, why: str) -> InputError:
        return InputError(
            f"{path}: line {number} is not the result of a run: {why}; remove that line, and its "
            f"run is flown again"
        )

    results: dict[str, RunResult] = {}
    lines = files.read_lines(path, refused)
    for number, (record, _) in enumerate(lines, start=1):
        if not isinstance(record, dict):
            raise refused(number, "has no keys")
        _check_version(f"{path}: line {number}", record)
        wrong = _first_wrong(record)
        if wrong is not None:
            raise refused(number, f"'{wrong}' is missing or of another kind")
        result = RunResult(**{key: record[key] for key in RunResult._fields})
        if result.name in results:
            raise InputError(f"{path}: line {number} repeats the run {result.name}")
        results[result.name] = result
    return list(results.values()), lines[-1][1] if lines else 0


def _first_wrong(record: Mapping[str, Any]) -> str | None:
    """The key of a line without which no table can be made."""
    for key, kind in _KINDS.items():
        if not isinstance(record.get(key), kind):
            return key
    if not record["iterations"]:
        return "iterations"
    for flight in record["iterations"]:
        if not isinstance(flight, dict):
            return "iterations"
        for key, kind in _FLIGHT_KINDS.items():
            if key not in flight or not isinstance(flight[key], kind):
                return key
    return None


def _check_version(where: str, record: Mapping[str, Any]) -> None:
    version = record.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{where}: has schema version {version}; this program reads {SCHEMA_VERSION}. "
            f"Nothing was changed: read it with the version of lafr-mjx that wrote it, or give "
            f"another folder"
        )


def _refuse_contradictions(folder: Path, config: Mapping[str, Any]) -> None:
    there = read_config(folder)
    usual = RunSpec().table()  # for what earlier versions do not say
    for key in {**there["ablation"], **config["ablation"]}:
        old, new = there["ablation"].get(key, usual.get(key)), config["ablation"].get(key)
        if old != new:
            raise InputError(
                f"{folder}: holds an ablation with {key} = {_short(old)}, not {_short(new)}; "
                f"repeat its arguments to go on, or give another folder"
            )
    for what, digest in config["digests"].items():
        if there.get("digests", {}).get(what) != digest:
            raise InputError(
                f"{folder}: the {what} is not what it was when the ablation began; it cannot go "
                f"on under other conditions: give another folder"
            )


def _short(value: Any) -> str:
    return "nothing" if value is None else str(value)
