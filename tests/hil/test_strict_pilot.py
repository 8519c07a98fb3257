# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""What the real pilot was seen to do, one test for each of its surprises."""

import numpy as np
import pytest
from pilot_rig import HOVER, Rig

from lafr_mjx.errors import RunError
from lafr_mjx.hil.simulator import drone_server
from lafr_mjx.hil.simulator.estimator import Estimator
from lafr_mjx.hil.simulator.injected import Injector, parse
from lafr_mjx.hil.simulator.pilot import CYCLE_S, Bridge, Settings, rotation
from lafr_mjx.hil.simulator.time_keeper import RealTime
from lafr_mjx.plant.vehicle import load_vehicle

NO_GUARD = Settings(has_guard=False)


def faulty(*texts, **options):
    return Rig(injector=Injector([parse(text) for text in texts]), **options)


# ------------------------------------------------------------------ land, enable, start


def test_a_second_land_while_it_lands_hovers():
    rig = Rig().fly(2.5)
    rig.call("land")
    rig.run(1.0)
    assert rig.pilot.mode == "land" and rig.drone.plant.velocity[2] < -0.3
    rig.call("land")
    here = rig.height
    rig.run(3.0)
    assert rig.pilot.mode == "hover" and rig.height == pytest.approx(here, abs=0.1)
    rig.call("land")
    rig.run(1.0)
    assert rig.pilot.mode == "land" and rig.height < here - 0.2


def test_landing_is_stopped_by_the_guard_at_its_floor():
    rig = Rig().fly()
    rig.call("land")
    rig.run(4.0)
    assert rig.report.guard and rig.pilot.mode == "hover"
    assert rig.height == pytest.approx(0.5, abs=0.1)
    rig.call("land")
    rig.run(3.0)
    assert rig.on_ground and rig.report.guard and rig.drone.crashed == ""


def test_after_disable_a_debug_bridge_says_that_it_is_armed():
    rig = Rig().arm()
    assert (rig.report.bridge, rig.report.armed) == ("sbus", True)
    rig.call("enable", False)
    rig.run(0.5, (20.0, 0.0, 0.0, 0.0))
    assert "debug" in rig.report.bridge and rig.report.armed
    assert rig.on_ground and not rig.pilot.armed, "no motor hears it"
    rig.call("off")
    rig.run(0.1)
    assert (rig.report.bridge, rig.report.armed) == ("sbus", False)


def test_references_survive_disable_and_the_next_enable_lifts_off():
    rig = Rig().arm()
    rig.call("start")
    rig.call("enable", False)
    rig.run(1.0)
    assert rig.on_ground and rig.report.references == 1
    rig.call("enable", True)
    rig.run(3.0)
    assert rig.height > 0.9, "without start"


def test_a_short_disable_in_the_air_flies_on():
    rig = Rig().fly(2.0)
    rig.call("enable", False)
    rig.run(0.2)
    fallen = rig.height
    assert fallen < 1.9 and rig.report.references == 1
    rig.call("enable", True)
    rig.run(3.0)
    assert rig.height > fallen and rig.pilot.mode == "hover"


def test_off_forgets_the_references():
    rig = Rig().fly()
    rig.land()
    rig.call("off")
    assert rig.run(0.1).references == 0
    rig.call("enable", True)
    rig.run(2.0)
    assert rig.on_ground


def test_a_stream_after_off_leaves_a_reference():
    rig = Rig().arm()
    rig.call("off")
    rig.run(0.3, HOVER)
    assert rig.run(0.2).references == 1 and rig.on_ground
    rig.call("enable", True)
    rig.run(0.5)
    assert rig.pilot.mode == "hover" and rig.pilot.own[0] > 9.0, "without start"
    # While the stream still flows there is none, and `off` after it takes it away.
    rig.call("off")
    assert rig.run(0.2, HOVER).references == 0
    rig.run(0.2)
    rig.call("off")
    assert rig.run(0.1).references == 0


@pytest.mark.parametrize("armed", [False, True])
def test_land_without_a_reference_ends_the_process(armed):
    rig = Rig()
    rig.run(0.2)
    if armed:
        rig.arm()
    assert rig.report.state is not None
    rig.call("land")
    assert "reference" in rig.pilot.died
    rig.run(0.5)
    assert rig.report.state is None, "no state, no telemetry"
    assert rig.report.mocap is not None and rig.report.battery is not None
    rig.run(0.5, (20.0, 0.0, 0.0, 0.0))
    assert rig.on_ground, "nobody hears a stream any more"


