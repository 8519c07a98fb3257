# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
"""MAVLink: frames and units, by other formulas, and the profile's table."""

import dataclasses
import math
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mavlink_rig import profile_of
from scipy.spatial.transform import Rotation

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.hil.drones.mavlink_frames import (
    flipped,
    flipped_attitude,
    quaternion_of,
    thrust_share,
)
from lafr_mjx.hil.safety.drone_profile import load_profile

unit = st.floats(-1.0, 1.0)
turns = st.tuples(unit, unit, unit, unit).filter(lambda q: np.linalg.norm(q) > 0.1)


def rotation(quaternion):
    """By another library."""
    w, x, y, z = quaternion
    return Rotation.from_quat([x, y, z, w]).as_matrix()


@given(turns, st.tuples(unit, unit, unit))
def test_attitudes_turn_the_same_vectors_in_both_frames(turn, vector):
    turn = np.array(turn) / np.linalg.norm(turn)
    ned = rotation(turn) @ flipped(vector)  # a body vector of ours, over FRD to NED
    ours = rotation(flipped_attitude(turn)) @ vector
    assert np.allclose(flipped(ned), ours, atol=1e-9)


def test_axes_are_the_ones_that_the_names_say():
    north, east, down = np.eye(3)
    x, y, z = np.eye(3)
    assert np.allclose(flipped(north), x) and np.allclose(flipped(east), -y)
    assert np.allclose(flipped(down), -z)
    yaw_east = flipped_attitude((math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)))  # nose to the east
    assert np.allclose(rotation(yaw_east) @ x, -y)
    nose_up = flipped_attitude((math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0))
    assert np.allclose(rotation(nose_up) @ x, z)
    right_wing_down = flipped_attitude((math.cos(0.1), math.sin(0.1), 0.0, 0.0))
    left = rotation(right_wing_down) @ y
    assert left[2] > 0.1, "the left side rises"


@given(turns, st.tuples(unit, unit, unit))
def test_rates_are_those_of_the_attitude(turn, rates):
    """Turned on by the rates for a moment, in their frames, both attitudes stay the same one."""
    turn, dt = np.array(turn) / np.linalg.norm(turn), 1e-3
    ned = Rotation.from_matrix(rotation(turn)) * Rotation.from_rotvec(dt * np.array(rates))
    ours = rotation(flipped_attitude(turn)) @ so3.exp(dt * np.array(flipped(rates)))
    x, y, z, w = ned.as_quat()
    assert np.allclose(rotation(flipped_attitude((w, x, y, z))), ours, atol=1e-9)


@given(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1))
def test_angles_are_yaw_then_pitch_then_roll(roll, pitch, yaw):
    matrix = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_matrix()
    assert np.allclose(rotation(quaternion_of(roll, pitch, yaw)), matrix, atol=1e-9)


def test_thrust_is_scaled_by_hover_and_bounded():
    assert thrust_share(9.81, 0.3) == pytest.approx(0.3)
    assert thrust_share(19.62, 0.3) == pytest.approx(0.6)
    assert thrust_share(-1.0, 0.3) == 0.0 and thrust_share(60.0, 0.3) == 1.0


# ------------------------------------------------------------------ the profile


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('kind = "mavlink"', 'kind = "dji"', "agilicious, mavlink"),
        ('autopilot = "px4"', 'autopilot = "inav"', "px4, ardupilot"),
        ("hover_thrust = 0.3", "hover_thrust = 0.4", "of the full thrust"),
        ("hover_thrust = 0.3", "hover_thrust = 30", "<= 0.8"),
        ("silence_s = 0.2", "silence_s = 0.6", "<= 0.5"),
        ("silence_s = 0.2", "silence_s = 0.26", "'command.rates_max_radps' has 8"),
        ("silence_s = 0.2", "silence_s = 0.26", "2.1 rad in 'pilot.silence_s'"),
        ("system = 1", "system = 0", ">= 1"),
        ("state_hz = 100.0", "state_hz = 100.0\nquad = 'x'", "unknown key"),
    ],
)
def test_nonsense_in_a_profile_is_named(tmp_path, old, new, told):
    path = profile_of(tmp_path).path
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_profile(str(path))
    assert told in str(caught.value) and "mavlink.toml" in str(caught.value)


def test_its_ports_must_differ(tmp_path):
    profile = profile_of(tmp_path)
    path, port = profile.path, profile.pilot.port
    text = path.read_text(encoding="utf-8")
    first, second = profile.pilot.stop_ports
    path.write_text(text.replace(f"[{first}, {second}]", f"[{first}, {port}]"), encoding="utf-8")
    with pytest.raises(InputError, match="two others than 'port'"):
        load_profile(str(path))


def test_it_never_guards_and_its_landing_may_be_asked_for_again():
    pilot = load_profile("mavlink").pilot
    assert not pilot.guards((0.0, 0.0, 1.5)) and pilot.lands_unseen
    for sinks in (None, True, False):
        assert pilot.lands_again(0.6, sinks, False, 9.0)
        assert not pilot.lands_again(0.4, sinks, False, 0.0)
    copter = dataclasses.replace(pilot, kind="ardupilot")
    assert any("GUID_TIMEOUT is 0.2 s" in line for line in copter.checklist())


def test_without_pymavlink_it_says_how_to_get_it(monkeypatch):
    pilot = load_profile("mavlink").pilot  # a profile can be read without it
    monkeypatch.setitem(sys.modules, "pymavlink", None)
    with pytest.raises(InputError, match=re.escape("pip install 'lafr-mjx[mavlink]'")):
        pilot.check_start(None, simulated=True)


def test_there_is_no_ros_master():
    with pytest.raises(InputError, match="with MAVLink there is no ROS master"):
        load_profile("mavlink").pilot.check_start("http://127.0.0.1:11311", simulated=False)
