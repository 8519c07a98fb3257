"""The lag of the commands, by least squares: weights of the last commands, none negative.

The measured turn of each step is explained by the rates that were commanded before it, the
measured specific force along the body's z axis by the commanded thrusts. The newest command
has no weight, for it reacts to the noise of the very state that it is fitted with. A little
of the expected lag is added as data, so that an axis that never moves has a sensible answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

from lafr_mjx import so3
from lafr_mjx.model.residual import COMMANDS, LAG_PRIOR
from lafr_mjx.types import CONTROL_DT, GRAVITY

if TYPE_CHECKING:
    from lafr_mjx.model.data import Transitions

_PRIOR_WEIGHT = 1e-3  # share of the data that the expected lag counts for
_FLOOR = (0.3, 0.1, 0.1)  # m/s², rad/s, rad/s: smaller motion of a command says little


def measured_rates(rows: Transitions) -> np.ndarray:
    """Mean body rates over each step [N, 3], from the attitudes at its ends."""
    now, after = np.asarray(rows.now.rotation, float), np.asarray(rows.after.rotation, float)
    return np.asarray(so3.log(np.swapaxes(now, -1, -2) @ after)) / CONTROL_DT


def mean_axis(rows: Transitions, turn: np.ndarray) -> np.ndarray:
    """Mean over each step of the body's z axis in the world [N, 3] (Simpson's rule)."""
    now = np.asarray(rows.now.rotation, float)
    middle, end = now @ so3.exp(0.5 * turn), now @ so3.exp(turn)
    return (now[..., 2] + 4.0 * middle[..., 2] + end[..., 2]) / 6.0


def specific_force(rows: Transitions) -> np.ndarray:
    """Mean acceleration over each step without gravity [N, 3], world."""
    change = np.asarray(rows.after.velocity, float) - np.asarray(rows.now.velocity, float)
    return change / CONTROL_DT + np.array([0.0, 0.0, GRAVITY])


def estimate(rows: Transitions) -> np.ndarray:
    """Weights [3, COMMANDS] for thrust, roll and pitch, yaw; each row sums to one."""
    good = np.asarray(rows.usable, bool)
    if good.sum() < 10 * COMMANDS:
        return LAG_PRIOR.copy()
    rates = measured_rates(rows)
    axis = mean_axis(rows, CONTROL_DT * rates)
    thrust = np.sum(specific_force(rows) * axis, axis=-1)
    # Drag along the thrust moves with it and would look like a lag.
    along = np.sum(np.asarray(rows.before.velocity, float) * axis, axis=-1)
    commands = np.asarray(rows.commands, float)
    channels = ([(thrust, 0)], [(rates[:, 0], 1), (rates[:, 1], 2)], [(rates[:, 2], 3)])
    constant = np.ones((int(good.sum()), 1))
    beside = (np.column_stack([constant, along[good]]), constant, constant)
    return np.stack(
        [
            _weights(
                [(y[good], commands[good, :, axis]) for y, axis in group], others, floor, prior
            )
            for group, others, floor, prior in zip(channels, beside, _FLOOR, LAG_PRIOR, strict=True)
        ]
    ).astype(np.float32)


def _weights(
    pairs: list[tuple[np.ndarray, np.ndarray]],
    beside: np.ndarray,
    floor: float,
    prior: np.ndarray,
) -> np.ndarray:
    """Weights for some targets [N] and commands [N, COMMANDS], with `beside` [N, n] explained."""
    gram, moment, spread = np.zeros((COMMANDS - 1,) * 2), np.zeros(COMMANDS - 1), 0.0
    for target, past in pairs:
        both = np.column_stack([past[:, 1:], target])
        both = both - beside @ np.linalg.lstsq(beside, both)[0]
        x = both[:, :-1]
        gram += x.T @ x
        moment += x.T @ both[:, -1]
        spread += float(np.mean(x**2) + floor**2) * len(target)
    weight = _PRIOR_WEIGHT * spread
    gram += weight * np.eye(COMMANDS - 1)
    moment += weight * prior[1:]
    # The factor of the normal equations turns them into a small least-squares problem.
    factor = np.linalg.cholesky(gram)
    found, _ = nnls(factor.T, np.linalg.solve(factor, moment))
    if found.sum() < 1e-6:
        return prior.copy()
    return np.concatenate([[0.0], found / found.sum()])
