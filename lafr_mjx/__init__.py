"""LAFR-MJX: learn agile quadrotor flight while flying.

    import lafr_mjx as lm
    run = lm.adapt("figure8", scenario="wind5", out="runs/a")
    run.table["peak_speed_mps"]

Importing this package is cheap and pulls in no JAX, so that the 50 Hz control process of a
drone can use it. What is named here is loaded when it is first used; what is not named here is
private and may change.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lafr_mjx import envs, hil
    from lafr_mjx.ablation.table import RunResult
    from lafr_mjx.api import (
        ablate,
        adapt,
        bounds,
        certify,
        check_claims,
        fit,
        fly,
        make_report,
        reproduce,
        watch,
    )
    from lafr_mjx.control.controller import Controller, Network
    from lafr_mjx.control.policy import Policy
    from lafr_mjx.errors import InputError, RunError
    from lafr_mjx.learner.cost import Cost
    from lafr_mjx.learner.loop import Plant
    from lafr_mjx.learner.references import Known, ReferencePlanner
    from lafr_mjx.learner.time_scaling import (
        Choice,
        Evidence,
        LastFlight,
        Pace,
        TimeScaling,
        taken_as_it_is,
    )
    from lafr_mjx.model.residual import ResidualNetwork
    from lafr_mjx.parts import part
    from lafr_mjx.plant.plugins import (
        ActuatorPlugin,
        AirPlugin,
        CommandPlugin,
        Flow,
        ForcePlugin,
        MeasurePlugin,
        SensePlugin,
        Setting,
    )
    from lafr_mjx.plant.rigid_body import Wrench
    from lafr_mjx.plant.scenario import load_scenario
    from lafr_mjx.plant.stepped_flight import fly_steps
    from lafr_mjx.plant.vec3 import Vec3
    from lafr_mjx.plant.vehicle import load_vehicle
    from lafr_mjx.run_spec import RunSpec
    from lafr_mjx.runs.run import Run
    from lafr_mjx.runs.writers import LogWriter
    from lafr_mjx.tasks import load_task
    from lafr_mjx.types import (
        CONTROL_DT,
        SAMPLE_DT,
        CommandLimits,
        Reference,
        Rollout,
        Sensed,
        State,
    )

__version__ = "0.3.0"

# XLA would print lines of processor features for every program that it finds in its cache. What
# goes wrong comes as an exception all the same.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

_WHERE = {
    "api": (
        "ablate", "adapt", "bounds", "certify", "check_claims", "fit", "fly", "make_report",
        "reproduce", "watch",
    ),
    "runs.run": ("Run",),
    "ablation.table": ("RunResult",),
    "run_spec": ("RunSpec",),
    "tasks": ("load_task",),
    "plant.scenario": ("load_scenario",),
    "plant.vehicle": ("load_vehicle",),
    "plant.plugins": (
        "ActuatorPlugin", "AirPlugin", "CommandPlugin", "Flow", "ForcePlugin", "MeasurePlugin",
        "SensePlugin", "Setting",
    ),
    "plant.rigid_body": ("Wrench",),
    "plant.stepped_flight": ("fly_steps",),
    "plant.vec3": ("Vec3",),
    "control.controller": ("Controller", "Network"),
    "control.policy": ("Policy",),
    "learner.cost": ("Cost",),
    "learner.loop": ("Plant",),
    "learner.references": ("Known", "ReferencePlanner"),
    "learner.time_scaling": (
        "Choice", "Evidence", "LastFlight", "Pace", "TimeScaling", "taken_as_it_is",
    ),
    "model.residual": ("ResidualNetwork",),
    "parts": ("part",),
    "runs.writers": ("LogWriter",),
    "types": (
        "CONTROL_DT", "SAMPLE_DT", "CommandLimits", "Reference", "Rollout", "Sensed", "State",
    ),
    "errors": ("InputError", "RunError"),
}  # fmt: skip
"""The public names, by the module that has them."""

_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "CONTROL_DT", "SAMPLE_DT", "ActuatorPlugin", "AirPlugin", "Choice", "CommandLimits",
    "CommandPlugin", "Controller", "Cost", "Evidence", "Flow", "ForcePlugin", "InputError", "Known",
    "LastFlight", "LogWriter", "MeasurePlugin", "Network", "Pace", "Plant", "Policy", "Reference",
    "ReferencePlanner", "ResidualNetwork", "Rollout", "Run", "RunError", "RunResult", "RunSpec",
    "SensePlugin", "Sensed", "Setting", "State", "TimeScaling", "Vec3", "Wrench", "ablate", "adapt",
    "bounds", "certify", "check_claims", "envs", "fit", "fly", "fly_steps", "hil", "load_scenario",
    "load_task", "load_vehicle", "make_report", "part", "reproduce", "taken_as_it_is", "watch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("envs", "hil"):
        return importlib.import_module(f"lafr_mjx.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'lafr_mjx' has no attribute {name!r}")
    return getattr(importlib.import_module(f"lafr_mjx.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
