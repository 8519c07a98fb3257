"""`lafr-mjx bounds`: how fast a task can be flown at all, without delay and drag."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from tyro.conf import Positional

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.output import check_range, check_writable, print_table, write_json

if TYPE_CHECKING:
    from lafr_mjx.tasks import Task
    from lafr_mjx.time_optimal.geometry import Gates, Tube
    from lafr_mjx.time_optimal.ideal_vehicle import Ideal
    from lafr_mjx.time_optimal.task_bounds import Bound

_PAPER: dict[str, dict[str, float]] = {
    "figure8": {"ctbr_exact_path_s": 2.24, "rotor_exact_path_s": 2.02},
    "dash": {"ctbr_free_s": 1.49, "rotor_free_s": 1.42},
}
"""The paper's bounds beside the geometry that fits them; it prints none itself."""

_NOTES = {
    "figure8": "The paper's 2.24 / 2.02 s stand beside exact tracking of this figure-8: the CTBR "
    "figure fits it, the rotor figure is not reached on it.",
    "shuttle": "The paper's shuttle bounds, 1.49 / 1.42 s, do not fit this there-and-back of "
    "5.34 m; they fit 10.3 m one way from hover to hover (lafr-mjx bounds dash).",
    "dash": "The paper's 1.49 / 1.42 s, printed for its shuttle, fit this dash with free altitude; "
    "1.42 s needs --arm 0.07 --inertia 1.5e-4.",
}

_KEYS = ("ctbr_exact_path_s", "rotor_exact_path_s", "ctbr_free_s", "rotor_free_s")


