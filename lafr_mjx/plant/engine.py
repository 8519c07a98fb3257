"""The two engines behind one interface: `mjx` for any vehicle, `freebody` for one rigid body."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from lafr_mjx.errors import InputError
from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.plant.rigid_body import Inertial, Motion, Wrench
    from lafr_mjx.plant.vehicle import Vehicle

EngineName = Literal["mjx", "freebody"]

DEFAULT_TIMESTEP = 0.002
"""Physics and rate loop at 500 Hz."""


class Engine(Protocol):
    """Steps the rigid body; the physics state is the engine's own pytree."""

    @property
    def name(self) -> str:
        """Recorded with every run."""
        ...

    @property
    def timestep(self) -> float:
        """Seconds per physics step."""
        ...

    def physics(self, motion: Motion) -> Any:
        """Physics state that has this motion."""
        ...

    def motion(self, physics: Any) -> Motion:
        """Motion of the vehicle in a physics state."""
        ...

    def prepare(self, inertial: Inertial) -> Any:
        """What `advance` needs of the mass properties; constant over many steps."""
        ...

    def advance(self, mass: Any, physics: Any, wrench: Wrench) -> Any:
        """One time step under a wrench in body axes."""
        ...


def build_engine(vehicle: Vehicle, name: EngineName, timestep: float = DEFAULT_TIMESTEP) -> Engine:
    """The engine of that name for a vehicle."""
    ratio = SAMPLE_DT / timestep if timestep > 0.0 else 0.0
    if not 0.0 < timestep <= DEFAULT_TIMESTEP + 1e-9 or abs(ratio - round(ratio)) > 1e-6:
        raise InputError(
            f"timestep {timestep:g} s; it must be at most {DEFAULT_TIMESTEP:g} s and divide "
            f"{SAMPLE_DT:g} s"
        )
    if name == "freebody" and not vehicle.single_free_body:
        raise InputError(
            f"engine 'freebody' needs a vehicle of one rigid body, but {vehicle.mjcf_path} has "
            f"more joints; use engine 'mjx'"
        )
    if name not in ("mjx", "freebody"):
        raise InputError(f"unknown engine '{name}'; it must be 'mjx' or 'freebody'")
    modified = vehicle.mjcf_path.stat().st_mtime_ns
    return _cached_engine(vehicle.mjcf_path, modified, name, timestep)


@lru_cache(maxsize=16)
def _cached_engine(mjcf_path: Path, modified: int, name: EngineName, timestep: float) -> Engine:
    """One engine object per vehicle file, so that compiled programs are shared."""
    del modified  # part of the key: an edited file is read again
    if name == "freebody":
        from lafr_mjx.plant.freebody import FreeBodyEngine

        return FreeBodyEngine(timestep)
    from lafr_mjx.plant.mjx_engine import MjxEngine

    return MjxEngine(mjcf_path, timestep)
