"""What the world does to a flight: links, air, forces, battery, sensors; one file each.

A file of this folder is found by itself: what it ships is flown, and its keys are those of
scenarios. Its classes can be imported from here.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

from lafr_mjx.plant.plugins.plugin import (
    ActuatorPlugin,
    AirPlugin,
    CommandPlugin,
    Flow,
    ForcePlugin,
    MeasurePlugin,
    Plugin,
    SensePlugin,
    Setting,
    World,
)

__all__ = [
    "ActuatorPlugin", "AirPlugin", "CommandPlugin", "Flow", "ForcePlugin", "MeasurePlugin",
    "Plugin", "SensePlugin", "Setting", "World", "shipped",
]  # fmt: skip


@functools.cache
def shipped() -> tuple[type[Plugin], ...]:
    """The plugins of this folder, in the order in which their keys are listed."""
    modules = [
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    ]
    things = (thing for module in modules for thing in vars(module).values())
    kinds = {kind for kind in things if isinstance(kind, type) and vars(kind).get("shipped_as")}
    return tuple(sorted(kinds, key=lambda kind: (kind.listed, kind.shipped_as)))


def __getattr__(name: str) -> Any:
    for kind in shipped():
        if kind.__name__ == name:
            return kind
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
