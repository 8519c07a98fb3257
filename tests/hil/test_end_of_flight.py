# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalOperand=false
"""Every flight ends on the ground: on a simulated clock, by a drone as strict as the real pilot.

LAFR_HIL_REPEATS repeats each at other random moments. LAFR_HIL_POLICY names a learned policy
(policy.npz of a run) and LAFR_HIL_TIME_SCALE its time scale, to fly faster than the baseline can.
"""

import os
from pathlib import Path

import fault_table
import numpy as np
import pytest
from rig import PROFILE, START, SimFlight, leg

from lafr_mjx.control.policy_file import load_policy
from lafr_mjx.hil.drones.agilicious import CALLS
from lafr_mjx.hil.safety.emergency_landing import EmergencyLanding, known_of
from lafr_mjx.hil.safety.landing import Heights
from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.simulator.injected import parse
from lafr_mjx.hil.simulator.physics import GROUND_M, Physics
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle

REPEATS = int(os.environ.get("LAFR_HIL_REPEATS", "1"))
FAST = float(os.environ.get("LAFR_HIL_TIME_SCALE", "0.42"))  # 0.42: 5.3 m/s, the baseline's best
POLICY = os.environ.get("LAFR_HIL_POLICY")
WHERE = ["at hover", "in the pilot's hover", "at speed"]
LIMITS = PROFILE.limits

LAND_S = 8.0
STOP_S = 8.0
BLIND_S = 3.0
HIGHER_M = 0.3
FASTER_MPS = 1.0
TOUCH_MPS = 1.5


@pytest.fixture(scope="module", params=["nominal", "wind5", "payload"])
def world(request):
    settings = load_scenario(request.param).drawn(0).settings_for(0)[0]
    return request.param, Physics(load_vehicle("lafr192"), settings)


@pytest.fixture
def flight(world):
    """A flight at a random moment, with what is known of its world."""

    def start(where, *seeds):
        name, plant = world
        rng = np.random.default_rng([*seeds, WHERE.index(where)])
        plant.reset(int(rng.integers(1 << 20)))
        sim = SimFlight(plant)
        policy = load_policy(Path(POLICY)) if POLICY else None
        if where == "at speed":
            sim.tracking(leg(0, time_scale=FAST, seconds=100.0, policy=policy))
            sim.run(2.0 + 4.0 * rng.random())
        elif where == "at hover":
            sim.policy()
            sim.run(0.5 + rng.random())
        else:
            sim.hover()
            sim.run(0.5 + rng.random())
        return sim, f"{where}, {name}"

    return start


class Watched:
    """What the true vehicle did from a moment on, to the motors' stop and beyond."""

    def __init__(self, sim):
        self.sim, self.begin = sim, sim.time
        self.start = sim.truth.copy()
        self.top = self.speed  # m/s, before it touched the ground
        self.highest = float(sim.truth[2])
        self.off = self.touch = self.taken_over = None
        self.touch_mps = 0.0

    @property
    def speed(self):
        return float(np.linalg.norm(self.sim.truth[3:6]))

    def look(self):
        sim, truth = self.sim, self.sim.truth
        self.highest = max(self.highest, float(truth[2]))
        if self.touch is None:
            if truth[2] <= GROUND_M + 1e-4:
                self.touch = sim.time - self.begin
            else:
                self.touch_mps = -float(truth[5])
                self.top = max(self.top, self.speed)
        if self.off is None and not sim.drone.pilot.armed:
            self.off = sim.time - self.begin
        if self.taken_over is None and sim.mode is not Mode.POLICY:
            self.taken_over = self.speed

    def run(self, seconds, until=lambda: False):
        """Go on for so long, or until that."""
        return self.sim.run(seconds, lambda: (self.look(), until())[1])


