"""The checks before take-off, each with its reason."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.hil.safety.modes import Mode
from lafr_mjx.hil.safety.trips import AIRBORNE_ONLY, Fault, Rung

if TYPE_CHECKING:
    from lafr_mjx.hil.control.tick_logic import Around
    from lafr_mjx.hil.drones.drone_protocol import Heard
    from lafr_mjx.hil.safety.drone_profile import Profile

GROUND_M = 0.3
"""A vehicle that stands is lower than this."""

_RATE_SHARE = 0.9  # of the promised rate of a topic
_SENSING_S = 0.015  # a fresh state may be that old when it comes
_ON_GROUND_ONLY = ("on the ground", "disarmed", "voltage", "references")


class Check(NamedTuple):
    """One preflight check."""

    name: str
    good: bool
    detail: str


def counts(check: Check, mode: Mode) -> bool:
    """In the air only some checks still mean something."""
    return mode in (Mode.PREFLIGHT, Mode.DISCONNECTED) or check.name not in _ON_GROUND_ONLY


def preflight(
    now: float, heard: Heard, around: Around, profile: Profile, faults: frozenset[Fault]
) -> list[Check]:
    """All checks."""
    limits, pilot, fence = profile.limits, profile.pilot, profile.fence
    checks = [Check("topics", heard.connected, "state, motion capture, telemetry; our commands")]
    rates = around.rates or {}
    for name, wanted in (("state", pilot.state_hz), ("mocap", pilot.mocap_hz)):
        rate = rates.get(name, math.nan)
        good = rate >= _RATE_SHARE * wanted
        checks.append(Check(f"{name} rate", good, f"{rate:.0f} Hz of {wanted:g}"))
    silence = now - heard.battery_receipt
    told = "never heard" if math.isinf(silence) else f"heard {silence:.1f} s ago"
    good = silence <= limits.battery_s
    checks.append(Check("battery", good, f"{pilot.told()['battery']}: {told}"))
    good = limits.voltage_preflight_v <= heard.voltage <= limits.voltage_most_v
    detail = f"{limits.voltage_preflight_v:g} to {limits.voltage_most_v:g}"
    checks.append(Check("voltage", good, f"{heard.voltage:.2f} V of {detail}"))
    position = heard.mocap_position
    inside = position is not None and bool(
        np.all(position[:2] >= fence.low[:2]) and np.all(position[:2] <= fence.high[:2])
    )
    where = "unknown" if position is None else ", ".join(f"{x:.2f}" for x in position)
    checks.append(Check("position", inside, f"{where} m, within the fence"))
    low = position is not None and float(position[2]) < GROUND_M
    checks.append(Check("on the ground", low, f"below {GROUND_M:g} m"))
    apart = math.inf
    if position is not None and heard.state is not None:
        apart = float(np.linalg.norm(np.asarray(heard.state.position) - position))
    good = apart <= limits.mocap_jump_m
    checks.append(Check("estimator", good, f"state and motion capture {apart:.3f} m apart"))
    checks.append(Check("disarmed", not heard.armed, "the bridge to the motors is disarmed"))
    # With one that is left over, `enable` would lift off without `start`.
    detail = "none is left over" if heard.references == 0 else f"{heard.references} left: call off"
    checks.append(Check("references", heard.references == 0, detail))
    detail = "it has triggered" if heard.guard else f"not triggered; {pilot.told()['guard']}"
    checks.append(Check("guard", not heard.guard, detail))
    if heard.set_up:
        checks.append(Check("set-up", False, heard.set_up))
    skew = heard.wall_skew
    good = -limits.clock_skew_s <= skew <= limits.clock_skew_s + _SENSING_S
    checks.append(Check("clocks", good, f"{1e3 * skew:.1f} ms between the machines"))
    others = ", ".join(heard.intruders) or "nobody else"
    checks.append(Check("sole commander", not heard.intruders, f"{others} gives commands"))
    detail = "it is still preparing" if around.learner_cold else "ready, or nobody learns"
    checks.append(Check("learner warm", not around.learner_cold, detail))
    serious = sorted(f.text for f in faults if f.rung >= Rung.HOVER and f not in AIRBORNE_ONLY)
    checks.append(Check("no fault", not serious, "; ".join(serious) or "none"))
    return checks