@dataclass
class Bounds:
    """Compute time-optimal lower bounds of a task: no delay, no drag, no motor lag.

    lafr-mjx bounds figure8

    lafr-mjx bounds dash --arm 0.07 --inertia 1.5e-4

    lafr-mjx bounds figure8 --tube 0.1 --json bounds.json

    lafr-mjx bounds my-task.toml --only uniform

    CTBR: collective thrust and body rates within the vehicle's command limits, at once.
    Rotor: each rotor gives a quarter of the largest thrust at most, with the vehicle's inertia
    and no limit of the rates. Both on the exact path, and on a free path: through the
    task's gates; past its landmarks; from start to goal; through the points where it turns
    back; or else in a tube as wide as its error threshold.
    """

    task: Positional[str] = "figure8"
    """Name of a shipped task, or path of a task file."""
    vehicle: str = "lafr192"
    """Name of a shipped vehicle, or path of a vehicle profile."""
    only: tuple[Literal["uniform", "exact", "free"], ...] = ("uniform", "exact", "free")
    """What to compute. `uniform` alone needs no CasADi."""
    tube: float | None = None
    """Free path: within this distance of the task's path [m]."""
    waypoints: int | None = None
    """Free path: through that many points of the task's path, at equal steps of its phase."""
    waypoint_radius: float = 0.0
    """How near each of these waypoints must be passed [m]."""
    yaw: float | None = None
    """Heading that is held all along [degrees]; by default the path's own."""
    rotor_yaw: Literal["free", "held"] = "free"
    """Whether the rotor bound may turn away from that heading, by 60 degrees at most. Held
    headings are expensive for rotors: they can hardly turn about the thrust axis."""
    nodes: int = 100
    """Intervals of the free path's grid; the exact path takes four times as many."""
    thrust_max: float | None = None
    """Largest collective thrust [m/s²] instead of the vehicle's."""
    rate_max: float | None = None
    """Largest body rate of the CTBR bound [rad/s], about each axis, instead of the vehicle's."""
    arm: float | None = None
    """Distance of the rotors from the centre [m] instead of the vehicle's."""
    inertia: tuple[float, ...] = ()
    """Moments of inertia about x, y, z [kg m²] instead of the vehicle's; one is for x and y."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> dict[str, Any]:
        """Compute one bound after the other, print a table, write and return the figures."""
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.tasks import load_task
        from lafr_mjx.time_optimal.ideal_vehicle import ideal_vehicle
        from lafr_mjx.time_optimal.solver import casadi
        from lafr_mjx.time_optimal.uniform_scaling import uniform_ceiling

        check_writable(self.json)
        self._check_options()
        vehicle = load_vehicle(self.vehicle)
        task = load_task(self.task)
        ideal = self._limited(ideal_vehicle(vehicle, self.arm, self.inertia))
        path = self._path(task)
        geometry = self._geometry(task)
        started = time.monotonic()
        ceiling = uniform_ceiling(path, ideal)
        print(f"{task.name}: ceiling of uniform time scaling {ceiling:.3f} s", flush=True)
        figures: dict[str, Any] = {
            "task": task.name,
            "vehicle": vehicle.name,
            "thrust_max_mps2": ideal.thrust_high,
            "rates_max_radps": ideal.rates_high.tolist(),
            "rotor_thrust_max_n": ideal.rotor_high,
            "inertia_kgm2": ideal.inertia.tolist(),
            "yaw_deg": self.yaw,
            "rotor_yaw": self.rotor_yaw,
            "free_path": _described(geometry),
            "nodes": self.nodes,
            "uniform_ceiling_s": ceiling,
            **dict.fromkeys(_KEYS),
        }
        failures: list[str] = []
        if set(self.only) != {"uniform"}:
            casadi()
            bounds, failures = self._compute(path, geometry, ideal, ceiling)
            figures |= _figures(bounds, failures)
            self._print(task, geometry, bounds)
        figures |= {"paper": _PAPER.get(task.name), "wall_s": time.monotonic() - started}
        write_json(self.json, figures)
        if failures:
            raise RunError("; ".join(failures))
        return figures

    def _check_options(self) -> None:
        if not self.only:
            raise InputError("--only: name at least one of uniform, exact, free")
        check_range("nodes", self.nodes, 20, 1000)
        if self.tube is not None and self.waypoints is not None:
            raise InputError("--tube and --waypoints: only one of them can be given")
        check_range("waypoints", self.waypoints, 2, 50)
        if self.waypoint_radius and self.waypoints is None:
            raise InputError("--waypoint-radius: needs --waypoints")
        for name, value, low, high in (
            ("tube", self.tube, 0.001, 10.0),
            ("waypoint-radius", self.waypoint_radius, 0.0, 10.0),
            ("yaw", self.yaw, -360.0, 360.0),
            ("thrust-max", self.thrust_max, 10.0, 1000.0),
            ("rate-max", self.rate_max, 0.1, 1000.0),
        ):
            check_range(name, value, low, high)

    def _limited(self, ideal: Ideal) -> Ideal:
        if self.thrust_max is not None:
            ideal = ideal._replace(thrust_high=self.thrust_max)
        if self.rate_max is not None:
            ideal = ideal._replace(rates_high=np.full(3, self.rate_max))
        return ideal

    def _path(self, task: Task) -> Any:
        if self.yaw is None:
            return task.path
        coefficients = np.array(task.path.coefficients, dtype=float)
        coefficients[:, 3] = 0.0
        coefficients[:, 3, 0] = math.radians(self.yaw)
        return task.path._replace(coefficients=coefficients)

    def _geometry(self, task: Task) -> Tube | Gates:
        from lafr_mjx.time_optimal.geometry import Tube, default_geometry, evenly_spaced

        if self.tube is not None:
            return Tube(self.tube)
        if self.waypoints is not None:
            return evenly_spaced(task, self.waypoints, self.waypoint_radius)
        return default_geometry(task)

    def _compute(
        self, path: Any, geometry: Tube | Gates, ideal: Ideal, ceiling: float
    ) -> tuple[dict[str, Bound], list[str]]:
        """What was found, by key, and why the rest was not."""
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        from lafr_mjx.time_optimal import task_bounds as compute
        from lafr_mjx.time_optimal.ideal_vehicle import ModelName

        bounds: dict[str, Bound] = {}
        failures: list[str] = []
        models: tuple[ModelName, ...] = ("ctbr", "rotor")
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, transient=True) as progress:
            job = progress.add_task("")
            for model in models:
                free_yaw = model == "rotor" and self.rotor_yaw == "free"
                band = compute.YAW_BAND if free_yaw else 0.0
                try:
                    progress.update(job, description=f"{model} bound on the exact path")
                    # A free path starts from the exact one, so this is needed in any case.
                    exact = compute.exact_bound(
                        path, ideal, model, compute.EXACT_FACTOR * self.nodes,
                        1.5 * ceiling, band,
                    )  # fmt: skip
                    if "exact" in self.only:
                        bounds[f"{model}_exact_path_s"] = exact[0]
                    if "free" in self.only:
                        progress.update(job, description=f"{model} bound, {geometry.words}")
                        bounds[f"{model}_free_s"] = compute.free_bound(
                            path, geometry, ideal, model, self.nodes, exact, band
                        )
                except RunError as error:
                    failures.append(str(error))
        return bounds, failures

    def _print(self, task: Task, geometry: Tube | Gates, bounds: dict[str, Bound]) -> None:
        paper = _PAPER.get(task.name, {})
        rows = []
        for key in _KEYS:
            exact = key.endswith("exact_path_s")
            if ("exact" if exact else "free") not in self.only:
                continue
            model = "CTBR" if key.startswith("ctbr") else "rotor"
            where = "exact path" if exact else geometry.words
            published = f"{paper[key]:.2f}" if key in paper else "-"
            bound = bounds.get(key)
            if bound is None:
                rows.append((model, where, "none", "-", "-", "-", published))
                continue
            rows.append(
                (model, "the exact path, after all" if bound.on_exact_path else where,
                 f"{bound.seconds:.3f}", f"{bound.refinement[0][1]:.3f}",
                 f"{bound.check.peak_speed_mps:.1f}", f"{bound.check.peak_rate_radps:.1f}",
                 published)
            )  # fmt: skip
        columns = ("limits", "geometry", "s", "half grid", "m/s", "rad/s", "paper s")
        what = "lap" if task.periodic else "from hover to hover"
        title = f"{task.name}: shortest possible {what}, without delay and drag"
        print_table(title, columns, rows, text_columns=2)
        if self.rotor_yaw == "free":
            print("CTBR holds the heading; the rotor bounds may leave it by up to 60 degrees.")
        if task.name in _NOTES:
            print(_NOTES[task.name])


def _described(geometry: Tube | Gates) -> dict[str, Any]:
    described: dict[str, Any] = {
        "geometry": geometry.words,
        "radius_m": np.asarray(geometry.radius).tolist(),
    }
    points = getattr(geometry, "points", None)
    if points is not None:
        described["points_m"] = points.tolist()
    return described


def _figures(bounds: dict[str, Bound], failures: list[str]) -> dict[str, Any]:
    """The JSON's keys, the bounds first."""
    figures: dict[str, Any] = {key: bound.seconds for key, bound in bounds.items()}
    for name in ("exact_path", "free"):
        bound = bounds.get(f"rotor_{name}_s")
        peak = None if bound is None else bound.check.peak_rate_radps
        figures[f"rotor_{name}_peak_rate_radps"] = peak
    named = {key.removesuffix("_s"): bound for key, bound in bounds.items()}
    figures["refinement"] = {
        name: [{"intervals": n, "seconds": s} for n, s in bound.refinement]
        for name, bound in named.items()
    }
    figures["solver"] = {
        name: {"status": bound.status, "iterations": bound.iterations, "wall_s": bound.wall_s}
        for name, bound in named.items()
    }
    figures["check"] = {name: bound.check._asdict() for name, bound in named.items()}
    figures["free_path_is_exact"] = [name for name, b in named.items() if b.on_exact_path]
    return figures | {"failures": failures}