def seconds(value, bound):
    return float(np.inf if value is None else value), bound


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_normal_landing(flight, where, attempt):
    sim, told = flight(where, 1, attempt)
    seen = Watched(sim)
    sim.say(Word.LAND)
    seen.run(20.0, lambda: sim.logic.down)
    down, higher = sim.time - seen.begin, seen.highest - seen.start[2]
    fault_table.note_end(
        "normal landing, confirmed down", told, s=(down, LAND_S), higher_m=(higher, HIGHER_M)
    )
    assert sim.logic.down and down <= LAND_S, sim.events[-6:]
    assert higher <= HIGHER_M
    assert sim.drone.crashed == "" and sim.drone.pilot.died == ""
    names = [name for _, name in sim.calls]
    assert names.count("land") <= 2 and "trigger_guard" not in names
    # And the next flight begins, with nothing left over of this one.
    sim.run(2.0)
    sim.say(Word.RESET)
    assert sim.run(1.0, lambda: sim.mode is Mode.PREFLIGHT), sim.events[-3:]
    sim.hover()


@pytest.mark.parametrize("scale", [1.15, 1.3])
def test_a_landing_does_not_climb(world, scale):
    """Rotors that give more than the pilot believes: each further `land` would lift its hover."""
    name, plant = world
    if name == "payload":
        return
    plant.reset(5)
    sim = SimFlight(plant, [f"motor-weak@0:1000:{scale}"])
    plant.rotor_scale[:] = scale
    sim.policy()
    sim.run(1.0)
    seen = Watched(sim)
    sim.say(Word.LAND)
    seen.run(20.0, lambda: sim.logic.down)
    assert sim.time - seen.begin <= LAND_S and seen.highest - seen.start[2] <= HIGHER_M
    assert [call for _, call in sim.calls].count("land") <= 2


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_emergency_stop(flight, where, attempt):
    sim, told = flight(where, 2, attempt)
    seen = Watched(sim)
    sim.around = {"stop": True}
    seen.run(20.0, lambda: seen.off is not None)
    higher = seen.highest - seen.start[2]
    fault_table.note_end(
        "emergency stop, motors off", told, s=seconds(seen.off, STOP_S), higher_m=(higher, 1.0)
    )
    assert seen.off is not None and seen.off <= STOP_S, sim.events[-6:]
    assert sim.drone.crashed == "" and seen.touch is not None, "on the ground, not in the air"
    assert not sim.drone.pilot._guard_broken


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_emergency_stop_alone(flight, where, attempt):
    """The control process is dead; the second person's stop has nothing but its calls."""
    sim, told = flight(where, 3, attempt)
    sim.alive = False
    sim.run(0.3)
    seen, landing, heights = Watched(sim), EmergencyLanding(PROFILE), Heights()
    landing.begin(START + sim.time)
    calls = []

    def stops():
        heights.see(sim._heard.mocap_receipt, float(sim._heard.mocap_position[2]))
        known = known_of(START + sim.time, sim._heard, heights.climb(), GROUND_M)
        for name in (CALLS[call][0] for call in landing.calls(known)):
            calls.append(name)
            sim.drone.call(sim.time, name)
        return landing.done

    seen.run(20.0, stops)
    fault_table.note_end("emergency stop alone, motors off", told, s=seconds(seen.off, STOP_S))
    assert landing.done and seen.off <= STOP_S, calls
    assert sim.drone.crashed == "" and sim.drone.pilot.died == ""
    assert seen.touch is not None and calls.count("land") <= 2
    assert not sim.drone.pilot._guard_broken


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", ["mocap-drop", "mocap-freeze"])
def test_motion_capture_lost_for_good(flight, kind, where, attempt):
    sim, told = flight(where, 44, attempt)
    seen = Watched(sim)
    sim.drone.injector.add(parse(f"{kind}@+0", sim.time))
    seen.run(4.0)
    started = float(np.linalg.norm(seen.start[3:6]))
    fault_table.note_end(
        f"{kind} for good", told, off_s=seconds(seen.off, BLIND_S),
        faster_mps=(seen.top - started, FASTER_MPS), touch_mps=(seen.touch_mps, TOUCH_MPS),
        drift_m=(float(np.linalg.norm((sim.truth - seen.start)[:2])), 9.0),
    )  # fmt: skip
    assert seen.off is not None and seen.off <= BLIND_S, sim.events[-6:]
    assert sim.drone.crashed == ""
    assert any("nobody sees the vehicle" in text for _, text in sim.events), "told at once"
    # A payload that the rate loop does not know of lets it overshoot while it brakes, unseen; in
    # wind a gust carries a vehicle that nobody sees; while motion capture repeats itself the
    # policy flies by a state that stands still. What that comes to is in the table.
    if where != "at speed" or (kind == "mocap-drop" and "payload" not in told):
        assert seen.touch_mps <= TOUCH_MPS
    # What accelerates does so until the loss is noticed; from then on it does not.
    if kind == "mocap-drop" and "wind5" not in told:
        assert seen.top <= seen.taken_over + FASTER_MPS


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("lost_s", [0.08, 0.15])
def test_motion_capture_back_early_is_a_hover(flight, where, lost_s, attempt):
    sim, told = flight(where, 5, attempt)
    seen = Watched(sim)
    sim.drone.injector.add(parse(f"mocap-drop@+0:{lost_s}", sim.time))
    seen.run(1.5)
    assert not any("motion capture is gone" in text for _, text in sim.events), "no descent"
    if "payload" in told and where != "at speed":
        return  # the pilot's hover, without integral, sags through the floor of its guard
    seen.run(2.5)
    assert sim.mode is Mode.HOVER, sim.events[-5:]
    assert sim.drone.pilot.armed and not sim.drone.pilot.guard
    assert abs(sim.truth[2] - seen.start[2]) < 0.5 and seen.speed < 0.3
    assert sim.drone.crashed == ""


