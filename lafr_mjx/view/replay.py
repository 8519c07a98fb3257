"""What is watched: the flights of a run folder, one recorded flight, or flights made for it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.logs.flown_ticks import flights_of_bag
from lafr_mjx.logs.readers.ros_bag import READER as BAGS
from lafr_mjx.plant.scenario import Scenario, load_scenario
from lafr_mjx.plant.vehicle import Vehicle, load_vehicle
from lafr_mjx.reference.path import derivatives
from lafr_mjx.runs import embedded_files, rollout_file
from lafr_mjx.runs.run_folder import RunFolder
from lafr_mjx.tasks import Task, load_task
from lafr_mjx.view.shown_flight import Flight, flight_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lafr_mjx.reference import path as paths
    from lafr_mjx.types import Rollout

_SAME_PATH_M = 0.01


@dataclass(frozen=True, eq=False)
class Replay:
    """Flights of one vehicle on one task."""

    name: str  # e.g. "figure8 · wind5 · ours"
    task: Task
    vehicle: Vehicle
    flights: tuple[Flight, ...]
    note: str = ""  # what the viewer should be told, e.g. that a run was cut short

    @property
    def top_speed(self) -> float:
        """Largest speed of all flights [m/s], for the scale of colours; at least 1."""
        return max(1.0, *(float(flight.speed.max()) for flight in self.flights))

    def chosen(self, numbers: Sequence[int] | None) -> Replay:
        """Only the flights of these numbers, in their order."""
        if not numbers:
            return self
        known = {flight.number: flight for flight in self.flights}
        missing = [number for number in numbers if number not in known]
        if missing:
            raise InputError(
                f"--flights {missing[0]}: {self.name} has the flights {_listed(list(known))}"
            )
        return replace(self, flights=tuple(known[number] for number in numbers))


def load_replay(source: Path, task: str | None = None, vehicle: str | None = None) -> Replay:
    """Load the folder of a run, the `.npz` of one recorded flight, or a drone's recording.

    Args:
        source: what to show; of a bag, all flights that its control process made.
        task: task of a recorded flight, which does not know it; for a run only if its own task
            file is gone.
        vehicle: likewise.
    """
    if source.is_file():
        if task is None:
            raise InputError(f"{source}: a recorded flight does not name its task; give --task")
        loaded = load_vehicle(vehicle or "lafr192")
        flown = load_task(task)
        name = f"{flown.name} · {source.name}"
        if BAGS.recognises(source):
            return Replay(name, flown, loaded, tuple(_flights_of_bag(source, flown, loaded)))
        rollout, path = _load_flight(source, flown)
        flight = flight_of(rollout, flown, loaded, None, 0, source.stem, path)
        return Replay(name, flown, loaded, (flight,))
    return _load_run(source, task, vehicle)


def replay_of(
    rollout: Rollout, task: Task, vehicle: Vehicle, scenario: Scenario, title: str
) -> Replay:
    """A flight that was just flown."""
    flight = flight_of(rollout, task, vehicle, scenario, 0, title)
    return Replay(f"{task.name} · {scenario.name} · {title}", task, vehicle, (flight,))


def _load_run(source: Path, task_name: str | None, vehicle_name: str | None) -> Replay:
    folder = RunFolder.open(source)
    given = folder.config.get("run")
    if not isinstance(given, dict):
        raise InputError(f"{source / 'config.toml'}: has no table [run]; it is of no adaptation")
    given = embedded_files.located(folder.config)
    numbers = folder.rollout_numbers()
    if not numbers:
        advice = "" if "hil" in folder.config else f": go on with lafr-mjx adapt --resume {source}"
        raise InputError(
            f"{source}: has no recorded flight (rollouts/000.npz and so on); the run may have been "
            f"cut short before its first flight{advice}"
        )
    vehicle = _named(load_vehicle, source, given, "vehicle", vehicle_name)
    task = _named(load_task, source, given, "task", task_name)
    scenario = None
    with contextlib.suppress(InputError, KeyError, TypeError, ValueError):
        # Only for the wind; a run of somebody else's scenario file can still be watched.
        seed, plant = int(given.get("seed", 0)), int(given.get("plant", 0))
        scenario = load_scenario(given["scenario"]).drawn(seed, plant)
    flights = []
    for number in numbers:
        file = source / "rollouts" / f"{number:03d}.npz"
        rollout, path = _load_flight(file, task)
        title = f"iteration {number}"
        flights.append(flight_of(rollout, task, vehicle, scenario, number, title, path))
    parts = (task.name, _stem(given.get("scenario", "")), str(given.get("method", "")))
    name = " · ".join(part for part in parts if part)
    return Replay(name, task, vehicle, tuple(flights), _note(source, given, numbers))


def _flights_of_bag(source: Path, task: Task, vehicle: Vehicle) -> Iterator[Flight]:
    for number, rollout in flights_of_bag(source).items():
        checked = _checked(rollout, source)
        _check_on_path(checked, None, task, source)
        yield flight_of(checked, task, vehicle, None, number, f"flight {number}", None)


def _note(source: Path, given: dict[str, Any], numbers: list[int]) -> str:
    planned = given.get("iterations")
    if isinstance(planned, int) and len(numbers) < planned:
        return (
            f"{source}: {len(numbers)} of {planned} iterations are there; the run is not finished"
        )
    return ""


def _named(load: Any, source: Path, given: dict[str, Any], key: str, override: str | None) -> Any:
    if override is not None:
        return load(override)
    if not isinstance(given.get(key), str):
        raise InputError(f"{source / 'config.toml'}: 'run.{key}' is missing; give --{key}")
    try:
        return load(given[key])
    except InputError as error:
        raise InputError(f"{error} ('run.{key}' of {source}; --{key} gives another)") from error


def _load_flight(source: Path, task: Task) -> tuple[Rollout, paths.Path | None]:
    """A flight that can be shown, and its reference if the file has it."""
    rollout = _checked(rollout_file.load_rollout(source), source)
    path = rollout_file.load_path(source)
    _check_on_path(rollout, path, task, source)
    return rollout, path


def _checked(rollout: Rollout, source: Path) -> Rollout:
    """A flight that can be shown: two ticks at least, finite, in the order of time."""
    valid = np.asarray(rollout.valid).astype(bool)
    if valid.sum() < 2:
        raise InputError(f"{source}: has {int(valid.sum())} ticks; a flight to show has 2 or more")
    time = np.asarray(rollout.time, float)[valid]
    shown = (rollout.truth.position, rollout.truth.velocity, rollout.truth.rotation,
             rollout.reference.position, rollout.reference.rotation,
             rollout.phase, rollout.phase_rate)  # fmt: skip
    if not all(np.isfinite(np.asarray(array)[valid]).all() for array in (rollout.time, *shown)):
        raise InputError(f"{source}: holds numbers that are not finite")
    if not np.all(np.diff(time) > 0.0):
        raise InputError(f"{source}: 'time' does not increase")
    return rollout._replace(valid=valid)


def _check_on_path(rollout: Rollout, flown: paths.Path | None, task: Task, source: Path) -> None:
    """What was asked in the flight must be the task's path, or another task was flown.

    A reference that the learner planned may leave it, as far as errors may.
    """
    valid = np.asarray(rollout.valid)
    asked = np.asarray(rollout.reference.position, float)[valid]
    if flown is None:
        path = np.asarray(derivatives(task.path, np.asarray(rollout.phase, float)[valid]))[:, 0, :3]
        off, allowed = np.linalg.norm(asked - path, axis=-1), _SAME_PATH_M
    else:
        off, allowed = task.distance(asked), task.error_threshold_m
    if off.max() > allowed:
        raise InputError(
            f"{source}: is not a flight of the task '{task.name}': what was asked is up to "
            f"{off.max():.2f} m off its path; give the task that was flown by --task"
        )


def _stem(name_or_path: str) -> str:
    return str(name_or_path).rsplit("/", 1)[-1].removesuffix(".toml")


def _listed(numbers: list[int]) -> str:
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