def test_the_drones_process_ends_with_its_pilot(master, capsys, monkeypatch):
    monkeypatch.setattr(
        drone_server.os, "sched_setscheduler", lambda *_: None
    )  # this process is ours
    rig = Rig()
    rig.call("land")
    with pytest.raises(RunError, match="land without a reference"):
        drone_server.serve(rig.drone, "quad", master.uri, "127.0.0.1", 30.0, RealTime())
    assert "PILOT DIED" in capsys.readouterr().out


# ------------------------------------------------------------------ the guard


def test_a_call_outside_of_the_box_puts_the_guard_out_of_order_until_off():
    rig = Rig().arm()
    rig.call("trigger_guard")  # on the ground, below its floor
    rig.call("start")
    rig.run(4.0)
    assert not rig.report.guard
    rig.call("trigger_guard")
    assert not rig.run(0.1).guard, "lost for calls inside of the box, too"
    rig.call("go_to_pose", (0.0, 0.0, 5.6))
    rig.run(6.0)
    assert rig.height > 5.3 and not rig.report.guard
    rig.call("land")
    rig.run(14.0)
    assert rig.on_ground and not rig.report.guard, "nothing stops a landing at the floor"
    rig.call("off")
    rig.arm()
    rig.call("start")
    rig.run(4.0)
    rig.call("trigger_guard")
    assert rig.run(0.1).guard


def test_a_pilot_without_a_guard():
    rig = Rig(settings=NO_GUARD).fly()
    rig.call("trigger_guard")
    assert not rig.run(0.5).guard
    rig.call("go_to_pose", (0.0, 0.0, 5.6))
    rig.run(6.0)
    assert rig.height > 5.3 and not rig.report.guard
    rig.call("land")
    rig.run(14.0)
    assert rig.on_ground and not rig.report.guard


def test_the_guards_hover_is_not_clipped_into_its_box():
    rig = Rig().fly()
    while not rig.report.guard and rig.now < 20.0:
        rig.run(CYCLE_S, (15.0, 0.0, 0.0, 0.0), every=1)
    assert rig.pilot.target[2] > 5.02
    rig.run(8.0)
    assert rig.height == pytest.approx(rig.pilot.target[2], abs=0.02)


# ------------------------------------------------------------------ without motion capture


def test_the_estimator_goes_on_with_the_last_rates_and_acceleration():
    estimator = Estimator(0.0)
    acceleration, rates = np.array([2.0, 0.0, -1.0]), np.array([1.0, 0.0, 0.0])
    for k in range(60):
        velocity = 0.01 * k * acceleration
        sample = np.concatenate([np.zeros(3), velocity, [1.0, 0.0, 0.0, 0.0], rates])
        last = estimator.update(sample)
    for _ in range(100):
        now = estimator.go_on()
    assert np.allclose(now.velocity - last.velocity, acceleration, atol=0.01), "after 1 s"
    way = last.velocity + 0.5 * acceleration
    assert np.allclose(now.position - last.position, way, atol=0.02)
    assert np.array_equal(now.rates, last.rates)
    angle = np.arctan2(rotation(now.quaternion)[2, 1], rotation(now.quaternion)[2, 2])
    assert angle == pytest.approx(last.rates[0], abs=0.02)
    assert Estimator(0.0).go_on() is None


def test_hover_drifts_away_when_motion_capture_stops():
    rig = faulty("mocap-drop@5:9").fly()
    rig.run(0.7)
    before = rig.position.copy()
    rig.run(2.2)
    assert rig.report.mocap is None
    assert rig.report.state is not None and rig.report.time == pytest.approx(rig.now), "and fresh"
    assert np.linalg.norm(rig.position - before) > 1.0
    assert np.linalg.norm(rig.report.state.position - rig.report.truth[:3]) > 1.0


def test_it_runs_away_when_motion_capture_stops_at_speed():
    rig = faulty("mocap-drop@4.9:9").fly()
    rig.run(0.2, (10.5, 0.0, 3.0, 0.0))
    rig.run(0.6, (11.0, 0.0, 0.0, 0.0))
    assert rig.report.mocap is None
    speed = np.linalg.norm(rig.drone.plant.velocity)
    assert speed > 2.0
    rig.run(1.5)
    error = rig.report.state.velocity - rig.report.truth[3:6]
    assert np.linalg.norm(error) > 3.0, "what the pilot believes has nothing to do with it"


def test_the_guards_own_position_freezes_without_motion_capture():
    rig = faulty("mocap-drop@4.5:4").fly()
    rig.run(0.5, HOVER)
    rig.run(3.0, (11.5, 0.0, 0.0, 0.0))
    assert rig.height > 6.0 and rig.report.mocap is None
    assert not rig.report.guard, "it is inside of the box by what was last seen"
    rig.run(1.0, HOVER)
    assert rig.report.mocap is not None and rig.report.guard