@pytest.mark.parametrize("lost_s", [0.4, 0.8, 1.2, 1.6])
def test_motion_capture_back_later_ends_high_in_a_hover_and_low_on_the_ground(flight, lost_s):
    sim, told = flight("at hover", 6)
    sim.drone.injector.add(parse(f"mocap-drop@+0:{lost_s}", sim.time))
    sim.run(8.0)
    high = lost_s == 0.4 and "payload" not in told
    assert sim.mode in ((Mode.HOVER,) if high else (Mode.HOVER, Mode.OFF)), sim.events[-5:]
    assert sim.drone.crashed == ""


def test_motion_capture_lost_under_the_guard_cuts_what_cannot_be_flown(flight):
    sim, _ = flight("at speed", 7)
    sim.drone.injector.add(parse("guard@+0:0.1", sim.time))
    sim.run(0.5)
    assert sim.drone.pilot.guard and sim.mode is Mode.GUARD
    begin = sim.time
    sim.drone.injector.add(parse("mocap-drop@+0", sim.time))
    assert sim.run(1.0, lambda: not sim.drone.pilot.armed)
    assert sim.time - begin <= LIMITS.mocap_lost_s + 0.05


def test_motors_that_somebody_cuts_end_the_stream(flight):
    """Else the stream would leave a reference behind, and the next `enable` would lift off."""
    sim, _ = flight("at speed", 8)
    sim.drone.call(sim.time, "off")
    sim.run(0.5)
    assert sim.mode is Mode.OFF
    last = [t for t, _, _, sent, _ in sim.history if sent is not None][-1]
    assert sim.time - last > 0.4
    sim.run(1.0)
    assert sim.drone.pilot.references == 0


@pytest.mark.parametrize("silent_s", [0.5, 1.0, 3.2])
def test_a_link_that_comes_back_bit_by_bit_does_not_end_in_the_air(flight, silent_s):
    """The state is there again before motion capture: the pilot flies, and never lost it."""
    sim, _ = flight("at hover", 9)
    begin, held = sim.time, sim._heard

    def partly(heard):
        if sim.time < begin + silent_s:
            return held
        if sim.time < begin + silent_s + 0.1:
            return heard._replace(mocap_position=held.mocap_position,
                                  mocap_receipt=held.mocap_receipt,
                                  mocap_number=held.mocap_number)  # fmt: skip
        return heard

    sim.hook = partly
    sim.run(silent_s + 8.0, lambda: not sim.drone.pilot.armed)
    assert all(mode is not Mode.BLIND for _, mode, *_ in sim.history)
    assert sim.drone.pilot.armed or sim.truth[2] < GROUND_M + 0.05, sim.events[-6:]
    assert sim.drone.crashed == ""
