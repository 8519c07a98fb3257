# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Flights on a simulated clock, on the real plant."""

import numpy as np
import pytest
from rig import PROFILE, SimFlight, leg

from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.simulator.injected import parse
from lafr_mjx.hil.simulator.physics import GROUND_M, Physics
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle

FAST = 0.42  # time scale of the figure-8: 5.3 m/s, the baseline's best


@pytest.fixture
def flight(plant):
    def start(*faults, moment=0):
        plant.reset(moment)
        return SimFlight(plant, faults)

    return start


def test_a_whole_flight_on_the_baseline(flight):
    sim = flight().tracking(leg(0))
    errors = []

    def flown():
        flyer = sim.logic.flyer
        if flyer.stage == "track" and sim.logic._reference is not None:
            errors.append(np.linalg.norm(sim.truth[:3] - sim.logic._reference))
        return bool(flyer.finished)

    assert sim.run(9.0, flown)
    rmse = float(np.sqrt(np.mean(np.square(errors))))
    assert rmse < 0.15, "the geometric controller in 5 m/s wind"
    assert sim.run(10.0, lambda: (sim.logic.flyer.stage, sim.logic.flyer.leg) == ("hold", None)), (
        "brake and hold"
    )
    sim.say(Word.HOVER)
    sim.run(0.5)
    assert sim.mode is Mode.HOVER
    sim.say(Word.LAND)
    assert sim.run(12.0, lambda: sim.mode is Mode.OFF)
    sim.run(3.0)
    assert sim.logic.over and not sim.drone.pilot.armed and sim.drone.crashed == ""
    assert sim.truth[2] == pytest.approx(GROUND_M, abs=0.01)
    names = [name for _, name in sim.calls]
    assert names[0] == "enable" and "start" in names and names[-1] == "off"
    assert names.count("land") <= 2, "once, and once more where the guard's floor stops it"
    assert "disable" not in names and "trigger_guard" not in names
    assert not any("fault" in text for _, text in sim.events), sim.events
    assert sim.logic.down


def test_two_legs_with_a_lap_between(flight):
    sim = flight().tracking(leg(0, time_scale=0.6, lap_on=True))
    assert sim.run(9.0, lambda: sim.logic.flyer.stage == "lap")
    sim.run(3.0)
    assert sim.logic.flyer.stage == "lap", "keeps lapping while the learner works"
    sim.logic.flyer.offer(leg(1, time_scale=0.6))
    assert sim.run(12.0, lambda: sim.logic.flyer.stage == "track")
    assert np.linalg.norm(sim.truth[3:6]) < 0.3, "every leg starts from rest"
    assert np.linalg.norm(sim.truth[:3] - (0.0, 0.0, 1.5)) < 0.2
    assert sim.run(9.0, lambda: sim.logic.flyer.finished == [0, 1])
    assert sim.mode is Mode.POLICY


def test_policy_that_gives_nan_is_never_sent(flight):
    from lafr_mjx.control.network_mlp import Mlp
    from lafr_mjx.control.policy import create_policy

    policy = create_policy(np.random.default_rng(0), PROFILE.command.limits, "mlp(hidden=[8, 8])")
    broken = policy._replace(
        network=Mlp(
            tuple(layer._replace(weight=layer.weight * np.nan) for layer in policy.network.layers)
        )
    )
    with np.errstate(invalid="ignore"):
        sim = flight().tracking(leg(0, policy=broken, seconds=60.0))
        sim.run(1.0)
    assert sim.logic.machine.rung.name == "BASELINE"
    assert sim.mode is Mode.POLICY
    sent = [c for *_, c, _ in sim.history if c is not None]
    assert np.isfinite(sent).all()
    assert sim.run(4.0, lambda: sim.mode is Mode.HOVER), "the baseline gives up after its time"


def test_short_loss_of_motion_capture_needs_the_operator_again(flight):
    sim = flight().tracking(leg(0, seconds=60.0))
    sim.run(2.0)
    sim.drone.injector.add(parse("mocap-drop@+0:0.3", sim.time))
    sim.run(1.0)
    assert sim.mode is Mode.HOVER, "neither back by itself nor landed"
    sim.run(2.0)
    assert sim.mode is Mode.HOVER
    sim.say(Word.POLICY)
    sim.run(0.1)
    assert sim.mode is Mode.POLICY


@pytest.mark.parametrize(("latency", "oldest"), [(0.03, 0.041), (0.09, 0.05)])
def test_never_a_command_from_an_old_state(flight, latency, oldest):
    sim = flight().tracking(leg(0, seconds=60.0))
    sim.run(1.0)
    assert max(sim.ages) < 0.005
    sim.drone.injector.add(parse(f"latency@+0:2:{latency}", sim.time))
    sim.run(0.16)  # if it goes on for longer, it counts as a jump of the clock
    # The delay, one cycle of the drone and the wire; never more than the limit.
    assert 0.02 < max(sim.ages) <= oldest
    assert (sim.mode is Mode.POLICY) == (latency < 0.05)


def test_a_cable_keeps_the_battery_from_emptying(plant):
    settings = load_scenario("wind5").drawn(0).settings_for(0)[0]
    fed = Physics(load_vehicle("lafr192"), settings, cable=True)
    plant.reset()
    hover = np.tile([9.81, 0.0, 0.0, 0.0], (5, 1))

    def falls(physics):
        """By how much in 20 s, after it has settled under load."""
        voltages = [physics.step(hover).voltage for _ in range(2500)]
        return voltages[500] - voltages[-1]

    assert falls(plant) > 0.05
    assert abs(falls(fed)) < 0.01
