"""Hardware in the loop: a drone in the plant's place.

    import lafr_mjx as lm
    run = lm.hil.fly("figure8", vehicle="sim", scenario="wind5", out="runs/drone")
    run.table["peak_speed_mps"]

What is named here is loaded when it is first used; the rest is private. What runs in the control
process imports no JAX. The software drone (`simulator/`) shares nothing with the rest but the
message definitions and the plant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lafr_mjx.hil.hil_api import check, compare, fly, replay
    from lafr_mjx.hil.operator.drone_plant import HilPlant
    from lafr_mjx.hil.operator.operator_steps import land, take_off
    from lafr_mjx.hil.operator.session import Session
    from lafr_mjx.hil.safety.drone_profile import load_profile

__all__ = [
    "HilPlant", "Session", "check", "compare", "fly", "land", "load_profile", "replay", "take_off",
]  # fmt: skip

_WHERE = {
    "HilPlant": "operator.drone_plant",
    "Session": "operator.session",
    "land": "operator.operator_steps",
    "load_profile": "safety.drone_profile",
    "take_off": "operator.operator_steps",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lafr_mjx.hil' has no attribute {name!r}")
    where = importlib.import_module(f"lafr_mjx.hil.{_WHERE.get(name, 'hil_api')}")
    return getattr(where, name)
