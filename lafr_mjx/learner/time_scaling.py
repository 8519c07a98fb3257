"""How fast to fly next: what a rule of time scaling is. The rules are a file each, `ats_*.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from lafr_mjx import parts
from lafr_mjx.control.departure import WINDOWS
from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.learner.verify import Prediction
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import Rollout

CANDIDATES = 8
"""Time scales at which a rule asks the model, in each iteration."""


class Pace(NamedTuple):
    """A flight that is to be made, and what the model expects of it."""

    time_scale: Any  # α
    predicted: Any  # m, peak error from the reference after the ramp; NaN: none was predicted
    expected: Any  # [WINDOWS] m, largest departure until then, see `control/departure.py`


class LastFlight(NamedTuple):
    """What was asked of the last flight, and what came of it."""

    pace: Pace  # at which it was flown
    error: Any  # m, sensed peak error, judged by what it takes of the room; 2 after a crash
    threshold: Any  # m, E_th: largest error that speeding up may cause
    peak_acceleration: Any  # m/s², of the path at α = 1
    slowest: Any  # α of the longest flight that the learner takes
    tracked: Any = None  # m, the same from the reference after the ramp; None: as the error
    departed: Any = None  # [WINDOWS] m, as `Pace.expected`
    event: Any = False  # the guard slowed it down, or the last good policy had to take over

    @property
    def first(self) -> Any:
        """Whether it was the first: by the base policy, with no prediction."""
        return jnp.isnan(self.pace.predicted)

    @property
    def violation(self) -> Any:
        """Whether it speaks against its time scale: too large an error, or only with help."""
        return jnp.logical_not(self.error <= self.threshold) | self.event

    @property
    def surprise(self) -> Any:
        """Flown over predicted error; NaN for the first.

        What follows the guard's help is calm: with it, the departure that called for it counts.
        """
        flown = self.error if self.tracked is None else self.tracked
        usual = (flown + 0.02) / (self.pace.predicted + 0.02)
        departed = flown if self.departed is None else self.departed
        helped = jnp.max((departed + 0.02) / (self.pace.expected + 0.02))
        return jnp.where(self.event, jnp.maximum(usual, helped), usual)


class Evidence(NamedTuple):
    """All that a rule can base its choice on."""

    last: LastFlight
    rollout: Rollout  # of that flight, as it was sensed
    flown: Learnable  # the policy that made it
    trained: Learnable  # the policy that was trained since
    # (policy, time scales [A], share of the full stress[, how much faster each is probed])
    predict: Callable[..., Prediction]
    path: Path
    ramp_s: Any
    ensemble: Residual
    switches: Switches


class Choice(NamedTuple):
    """What is flown next."""

    memory: Any  # of the rule
    pace: Pace
    use_new_policy: Any  # bool: the trained policy flies, not the one that flew
    keep_training: Any  # bool: training goes on from the trained policy, flown or not
    bound_by: Any  # index into the rule's `outcomes`
    landscape: Prediction  # at `CANDIDATES` time scales, for plots
    notes: dict[str, Any]  # numbers of the rule's own, for the record of the iteration


class TimeScaling(Protocol):
    """A pytree whose settings are leaves; every method is pure and has no branches on values.

    It may also have `guarded`: 0 if its flights shall be flown as they are, without the guard
    that slows the clock down and falls back (`guarded.py`); 1 is the default. A drone is always
    guarded (`speed_limit.py`).
    """

    outcomes: tuple[str, ...]
    """What may have bound a choice, in words."""

    def start(self) -> Any:
        """Memory before the first flight; any pytree."""
        ...

    def propose(self, memory: Any, last: LastFlight) -> tuple[Any, jax.Array]:
        """New memory, and the fastest time scale that the policy is to be trained for."""
        ...

    def choose(self, memory: Any, fastest: jax.Array, evidence: Evidence) -> Choice:
        """The time scale of the next flight, and which policy makes it."""
        ...


def rule_of(text: str) -> Any:
    """The rule that a text names, see `parts`.

    Raises:
        InputError: there is none, or it is no rule.
    """
    methods = ("outcomes", "start", "propose", "choose")
    rule = parts.checked(parts.TIME_SCALING, text, methods, "no rule of time scaling")
    words = rule.outcomes
    if not (isinstance(words, tuple | list) and all(isinstance(word, str) for word in words)):
        raise InputError(f"--ats {text}: its 'outcomes' must be a tuple of texts")
    return rule


def started(rule: TimeScaling) -> Any:
    """The memory that a rule begins with."""
    return _arrays("'start'", rule.start())


def proposed(rule: TimeScaling, memory: Any, last: LastFlight) -> tuple[Any, jax.Array]:
    """What a rule proposes; refused while it is traced if it is something else."""
    given = rule.propose(memory, last)
    if not (isinstance(given, tuple) and len(given) == 2) or given[1] is None:
        raise InputError(f"'propose' gives {parts.shown(given)}; it must be a memory and a number")
    return _arrays("'propose'", given)


def chosen(rule: TimeScaling, memory: Any, fastest: jax.Array, evidence: Evidence) -> Choice:
    """What a rule chooses; refused while it is traced if it is something else."""
    given = rule.choose(memory, fastest, evidence)
    if not (isinstance(given, Choice) and isinstance(given.pace, Pace)):
        kind = "a Choice without a Pace" if isinstance(given, Choice) else parts.shown(given)
        raise InputError(f"'choose' gives {kind}; it must be a Choice with a Pace")
    given = _arrays("'choose'", given)
    expected = jnp.broadcast_to(given.pace.expected, (WINDOWS,))
    return given._replace(pace=given.pace._replace(expected=expected))


def _arrays(what: str, given: Any) -> Any:
    """The same with arrays for plain numbers."""
    return jax.tree.map(jnp.asarray, parts.numbers(what, given))


def taken_as_it_is(
    memory: Any, time_scale: jax.Array, bound_by: Any, evidence: Evidence, notes: dict[str, Any]
) -> Choice:
    """The trained policy at a time scale that the model was not asked about.

    What the model predicts is written down, and the guard in flight relies on it.
    """
    time_scale = jnp.minimum(time_scale, evidence.last.slowest)
    around = time_scale * 1.2 ** jnp.linspace(-1.0, 1.0, CANDIDATES)
    # One more candidate: the time scale itself.
    found = evidence.predict(evidence.trained, jnp.append(around, time_scale), 1.0)
    here, landscape = (jax.tree.map(lambda x, at=at: x[at], found) for at in (-1, slice(-1)))
    return Choice(
        memory=memory,
        pace=Pace(time_scale, here.tracking_error, here.departure),
        use_new_policy=jnp.bool_(True),
        keep_training=jnp.bool_(True),
        bound_by=bound_by,
        landscape=landscape,
        notes=notes,
    )
