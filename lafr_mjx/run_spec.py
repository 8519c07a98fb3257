"""One adaptation run, completely described.

The same words are the options of `lafr-mjx adapt`, the table `run` of a run's `config.toml`, what
the runs of a study have in common, and the arguments of `lafr_mjx.adapt`.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tyro.conf import Positional, UseAppendAction  # noqa: TC002 (read at run time)

from lafr_mjx import parts
from lafr_mjx.errors import InputError, meant

MethodName = Literal[
    "ours", "baseline", "lotf", "anchor-only", "residual-only", "all-anchored", "geometric"
]
EngineName = Literal["mjx", "freebody"]
ENGINES = get_args(EngineName)
PARTS = (*(kind.option for kind in parts.KINDS), "engine")
"""Keys that name parts of the method, see `parts`."""

_RANGES = {
    "iterations": (1, 1000),
    "seed": (0, 2**31 - 1),
    "plant": (0, 2**31 - 1),
    "horizon": (5, 200),  # beyond, programs take minutes to compile
}
_NUMBERS = {
    "corridor": (0.0, math.inf),
    "noise_prior": (0.1, 10.0),
    "lag_prior": (0.4, 2.0),  # the model remembers nine commands
}
# What runs of earlier versions do not say.
_LATER = ("features", "horizon", "plugins", "policy", "reference", "cost", "log", *_NUMBERS)
_LISTS = ("plugins", "log")


class Usual(int):
    """A default: what was not said can be told from the same number that was."""


@dataclass(frozen=True)
class RunSpec:
    """One adaptation run."""

    task: Positional[str] = "figure8"
    """Name of a shipped task, or path of a task file."""
    scenario: str | None = None
    """Name of a shipped scenario, or path of a scenario file; by default the task's own."""
    vehicle: str = "lafr192"
    """Name of a shipped vehicle, or path of a vehicle profile."""
    method: MethodName = "ours"
    """Which parts of the method are on; 'geometric' is the classical controller."""
    ats: str = "verified"
    """How the time scale is chosen: verified in the model first, as printed (paper), never changed
    (hold), or by a rule of your own: FILE.py:CLASS(...)."""
    features: str = "default"
    """Inputs of the learned residual: in the world frame with learned lag (default), the paper's,
    in the body frame (body: learns from less flight), or your own: FILE.py:CLASS(...)."""
    policy: str = "mlp"
    """What is trained: the paper's network (mlp), one of your own, FILE.py:CLASS(...), or the
    policy.npz of another run, to go on from."""
    reference: str = "fixed"
    """What is flown along: the task's path (fixed), the fastest motion in the learned model
    within a corridor around it (space-time), or your own: FILE.py:CLASS(...)."""
    corridor: float = math.inf
    """How far from the task's path a planned reference may be [m]; 0 is the path itself; by default
    all of the task's room but for what tracking needs."""
    cost: str = "tracking"
    """What policies are trained for: to track the reference (tracking, its weights are parameters),
    or a cost of your own: FILE.py:CLASS(...)."""
    iterations: int = Usual(12)
    """Flights, each followed by learning."""
    seed: int = 0
    """Seed of the plant's noise and of the learner."""
    plant: int = 0
    """Which plant of a randomised scenario, drawn with the seed."""
    horizon: int = 30
    """Length of the simulated flights that the policy is trained on [steps of 20 ms]."""
    noise_prior: float = 1.0
    """Sensor noise that is expected before the first flight, times 2 mm, 0.05 m/s, 5 mrad."""
    lag_prior: float = 1.0
    """Lag of the commands that is expected before the first flight, times 50 ms."""
    engine: str = "mjx"
    """Physics: for any vehicle (mjx), the fast step for one rigid body (freebody: the same motion),
    or a plant of your own: FILE.py:CLASS(...)."""
    plugins: UseAppendAction[tuple[str, ...]] = ()
    """A plugin of your own: NAME=FILE.py:CLASS(PARAMETER=VALUE, ...); may be repeated."""
    log: UseAppendAction[tuple[str, ...]] = ()
    """What is written beside iterations.jsonl: for spreadsheets (csv), curves (tensorboard), or by
    a writer of your own: FILE.py:CLASS(...); may be repeated."""

    def __post_init__(self) -> None:
        for key in _LISTS:
            if isinstance(getattr(self, key), list):  # a file's
                object.__setattr__(self, key, tuple(getattr(self, key)))

    @staticmethod
    def of_table(table: dict[str, Any]) -> RunSpec:
        """The run that the table `run` of a configuration describes, checked."""
        keys = [field.name for field in fields(RunSpec)]
        for key in keys:
            if key not in table and key not in _LATER:
                raise InputError(f"config.toml: 'run.{key}' is missing; the run cannot go on")
            if key in table and (allowed := _allowed_instead(key, table[key])):
                raise InputError(f"config.toml: run.{key} = {table[key]!r}: must be {allowed}")
        spec = RunSpec(**{key: table[key] for key in keys if key in table})
        spec.check()
        return spec

    def check(self) -> None:
        """Refuse what cannot be flown.

        Raises:
            InputError: names the option, its value and what is allowed.
        """
        for field in fields(RunSpec):
            value = getattr(self, field.name)
            if allowed := _allowed_instead(field.name, value):
                raise InputError(f"--{option_of(field.name)} {value}: must be {allowed}")
        for kind in parts.KINDS:
            text = getattr(self, kind.option)
            if not (kind is parts.NETWORK and text.endswith(".npz")):
                parts.check_name(kind, text)
        for text in self.log:
            parts.check_name(parts.LOG, text)
        if self.engine not in (*ENGINES, "hil"):
            if not parts.parse("engine", self.engine).source:
                raise InputError(
                    f"--engine {self.engine}: must be one of {', '.join(ENGINES)}, or a plant of "
                    f"your own as FILE.py:CLASS(PARAMETER=VALUE, ...){meant(self.engine, ENGINES)}"
                )
            if self.plugins:
                raise InputError("--plugins: are effects of our own plant; --engine names another")
        printed = parts.parse("ats", self.ats)[:2] == ("", "paper")
        if printed and self.method == "geometric":
            raise InputError(f"--ats {self.ats}: differentiates a policy; 'geometric' has none")
        if self.policy != RunSpec.policy and self.method == "geometric":
            raise InputError(f"--policy {self.policy}: 'geometric' trains none")

    def located(self) -> RunSpec:
        """The same with the full paths of a user's own parts: a run may go on from anywhere."""
        full = {key: parts.located(key, getattr(self, key)) for key in PARTS}
        return replace(self, **full, log=tuple(parts.located("log", text) for text in self.log))

    def variant(self) -> str:
        """What is not usual about its parts, for the name of a folder."""
        words = [f"horizon{self.horizon}"] if self.horizon != RunSpec.horizon else []
        for key in (key for key in _NUMBERS if getattr(self, key) != getattr(RunSpec, key)):
            words.append(f"{option_of(key)}{getattr(self, key):g}")
        for key in (key for key in PARTS if key != "ats"):
            if getattr(self, key) not in (getattr(RunSpec, key), *ENGINES, "hil"):
                words.append(parts.label(getattr(self, key)))
        rule = [parts.label(self.ats)] if self.ats != RunSpec.ats else []
        return "".join(f"-{word}" for word in (*rule, *words))

    def table(self) -> dict[str, Any]:
        """The table `run` of a configuration."""
        plain = {key: list(getattr(self, key)) for key in _LISTS}
        plain |= {key: float(getattr(self, key)) for key in _NUMBERS}
        return asdict(self) | {"iterations": int(self.iterations)} | plain

    @property
    def name(self) -> str:
        """Name of its folder among runs of one experiment."""
        plant = f"-plant{self.plant}" if (self.scenario or "").startswith("randomised") else ""
        return f"{self.task}-{self.scenario}-{self.method}{self.variant()}-seed{self.seed}{plant}"

    @property
    def command(self) -> str:
        """The command that repeats it: what is usual is left out, but for the seed."""
        words = ["lafr-mjx", "adapt", self.task]
        always = ("scenario", "method", "seed")
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value is not None and (field.name in always or value != field.default):
                for one in value if isinstance(value, tuple) else (value,):
                    words += [f"--{option_of(field.name)}", str(one)]
        return shlex.join(words)


def option_of(key: str) -> str:
    """How the command line spells it."""
    return key.replace("_", "-")


def _allowed_instead(key: str, value: Any) -> str:
    """What a value must be; empty if it is that."""
    hint = get_type_hints(RunSpec)[key]
    if key in _LISTS:
        texts = isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)
        return "" if texts else "a list of texts"
    if get_origin(hint) is Literal:
        known = isinstance(value, str) and value in get_args(hint)
        return "" if known else f"one of {', '.join(get_args(hint))}"
    if key in _RANGES:
        low, high = _RANGES[key]
        whole = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if whole else f"a whole number from {low} to {high}"
    if key in _NUMBERS:
        low, high = _NUMBERS[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        within = f"of {low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"
        return "" if number and low <= value <= high else f"a number {within}"
    own = key == "scenario" and value is None
    if own or isinstance(value, str):
        return ""
    return "text: a shipped name, or the path of a file"
