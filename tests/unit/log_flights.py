"""Flights made by plain integration, for the tests of logs: nothing of the plant is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lafr_mjx import so3
from lafr_mjx.logs.raw_log import RawLog, Signal

GRAVITY = 9.81
FINE = 1e-3


class Made(NamedTuple):
    """Truth on the 100 Hz clock."""

    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    quaternion: np.ndarray  # w, x, y, z
    rates: np.ndarray
    thrust: np.ndarray  # [N] m/s², as commanded
    rate_command: np.ndarray


def fly(
    seconds=12.0, seed=0, drag=(0.0, 0.0, 0.0), mass_scale=1.0, delay=0.0, motor_lag=0.0,
    rate_lag=0.0, wind=(0.0, 0.0),
) -> Made:  # fmt: skip
    """A swinging flight: held 50 Hz commands, thrust behind a delay and a lag of the motors."""
    rng = np.random.default_rng(seed)
    fine = np.arange(0.0, seconds, FINE)
    count = len(fine)
    tones = rng.uniform(2.0, 7.0, (3, 4))
    phases = rng.uniform(0.0, 2.0 * np.pi, (3, 4))
    swing = np.array([0.9, 0.9, 0.4])[:, None, None]
    smooth = np.sum(swing * np.sin(tones[..., None] * fine + phases[..., None]), axis=1).T / 2.0
    lift = GRAVITY * mass_scale + np.sum(
        0.9 * np.sin(rng.uniform(1.0, 9.0, (5, 1)) * fine + rng.uniform(0, 6, (5, 1))), axis=0
    )
    # Commands hold for 20 ms.
    hold = (np.arange(count) // 20) * 20
    rate_command, thrust_command = smooth[hold], lift[hold]
    late = np.maximum(np.arange(count) - round(delay / FINE), 0)
    thrust = thrust_command[late]
    if motor_lag > 0.0:
        speed = np.sqrt(thrust)
        for i in range(1, count):
            speed[i] = speed[i - 1] + (1.0 - np.exp(-FINE / motor_lag)) * (speed[i] - speed[i - 1])
        thrust = speed**2
    turn_late = np.maximum(np.arange(count) - round(rate_lag / FINE), 0)
    rates = rate_command[turn_late]
    rotation = np.empty((count, 3, 3))
    rotation[0] = np.eye(3)
    turns = so3.exp(rates * FINE)
    for i in range(1, count):
        rotation[i] = rotation[i - 1] @ turns[i - 1]
    velocity, position = np.zeros((count, 3)), np.zeros((count, 3))
    position[0] = (0.0, 0.0, 1.5)
    air = np.array([*wind, 0.0])
    for i in range(1, count):
        r, u = rotation[i - 1], np.sqrt(max(thrust[i - 1], 0.0) / GRAVITY)
        dragged = r @ (np.asarray(drag) * u * (r.T @ (velocity[i - 1] - air)))
        acceleration = (thrust[i - 1] * r[:, 2] - dragged) / mass_scale - (0.0, 0.0, GRAVITY)
        velocity[i] = velocity[i - 1] + FINE * acceleration
        position[i] = position[i - 1] + FINE * 0.5 * (velocity[i] + velocity[i - 1])
    pick = np.arange(0, count, 10)
    quaternion = np.asarray(so3.matrix_to_quaternion(rotation[pick]))
    return Made(
        fine[pick], position[pick], velocity[pick], quaternion,
        rates[pick], thrust_command[pick], rate_command[pick],
    )  # fmt: skip


def raw_log(made: Made, *, commanded=True, **changes) -> RawLog:
    """The flight as a log; `changes` replace fields."""
    t = made.time

    def signal(values, name, held=False):
        return Signal(t, np.asarray(values, float), name, held)

    fields = {
        "position": signal(made.position, "p"),
        "velocity": signal(made.velocity, "v"),
        "quaternion": signal(made.quaternion, "q"),
        "rates": signal(made.rates, "w"),
        "thrust": signal(made.thrust[:, None], "c", commanded),
        "rate_command": signal(made.rate_command, "w_cmd", True) if commanded else None,
    }
    return RawLog(path=Path("made.npz"), name="made", **(fields | changes))


def save_npz(path: Path, made: Made, **changes) -> Path:
    arrays: dict[str, Any] = {
        "t": made.time, "p": made.position, "v": made.velocity, "q_wxyz": made.quaternion,
        "w": made.rates, "c_cmd": made.thrust, "w_cmd": made.rate_command,
    }  # fmt: skip
    arrays |= changes
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    return path
