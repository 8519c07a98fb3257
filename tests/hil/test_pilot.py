# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The software drone's pilot, on a simulated clock: calls, streams, guard, bridge, faults."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pilot_rig import HOVER, Rig

import lafr_mjx.hil.simulator
from lafr_mjx.errors import InputError
from lafr_mjx.hil.simulator.injected import KINDS, Injector, parse
from lafr_mjx.hil.simulator.physics import GROUND_M
from lafr_mjx.hil.simulator.pilot import CYCLE_S, Bridge, Estimate, Pilot, rotation


def test_takes_off_hovers_and_lands_without_disarming():
    rig = Rig().fly()
    assert rig.height == pytest.approx(1.05, abs=0.02)
    rig.land()
    rig.run(5.0)
    assert rig.on_ground and rig.pilot.armed, "nothing disarms by itself"
    rig.call("off")
    assert not rig.run(0.1).armed


def test_feedthrough_takes_over_without_start_even_on_the_ground():
    rig = Rig()
    rig.run(0.1)
    rig.drone.feedthrough(rig.now, (15.0, 0.0, 0.0, 0.0))
    assert rig.run(0.5, (15.0, 0, 0, 0)) and rig.height == GROUND_M, "but not disarmed"
    rig.call("enable", True)
    rig.run(0.5, (15.0, 0.0, 0.0, 0.0))
    assert rig.height > 0.3
    assert rig.pilot.feeding


def test_feedthrough_times_out_to_the_cycle_and_hovers_there():
    rig = Rig().fly()
    rig.run(0.4, HOVER)
    last = rig.now - 2 * CYCLE_S  # when the last command came
    while rig.pilot.feeding:
        rig.run(CYCLE_S)
    assert rig.now - last == pytest.approx(0.11), "0.10 s is still good, 0.11 s is not"
    assert rig.pilot.mode == "hover"
    here = rig.drone.plant.position.copy()
    rig.run(2.0)
    assert np.linalg.norm(rig.drone.plant.position - here) < 0.1


@pytest.mark.parametrize("name", ["force_hover", "land", "start"])
def test_calls_do_not_stop_a_stream_of_commands(name):
    rig = Rig().fly()
    rig.run(0.2, (10.5, 0.0, 0.0, 0.0))
    rig.call(name)
    before = rig.height
    rig.run(1.0, (10.5, 0.0, 0.0, 0.0))
    assert rig.pilot.feeding
    assert rig.height > before + 0.2


def test_off_beats_a_stream_of_commands_and_clears_all():
    rig = Rig().fly()
    rig.call("trigger_guard")
    rig.run(0.1)
    assert rig.report.guard
    rig.call("off")
    rig.run(0.1, HOVER)
    assert not rig.report.armed and not rig.report.guard and rig.pilot.mode == "idle"
    rig.run(1.0, HOVER)
    assert rig.height == GROUND_M


def test_first_land_only_hovers_if_it_did_not_hover():
    rig = Rig().fly()
    rig.run(0.3, HOVER)
    rig.call("land")  # while feedthrough flies
    rig.run(2.0)
    assert rig.pilot.mode == "hover"
    rig.call("land")
    rig.run(0.1)
    assert rig.pilot.mode == "land"


def test_guard_arms_inside_latches_and_beats_feedthrough():
    rig = Rig()
    rig.run(0.1)
    rig.call("enable", True)
    rig.run(0.2)
    assert not rig.report.guard, "the ground is outside of the box, but it was never inside"
    rig.call("start")
    rig.run(4.0)
    for _ in range(400):
        rig.run(CYCLE_S, (11.5, 0.0, 0.0, 0.0), every=1)
        if rig.report.guard:
            break
    assert rig.report.guard and rig.height > 5.0
    rig.run(8.0, (20.0, 0.0, 0.0, 0.0))
    assert not rig.pilot.feeding
    assert rig.height == pytest.approx(5.0, abs=0.15), "back to where it triggered"
    rig.call("force_hover")
    assert rig.run(0.1).guard, "latched until off"


def test_guard_can_be_landed():
    rig = Rig().fly()
    rig.call("trigger_guard")
    rig.run(0.5)
    rig.call("land")
    rig.run(5.0)
    assert rig.on_ground and rig.report.guard and rig.drone.crashed == ""


def test_go_to_pose_from_hover_only():
    rig = Rig()
    rig.call("enable", True)
    rig.call("go_to_pose", (1.0, 1.0, 1.5))
    rig.run(0.5)
    assert rig.height == GROUND_M
    rig = Rig().fly()
    rig.call("go_to_pose", (2.0, -1.0, 1.5))
    rig.run(6.0)
    assert np.allclose(rig.drone.plant.position, (2.0, -1.0, 1.5), atol=0.03)


def test_bridge_gives_zero_thrust_after_each_silence():
    bridge, now = Bridge(), 0.0
    for _ in range(3):
        bridge.heard(now)
        assert bridge.alive(now + 0.10, True)
        assert not bridge.alive(now + 0.11, True)
        assert not bridge.locked
        now += 1.0
    bridge.heard(now)
    assert bridge.alive(now, True)


