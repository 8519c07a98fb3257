"""A leg: one flight that the control process is asked to make, as a file that it can trust.

The learner writes a leg (path, clock, policy) whole or not at all; the control process reads it
in a thread, checks it, and takes it between two laps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.control.departure import WINDOWS
from lafr_mjx.control.observation import ERROR
from lafr_mjx.control.policy import Policy, act
from lafr_mjx.control.policy_file import load_policy, save_policy, stored_network
from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.fallback import Fallback
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import DEGREE, Path
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from lafr_mjx.hil.safety.drone_profile import Profile

MOST_SECONDS = 120.0
MOST_ERROR_M = 2.0  # a larger error is a crash: no guard may wait for it
ERROR_ROOM_M = 0.35  # between the planned flight and the fence, when a learner plans
SPEED_SHARE = 0.9  # of the trip's speed that a learner may plan with
_MOST_SATURATED = 0.5  # share of commands at a limit on the last flight
_MOST_JUMP_M, _MOST_JUMP_MPS = 0.01, 0.1  # of a reference, where two of its segments meet
_STEEPEST = 1.875  # slope of the ramp at its middle, times its duration
_POINTS, _LEAST_POINTS = 400, 16  # at which a path is looked at; on each of its segments


class Leg(NamedTuple):
    """What is to be flown."""

    number: int
    path: Path
    time_scale: float
    ramp_s: float  # s
    seconds: float  # that are recorded
    policy: Policy | None  # None: the baseline controller
    dither: np.ndarray  # [4] standard deviation of the noise added: m/s², rad/s
    seed: int
    lap_on: bool  # go on along the path until the next leg is there
    fallback: Fallback | None = None  # behind the policy
    network: str = "mlp"  # what the network of its policies is called, see `parts`


def bare_leg(path: Path, time_scale: float, ramp_s: float) -> Leg:
    """A leg along a path of any arrays, to be judged by its reference only."""
    path = Path(*(np.asarray(field, float) for field in path))
    return Leg(0, path, time_scale, ramp_s, 8.0, None, np.zeros(4), 0, False)


def save_leg(folder: FilePath, leg: Leg) -> FilePath:
    """Write a leg and its policies; the files appear whole or not at all."""
    name = f"leg-{leg.number:03d}"
    policies = {"policy": leg.policy, "last-good": leg.fallback.last_good if leg.fallback else None}
    for what, policy in policies.items():
        if policy is not None:
            partial = folder / f".{name}-{what}.npz"
            save_policy(partial, policy, leg.network)
            partial.replace(folder / f"{name}-{what}.npz")
    guard = () if leg.fallback is None else (*leg.fallback.slow_from, leg.fallback.error_limit)
    partial = folder / f".{name}.npz"
    with partial.open("wb") as file:
        np.savez(
            file,
            number=leg.number,
            coefficients=np.asarray(leg.path.coefficients, float),
            breaks=np.asarray(leg.path.breaks, float),
            periodic=np.asarray(leg.path.periodic, float),
            timing=np.array([leg.time_scale, leg.ramp_s, leg.seconds]),
            dither=np.asarray(leg.dither, float),
            options=np.array([leg.seed, leg.lap_on, leg.policy is not None], np.int64),
            guard=np.array(guard, float),
        )
    final = folder / f"{name}.npz"
    partial.replace(final)
    return final


def load_leg(file: FilePath, known: str | None = None) -> Leg:
    """Read and check a leg.

    Args:
        file: of the leg.
        known: the one network beside the shipped one that its policies may have, for nothing is
            imported in flight; None for any.
    """
    try:
        with np.load(file, allow_pickle=False) as arrays:
            number = int(arrays["number"])
            path = Path(arrays["coefficients"], arrays["breaks"], arrays["periodic"])
            time_scale, ramp_s, seconds = (float(x) for x in arrays["timing"])
            dither = np.array(arrays["dither"], float)
            seed, lap_on, with_policy = (int(x) for x in arrays["options"])
            guarded = np.array(arrays["guard"], float)
    except Exception as error:  # a damaged file makes its readers raise almost anything
        raise InputError(f"{file}: cannot be read as a leg: {error}") from error
    segments = len(path.breaks) - 1
    good = (
        path.coefficients.shape == (segments, 4, DEGREE + 1)
        and segments >= 1
        and path.periodic.shape == ()
        and dither.shape == (4,)
        and all(np.isfinite(x).all() for x in (*path, dither))
        and bool(np.all(np.diff(path.breaks) > 0.0))
        and 0.02 <= time_scale <= 50.0
        and 0.0 <= ramp_s <= 60.0
        and 0.0 < seconds <= MOST_SECONDS
        and bool(np.all((dither >= 0.0) & (dither <= 2.0)))
        and guarded.shape in ((0,), (WINDOWS + 1,))
        and bool(np.all((guarded > 0.0) & (guarded <= MOST_ERROR_M)))
    )
    if not good:
        raise InputError(f"{file}: is not a leg that can be flown")
    policy, guard, network = None, None, "mlp"
    if with_policy:
        policy, network = _load_policy(file.with_name(f"{file.stem}-policy.npz"), known)
        if len(guarded):
            last_good, _ = _load_policy(file.with_name(f"{file.stem}-last-good.npz"), known)
            guard = Fallback(last_good, guarded[:-1], float(guarded[-1]))
    return Leg(number, path, time_scale, ramp_s, seconds, policy, dither, seed, bool(lap_on), guard,
               network)  # fmt: skip


def _load_policy(file: FilePath, known: str | None) -> tuple[Policy, str]:
    """A policy and what its network is called; one that is not known is not even imported."""
    try:
        network = stored_network(file)
    except Exception as error:  # a damaged file makes its readers raise almost anything
        raise InputError(f"{file}: cannot be read as a policy: {error}") from error
    if known is not None and network not in (known, "mlp"):
        raise InputError(f"{file}: its network {network} was not announced before the flight")
    return load_policy(file), network


def try_leg(leg: Leg, observations: np.ndarray) -> str:
    """Why the policies of a leg must not fly, judged by the last flight; empty if they may."""
    trouble = "" if leg.policy is None else try_policy(leg.policy, observations)
    if not trouble and leg.fallback is not None:
        trouble = try_policy(leg.fallback.last_good, observations)
        trouble = f"the last good policy: {trouble}" if trouble else ""
    return trouble


def try_policy(policy: Policy, observations: np.ndarray) -> str:
    """Why a policy must not fly, judged by what was seen on the last flight; empty if it may.

    At its limits it is judged without the position error that the last policy left: to answer
    a large one that never shrinks with all it has is what a good policy does.
    """
    if len(observations) == 0:
        return ""
    on_path = observations.copy()
    on_path[:, ERROR] = 0.0
    commands = np.asarray(act(policy, on_path))
    if not (np.isfinite(commands).all() and np.isfinite(act(policy, observations)).all()):
        return "it gives numbers that are not finite on the last flight"
    low, high = np.asarray(policy.limits.low), np.asarray(policy.limits.high)
    span = high - low
    at_limit = (commands <= low + 1e-3 * span) | (commands >= high - 1e-3 * span)
    worst = float(at_limit.mean(axis=0).max())
    if worst > _MOST_SATURATED:
        return f"it is at a limit for {worst:.0%} of the last flight"
    return ""


def check_leg(leg: Leg, profile: Profile, margin_m: float = 0.0, speed_share: float = 1.0) -> str:
    """Why a leg must not be flown there, judged by its reference; empty if it may.

    The reference, with its stopping distance, must stay within the fence, and below the trips of
    speed and tilt: a flight that goes as planned must not trip. With a margin, a flight that
    errs by so much need not trip either. Nor may it jump, at its start neither.
    """
    phases = _phases(leg.path)
    with np.errstate(all="ignore"):
        reference = reference_state(leg.path, phases, np.full(len(phases), 1.0 / leg.time_scale))
    positions, velocities = np.asarray(reference.position), np.asarray(reference.velocity)
    excess = [
        profile.fence.excess(p, v)
        for p, v in zip(positions.tolist(), velocities.tolist(), strict=True)
    ]
    worst = int(np.argmax(excess))
    if not excess[worst] <= -margin_m:
        return (
            f"its path comes too near to the fence: {excess[worst] + margin_m:.2f} m too far, with "
            f"the stopping distance, at phase {phases[worst]:.2f} s"
        )
    speed = float(np.linalg.norm(velocities, axis=1).max())
    if not speed <= speed_share * profile.limits.speed_mps:
        return f"it goes at {speed:.1f} m/s; allowed are {speed_share * profile.limits.speed_mps:g}"
    tilt = float(np.degrees(np.arccos(np.clip(reference.rotation[:, 2, 2].min(), -1.0, 1.0))))
    if not tilt <= profile.limits.tilt_deg:
        return f"it tilts by {tilt:.0f} degrees; allowed are {profile.limits.tilt_deg:g}"
    low, high = profile.limits.altitude_min_m, profile.limits.altitude_max_m
    if not low <= positions[:, 2].min() <= positions[:, 2].max() <= high:
        return f"it leaves the altitudes from {low:g} to {high:g} m"
    return _jump(leg, float(profile.command.limits.high[0]) - GRAVITY)


def _phases(path: Path) -> np.ndarray:
    """Where a path is looked at [s]: everywhere, however short its segments are."""
    each = max(_LEAST_POINTS, math.ceil(_POINTS / (len(path.breaks) - 1)))
    shares = np.arange(each) / each
    starts, widths = np.asarray(path.breaks)[:-1], np.diff(path.breaks)
    return np.append((starts[:, None] + widths[:, None] * shares).ravel(), path.breaks[-1])


def _jump(leg: Leg, most_mps2: float) -> str:
    """Where a leg's reference, or its velocity, jumps; empty if nowhere.

    Nor may its ramp need more than `most_mps2`, whichever way it goes.
    """
    path = leg.path
    powers, ends = np.arange(DEGREE + 1), np.array([1.0, -1.0])
    # Of each segment: at its end, and at its start.
    values = np.asarray(path.coefficients)[:, :3] @ (ends[:, None] ** powers).T
    slopes = np.asarray(path.coefficients)[:, :3, 1:] @ (
        powers[1:, None] * ends ** powers[:-1, None]
    )
    slopes = slopes * (2.0 / np.diff(path.breaks))[:, None, None] / leg.time_scale
    (end, start), (leaves, enters) = np.moveaxis(values, 2, 0), np.moveaxis(slopes, 2, 0)
    if float(path.periodic) <= 0.5:  # at rest before and after
        still = np.zeros((1, 3))
        end, start = np.vstack([start[:1], end]), np.vstack([start, end[-1:]])
        leaves, enters = np.vstack([still, leaves]), np.vstack([enters, still])
    else:
        end, leaves = np.roll(end, 1, axis=0), np.roll(leaves, 1, axis=0)
    for what, unit, gap, most in (
        ("it", "m", start - end, _MOST_JUMP_M),
        ("its velocity", "m/s", enters - leaves, _MOST_JUMP_MPS),
    ):
        gap = np.linalg.norm(gap, axis=1)
        worst = int(np.argmax(gap))
        if not gap[worst] <= most:
            return f"{what} jumps by {gap[worst]:.2g} {unit} at phase {path.breaks[worst]:.2f} s"
    first = float(np.linalg.norm(enters[0]))
    if leg.ramp_s == 0.0 and not first <= _MOST_JUMP_MPS:
        return f"it begins at {first:.1f} m/s; without a ramp it must begin at rest"
    if leg.ramp_s > 0.0 and not _STEEPEST * first / leg.ramp_s <= most_mps2:
        return (
            f"it comes to {first:.1f} m/s within {leg.ramp_s:g} s, at "
            f"{_STEEPEST * first / leg.ramp_s:.3g} m/s²; allowed are {most_mps2:.3g}"
        )
    return ""


def fastest_time_scale(leg: Leg, profile: Profile, slowest: float) -> float:
    """Smallest time scale at which a leg's path may be flown there with room for errors.

    Infinite if it may not even at `slowest`.
    """

    def allowed(scale: float) -> bool:
        return not planned_trouble(leg._replace(time_scale=scale), profile)

    if not allowed(slowest):
        return math.inf
    low, high = 0.02, slowest
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if allowed(middle) else (middle, high)
    return high


def planned_trouble(leg: Leg, profile: Profile) -> str:
    """Why a learner may not plan a leg there: with room for its errors. Empty if it may."""
    return check_leg(leg, profile, margin_m=ERROR_ROOM_M, speed_share=SPEED_SHARE)
