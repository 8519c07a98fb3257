"""A user's own parts of the method, tried before a run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import parts
from lafr_mjx.adaptation.first_policy import stored_policy
from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.control.policy import create_policy
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.learner import loop, methods, references, rehearsal
from lafr_mjx.run_spec import ENGINES, RunSpec
from lafr_mjx.types import Rollout

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Controller
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import CommandLimits


def check(spec: RunSpec, task: Task, limits: CommandLimits) -> None:
    """Refuse parts that would fail in the midst of a run.

    Raises:
        InputError: names the part, where it failed and why.
    """
    if spec.engine not in (*ENGINES, "hil"):
        OwnPlant(spec.engine)
    settings = methods.settings_for(spec)
    policy: Any = geometric_controller(limits)
    if spec.policy.endswith(".npz"):
        policy = stored_policy(spec.policy, limits)
    elif spec.method != "geometric":
        policy = create_policy(np.random.default_rng(0), limits, spec.policy)
    check_reference = getattr(settings.reference, "check", None)
    if check_reference is not None:
        _called(f"--reference {spec.reference}", check_reference, task)
    options = [kind.option for kind in parts.KINDS]
    keys = [key for key in options if is_own(key, getattr(spec, key))]
    if not keys:
        return
    if "reference" in keys:
        _called(f"--reference {spec.reference}", references.check_first, settings.reference, task)
    whose = ", ".join(f"--{key} {getattr(spec, key)}" for key in keys)
    state = _called(whose, loop.start, task, policy, 0, settings, spec.features)
    _called(whose, rehearsal.rehearse, task, state, settings)
    if "reference" in keys:
        _called(f"--reference {spec.reference}", rehearsal.rehearse_plan, task, state, settings)


def is_own(option: str, text: str) -> bool:
    """Whether a part is the user's."""
    return not text.endswith(".npz") and bool(parts.parse(option, text).source)


class OwnPlant:
    """A user's plant; what goes wrong in it is told by its name."""

    def __init__(self, text: str) -> None:
        """The plant that a text names, see `parts`."""
        named = parts.parse("engine", text)
        kind = parts.own_class("engine", text, named)
        for name in ("start", "fly"):
            if not callable(getattr(kind, name, None)):
                raise InputError(f"--engine {text}: has no '{name}': it is no plant")
        self._text = text
        self._plant = parts.called("engine", text, kind, named.values)

    def start(self, seed: int) -> Any:
        """A fresh vehicle."""
        return self._tried(self._plant.start, seed)

    def fly(
        self, run: Any, controller: Controller, path: Path, clock: Clock, seconds: float
    ) -> tuple[Any, Rollout]:
        """One flight."""
        flown = self._tried(self._plant.fly, run, controller, path, clock, seconds)
        if not (isinstance(flown, tuple) and len(flown) == 2 and isinstance(flown[1], Rollout)):
            raise RunError(
                f"--engine {self._text}: 'fly' gives no pair of what goes on to the next flight "
                f"and a Rollout"
            )
        return flown

    def _tried(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (InputError, RunError):
            raise
        except Exception as error:  # whatever the user's code does
            raise RunError(f"--engine {self._text}: {parts.reason(error)}") from error


def _called(whose: str, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith("--") else f"{whose}: {text}") from error
    except Exception as error:  # whatever the user's code does
        raise InputError(f"{whose}: fails: {parts.reason(error)}") from error