def test_bridge_is_locked_by_four_time_outs_until_off():
    bridge = Bridge()
    bridge.heard(0.0)
    assert not bridge.alive(0.39, True) and not bridge.locked
    assert not bridge.alive(0.41, True) and bridge.locked
    bridge.heard(0.42)
    assert not bridge.alive(0.42, True)
    bridge.reset()
    bridge.heard(0.43)
    assert bridge.alive(0.43, True)


def test_bridge_counts_nothing_while_disarmed():
    bridge = Bridge()
    bridge.heard(0.0)
    assert not bridge.alive(5.0, False) and not bridge.locked


def test_hanging_pilot_falls_and_is_disarmed():
    rig = Rig(injector=Injector([parse("pilot-hang@5:0.3")])).fly()
    before = rig.height
    rig.run(1.2)
    assert rig.height < before and not rig.drone.bridge.locked
    rig = Rig(injector=Injector([parse("pilot-hang@5:0.5")])).fly()
    rig.run(3.0)
    assert rig.drone.bridge.locked and not rig.pilot.armed


def test_faults_do_what_they_say():
    def after(text, seconds=0.5):
        rig = Rig(injector=Injector([parse(text)])).fly()
        return rig, rig.run(seconds)

    _, report = after("nan@4")
    assert np.isnan(report.state.position).all()
    report = after("voltage@4:9:12.5")[1]
    assert report.voltage == report.battery == 12.5
    assert after("clock-jump@4:9:0.25")[1].time == pytest.approx(4.7 + 0.25)
    report = after("link-loss@4")[1]
    assert report.state is None and report.mocap is None and report.battery is None
    assert after("telemetry-stop@4")[1].mocap is not None
    rig, report = after("mocap-jump@4:9:0.4")
    assert report.mocap.position[0] - report.truth[0] == pytest.approx(0.4, abs=0.02)
    rig, report = after("mocap-freeze@4")
    first = report.mocap
    second = rig.run(0.1).mocap
    assert np.array_equal(first.position, second.position) and second.stamp > first.stamp
    rig, report = after("latency@4:9:0.2")
    assert report.time == pytest.approx(rig.now - 0.2, abs=0.011)
    assert after("guard@4.2")[1].guard
    upright = rotation(after("tilt@4:9:120")[1].state.quaternion)[2, 2]
    assert upright == pytest.approx(np.cos(np.radians(120)))


def test_link_loss_keeps_commands_out():
    rig = Rig(injector=Injector([parse("link-loss@4.3:1")])).fly()
    rig.run(0.5, (12.0, 0.0, 0.0, 0.0))
    assert not rig.pilot.feeding


@pytest.mark.parametrize("text", ["", "x@1", "nan", "nan@-1", "nan@1e9", "nan@1:2:3:4", "nan@.."])
def test_bad_fault(text):
    with pytest.raises(InputError, match="--fault"):
        parse(text)


def test_every_kind_is_explained():
    assert all(text for _, text in KINDS.values())
    assert parse("voltage@+2:3", now=10.0)[1:] == (12.0, 15.0, 13.0)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["enable", "disable", "start", "land", "off", "force_hover", "trigger_guard",
                 "feed", "wait"]
            ),
            st.floats(0.0, 25.0),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_no_sequence_of_calls_breaks_the_pilot(calls):
    pilot, now = Pilot(), 0.0
    estimate = Estimate(
        np.array([0.0, 0.0, 1.0]), np.zeros(3), np.array([1.0, 0, 0, 0]), np.zeros(3)
    )
    for name, value in calls:
        if name == "feed":
            pilot.feedthrough(now, (value, 0, 0, 0))
            assert pilot.feeding or pilot.guard
        elif name in ("enable", "disable"):
            pilot.enable(name == "enable")
        elif name != "wait":
            held = pilot.references
            getattr(pilot, name)()
            assert bool(pilot.died) == (name == "land" and not held)
        if pilot.died:
            return
        for _ in range(13 if name == "wait" else 1):
            now += CYCLE_S
            command = pilot.cycle(now, estimate)
            assert (command is None) == (not pilot.armed)
            if command is not None:
                assert np.isfinite(command).all() and np.all(np.abs(command) <= 25.0)
        if name == "wait":
            assert not pilot.feeding
        if name == "off":
            assert not (pilot.armed or pilot.debug or pilot.guard or pilot.feeding)
            assert not pilot.references


def test_shares_no_code_with_the_client():
    allowed = ("lafr_mjx.hil.wire.ros_messages", "lafr_mjx.hil.simulator")
    folder = Path(lafr_mjx.hil.simulator.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
            for name in names:
                if name.startswith("lafr_mjx.hil.") and name != "lafr_mjx.hil":
                    assert name.startswith(allowed), f"{path.name} imports {name}"
                assert not name.startswith(("lafr_mjx.control", "lafr_mjx.learner")), name
