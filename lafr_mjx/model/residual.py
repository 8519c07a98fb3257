"""The residual: a small network on features ζ of state and commands, with learned lag.

Commands act late (transport delay, motors, rate loop, camera latency). A memoryless residual
cannot express that, and the raw last commands are ambiguous in smooth flight: delay and gain
cannot be told apart, and a policy exploits the confusion. So the model acts on an *effective
command* u_eff = Σ w_j u_{k-j}, a learned average of the last commands, separate for thrust,
roll and pitch, and yaw. The newest command has no weight: it reacts to the noise of the very
state that it is fitted with.

What the network sees, and in which frame it answers, is a part that can be chosen: a file each,
`residual_*.py`. Which of its outputs count is said by switches, which are leaves.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import parts
from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from lafr_mjx.model.state import ModelState

COMMANDS = 9
"""Commands that the model remembers, newest first: u_k, u_{k-1}, ... (180 ms)."""

ACCELERATION_SCALE = 5.0  # m/s² per unit of the network's output
RATE_SCALE = 4.0  # rad/s
_LAG_SCALE = 30.0
"""Logits per unit of the lag's parameters: one flight must be enough to learn a long delay,
and Adam moves each parameter by little more than its learning rate in a step."""


def _prior(expected_ticks: float = 2.5, spread_ticks: float = 1.0) -> np.ndarray:
    ticks = np.arange(COMMANDS)
    weights = np.where(
        ticks > 0, np.exp(-0.5 * ((ticks - expected_ticks) / spread_ticks) ** 2), 0.0
    )
    return np.tile(weights / weights.sum(), (3, 1)).astype(np.float32)


LAG_PRIOR = _prior()
"""Lag that is expected before anything was learned: 50 ms, give or take 20."""

NO_LAG = np.tile(np.eye(COMMANDS)[0], (3, 1)).astype(np.float32)
"""The newest command acts at once, as in the paper's model."""


class Switches(NamedTuple):
    """Which parts of the residual are on (0 or 1)."""

    acceleration: Any = 1.0  # a_res
    rates: Any = 1.0  # ω_res
    position: Any = 0.0  # p in ζ; the paper has it
    history: Any = 0.0  # the last commands themselves in ζ
    learned_lag: Any = (1.0, 1.0, 1.0)  # thrust, roll and pitch, yaw; 0: the fixed lag below
    fixed_lag: Any = LAG_PRIOR  # [3, COMMANDS] weights, each row sums to one


class ResidualNetwork(Protocol):
    """What is learned beside the lag: a pytree whose leaves are fitted.

    It may also have `layers`, whose spectral norms are kept small, and a static function
    `switches`, which changes the switches of a method that uses it.
    """

    @classmethod
    def create(cls, rng: np.random.Generator) -> ResidualNetwork:
        """Nearly zero everywhere; parameters of its own may follow, with defaults."""
        ...

    def __call__(
        self, state: ModelState, effective: jax.Array, commands: jax.Array, switches: Switches
    ) -> tuple[jax.Array, jax.Array]:
        """Acceleration [..., 3] in the world / `ACCELERATION_SCALE`, rates in the body [..., 3].

        Args:
            state: of the vehicle.
            effective: [..., 4] command that acts now.
            commands: [..., COMMANDS, 4] the last ones, newest first.
            switches: which parts are on; those of the outputs are applied outside.
        """
        ...


class Residual(NamedTuple):
    """Parameters θ; an ensemble has a leading axis on every leaf."""

    network: Any  # a `ResidualNetwork`
    lag: Any  # [3, COMMANDS] logits of the lag / 30: thrust, roll and pitch, yaw


def create(rng: np.random.Generator, features: str = "default", **more: Any) -> Residual:
    """A residual that is nearly zero, with the expected lag; `features` as in `parts`."""
    kind, values = parts.class_of(parts.RESIDUAL, features)
    if not callable(getattr(kind, "create", None)):
        raise InputError(f"--features {features}: has no 'create': it is no residual")
    network = parts.called("features", features, partial(kind.create, rng), values | more)
    if not callable(network):
        raise InputError(f"--features {features}: has no '__call__': it is no residual")
    parts.check_weights("features", features, network)
    return Residual(network, np.log(np.maximum(LAG_PRIOR, 1e-4)) / _LAG_SCALE)


def switches_for(features: str, switches: Switches) -> Switches:
    """The switches of a method, as these inputs want them."""
    change = getattr(parts.class_of(parts.RESIDUAL, features)[0], "switches", None)
    return switches if change is None else change(switches)


def lag_weights(residual: Residual, switches: Switches) -> jax.Array:
    """Weights w [..., 3, COMMANDS] of the effective command; each row sums to one."""
    learned = jax.nn.softmax(_LAG_SCALE * residual.lag[..., 1:], axis=-1)
    learned = jnp.concatenate([jnp.zeros_like(learned[..., :1]), learned], axis=-1)
    on = jnp.asarray(switches.learned_lag)[:, None]
    return on * learned + (1.0 - on) * jnp.asarray(switches.fixed_lag)


def effective_command(weights: jax.Array, commands: jax.Array) -> jax.Array:
    """u_eff [..., 4] of the last commands [..., COMMANDS, 4]."""
    rows = weights[..., jnp.array([0, 1, 1, 2]), :]  # [..., 4, COMMANDS]
    return jnp.sum(jnp.swapaxes(rows, -1, -2) * commands, axis=-2)


def evaluate(
    residual: Residual,
    switches: Switches,
    state: ModelState,
    effective: jax.Array,
    commands: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """a_res [..., 3] in the world and ω_res [..., 3] in the body."""
    acceleration, rates = residual.network(state, effective, commands, switches)
    return (
        switches.acceleration * ACCELERATION_SCALE * acceleration,
        switches.rates * RATE_SCALE * rates,
    )