def test_motion_capture_that_repeats_itself_shows_a_vehicle_that_stands():
    rig = faulty("mocap-freeze@4.9:9").fly()
    rig.run(0.2, (9.81, 0.0, 2.0, 0.0))
    rig.run(1.0, (10.6, 0.0, 0.0, 0.0))
    assert rig.report.truth[3] > 3.0, "it flies on"
    state = rig.report.state
    assert np.linalg.norm(state.velocity) < 0.01 and np.array_equal(state.rates, np.zeros(3))
    assert np.array_equal(state.position[:2], rig.report.mocap.position[:2])


# ------------------------------------------------------------------ what is said of it


def test_without_the_batterys_topic_telemetry_says_15_5_volts():
    rig = faulty("voltage@0:99:12.0", "battery-stop@1:3")
    assert (rig.run(0.9).voltage, rig.report.battery) == (12.0, 12.0)
    for _ in range(3):
        assert (rig.run(0.9).voltage, rig.report.battery) == (15.5, None)
    assert (rig.run(0.9).voltage, rig.report.battery) == (12.0, 12.0)


def test_rates_in_the_state_are_late_and_noisy():
    rig = Rig().fly(2.0)
    said, true = [], []
    for k in range(600):
        rates = 2.0 * np.sin(0.6 * k + np.arange(3))
        rig.run(CYCLE_S, (9.81, *rates), every=1)
        said.append(rig.report.state.rates)
        true.append(rig.report.truth[10:13])
    said, true = np.array(said)[10:], np.array(true)[10:]
    lags = [np.std(said[3:] - true[3 - lag : len(true) - lag]) for lag in range(4)]
    assert np.argmin(lags) == 1, "10 ms"
    assert lags[1] == pytest.approx(0.09, abs=0.008)
    assert rig.report.state.quaternion == pytest.approx(rig.report.truth[6:10], abs=0.05)


def test_hover_has_no_integral():
    sag = 9.81 * (1.0 / 0.9 - 1.0) / 8.0
    rig = Rig(gain=0.9).fly()
    rig.run(2.0)
    first = rig.height
    assert first == pytest.approx(1.05 - sag, abs=0.02)
    rig.run(10.0)
    assert rig.height == pytest.approx(first, abs=0.005), "however long"


def test_feedthrough_waits_for_the_next_cycle():
    rig = Rig(command_delay_s=0.0).arm()
    rig.drone.feedthrough(rig.now + 0.001, (5.0, 0.0, 0.0, 0.0))
    rig.drone.feedthrough(rig.now + 0.002, (20.0, 0.0, 0.0, 0.0))
    rig.run(CYCLE_S)
    assert rig.drone.plant.velocity[2] == 0.0, "the motors do not have it yet"
    rig.run(CYCLE_S)
    assert rig.drone.plant.velocity[2] == pytest.approx(10.19 * CYCLE_S), "the newest one"


# ------------------------------------------------------------------ the bridge


def test_a_locked_bridge_stops_state_and_telemetry_until_off():
    rig = faulty("pilot-hang@1:0.6").arm()
    rig.call("start")
    rig.run(0.6)
    assert rig.report.state is not None
    rig.run(0.8)
    assert rig.drone.bridge.locked
    assert rig.report.state is None and rig.report.mocap is not None
    rig.run(1.0)
    assert rig.report.state is None, "the pilot's cycle alone does not unlock it"
    rig.call("off")
    assert rig.run(0.1).state is not None and not rig.report.armed


def test_time_outs_count_down_again():
    bridge, now = Bridge(), 0.0
    for _ in range(8):  # one time-out each, and two commands after it
        bridge.heard(now)
        assert not bridge.alive(now + 0.11, True)
        bridge.heard(now + 0.12)
        bridge.heard(now + 0.13)
        now += 0.13
        assert not bridge.locked
    for count in range(1, 5):  # the first command after a silence takes nothing back
        bridge.heard(now)
        assert not bridge.alive(now + 0.11, True)
        assert bridge.locked == (count == 4)
        now += 0.12


def test_a_pilot_that_hangs_now_and_then_is_never_locked():
    rig = faulty(*(f"pilot-hang@{5 + 0.5 * k:g}:0.12" for k in range(8))).fly()
    rig.run(5.0)
    assert not rig.drone.bridge.locked and rig.pilot.armed and rig.pilot.mode == "hover"


# ------------------------------------------------------------------ rotors


def test_rotors_of_the_kingfisher_are_those_of_the_public_file():
    rotors = load_vehicle("kingfisher").rotors
    assert rotors.torque_per_thrust == pytest.approx(0.022)
    assert list(np.sign(rotors.spin)) == [-1, -1, 1, 1]
