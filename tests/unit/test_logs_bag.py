"""ROS bags, written with other code than they are read with (`rosbags`' own writer)."""

from __future__ import annotations

import numpy as np
import pytest
from log_flights import fly
from rosbags.rosbag1 import Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.log_readers import ReadOptions, read_logs
from lafr_mjx.logs.readers.ros_bag import read_bag
from lafr_mjx.logs.resample import uniform

MADE = fly(6.0)
START = 1.7e9  # s; float64 stamps keep a microsecond

DEFINITIONS = {
    "agiros_msgs/msg/Command": """std_msgs/Header header
float64 t
bool is_single_rotor_thrust
float64 collective_thrust
geometry_msgs/Vector3 bodyrates
float64[4] thrusts
""",
    "agiros_msgs/msg/QuadState": """std_msgs/Header header
float64 t
geometry_msgs/Pose pose
geometry_msgs/Twist velocity
geometry_msgs/Twist acceleration
geometry_msgs/Vector3 acc_bias
geometry_msgs/Vector3 gyr_bias
geometry_msgs/Vector3 jerk
geometry_msgs/Vector3 snap
float64[] motors
""",
    "mavros_msgs/msg/AttitudeTarget": """std_msgs/Header header
uint8 type_mask
geometry_msgs/Quaternion orientation
geometry_msgs/Vector3 body_rate
float32 thrust
""",
}


class Ros:
    """Messages of ROS 1 with the definitions above."""

    def __init__(self):
        self.store = get_typestore(Stores.ROS1_NOETIC)
        for name, text in DEFINITIONS.items():
            self.store.register(get_types_from_msg(text, name))

    def make(self, name, *values):
        return self.store.types[name](*values)

    def header(self, time):
        stamp = self.make("builtin_interfaces/msg/Time", int(time), round((time % 1.0) * 1e9))
        return self.make("std_msgs/msg/Header", 0, stamp, "world")

    def vector(self, v):
        return self.make("geometry_msgs/msg/Vector3", *map(float, v))

    def pose(self, i):
        w, x, y, z = map(float, MADE.quaternion[i])
        return self.make(
            "geometry_msgs/msg/Pose",
            self.make("geometry_msgs/msg/Point", *map(float, MADE.position[i])),
            self.make("geometry_msgs/msg/Quaternion", x, y, z, w),
        )

    def twist(self, linear, angular):
        return self.make("geometry_msgs/msg/Twist", self.vector(linear), self.vector(angular))

    def quad_state(self, i, time):
        zero = self.vector((0, 0, 0))
        return self.make(
            "agiros_msgs/msg/QuadState", self.header(time), time, self.pose(i),
            self.twist(MADE.velocity[i], MADE.rates[i]), self.twist((0,) * 3, (0,) * 3),
            zero, zero, zero, zero, np.zeros(4),
        )  # fmt: skip

    def odometry(self, i, time, in_body):
        velocity = MADE.velocity[i]
        if in_body:
            velocity = so3.quaternion_to_matrix(MADE.quaternion[i]).T @ velocity
        pose = self.make("geometry_msgs/msg/PoseWithCovariance", self.pose(i), np.zeros(36))
        twist = self.make(
            "geometry_msgs/msg/TwistWithCovariance",
            self.twist(velocity, MADE.rates[i]), np.zeros(36),
        )  # fmt: skip
        return self.make("nav_msgs/msg/Odometry", self.header(time), "base", pose, twist)

    def command(self, i, time, single=False):
        return self.make(
            "agiros_msgs/msg/Command", self.header(time), time, single, float(MADE.thrust[i]),
            self.vector(MADE.rate_command[i]), np.zeros(4),
        )  # fmt: skip

    def target(self, i, time):
        turn = self.make("geometry_msgs/msg/Quaternion", 0.0, 0.0, 0.0, 1.0)
        return self.make(
            "mavros_msgs/msg/AttitudeTarget", self.header(time), 128, turn,
            self.vector(MADE.rate_command[i]), float(MADE.thrust[i] / 25.0),
        )  # fmt: skip


ROS = Ros()


def write(path, topics, late=0.003):
    """Topics: name -> (type, message of a sample number and a time, every so many samples)."""
    with Writer(path) as writer:
        lines = []
        for topic, (kind, make, every) in topics.items():
            connection = writer.add_connection(topic, kind, typestore=ROS.store)
            for i in range(0, len(MADE.time), every):
                time = START + MADE.time[i]
                data = ROS.store.serialize_ros1(make(i, time), kind)
                lines.append((round((time + late) * 1e9), connection, data))
        for stamp, connection, data in sorted(lines, key=lambda line: line[0]):
            writer.write(connection, stamp, data)
    return path


def agiros(**changes):
    topics = {
        "/quad/agiros_pilot/state": ("agiros_msgs/msg/QuadState", ROS.quad_state, 1),
        "/quad/agiros_pilot/mpc_command": (
            "agiros_msgs/msg/Command", lambda i, t: ROS.command(0, t), 1),
        "/quad/agiros_pilot/feedthrough_command": ("agiros_msgs/msg/Command", ROS.command, 2),
    }  # fmt: skip
    return topics | changes


def assert_same_flight(log):
    assert log.commanded and log.usable[:-2].all()
    np.testing.assert_allclose(log.position[:-2], MADE.position[: len(log.time) - 2], atol=1e-5)
    np.testing.assert_allclose(log.velocity[:-2], MADE.velocity[: len(log.time) - 2], atol=1e-5)
    rotation = so3.quaternion_to_matrix(MADE.quaternion)[: len(log.time) - 2]
    np.testing.assert_allclose(log.rotation[:-2], rotation, atol=1e-5)
    np.testing.assert_allclose(
        log.command[:-2, 1:], MADE.rate_command[: len(log.time) - 2], atol=1e-3
    )


def test_agiros_state_and_feedthrough_command(tmp_path):
    (raw,) = read_logs(write(tmp_path / "a.bag", agiros()))
    log = uniform(raw)
    assert_same_flight(log)
    np.testing.assert_allclose(log.command[:-2, 0], MADE.thrust[: len(log.time) - 2], atol=1e-3)
    assert "feedthrough_command" in raw.notes[0]


def test_another_command_can_be_asked_for(tmp_path):
    path = write(tmp_path / "a.bag", agiros())
    raw = read_bag(path, ReadOptions(command_topic="/quad/agiros_pilot/mpc_command"))
    assert raw.thrust is not None
    np.testing.assert_allclose(raw.thrust.values, MADE.thrust[0])
    with pytest.raises(InputError, match=r"--command-topic /none: is not in .*mpc_command"):
        read_bag(path, ReadOptions(command_topic="/none"))
    with pytest.raises(InputError, match=r"holds agiros_msgs/msg/QuadState"):
        read_bag(path, ReadOptions(command_topic="/quad/agiros_pilot/state"))


@pytest.mark.parametrize("in_body", [True, False])
def test_odometry_in_either_frame_and_mavros_targets(tmp_path, in_body):
    topics = {
        "/mavros/local_position/odom": (
            "nav_msgs/msg/Odometry", lambda i, t: ROS.odometry(i, t, in_body), 1),
        "/mavros/setpoint_raw/attitude": ("mavros_msgs/msg/AttitudeTarget", ROS.target, 2),
    }  # fmt: skip
    path = write(tmp_path / "a.bag", topics)
    raw = read_bag(path)
    log = uniform(raw)
    assert_same_flight(log)
    assert any(("body" if in_body else "world") + " frame" in note for note in raw.notes)
    # Without drag the thrust carries the weight: full thrust comes out near the 25 m/s² above.
    np.testing.assert_allclose(log.command[:-2, 0], MADE.thrust[: len(log.time) - 2], rtol=0.03)
    assert any("mass cannot be told" in note for note in raw.notes)
    given = read_bag(path, ReadOptions(full_thrust=25.0))
    assert given.thrust is not None
    np.testing.assert_allclose(given.thrust.values[:, 0], MADE.thrust[::2], rtol=1e-5)


def test_bags_that_cannot_be_used(tmp_path):
    only_state = {k: v for k, v in agiros().items() if k.endswith("state")}
    with pytest.raises(InputError, match=r"no command in it: .*agiros_pilot/state"):
        read_bag(write(tmp_path / "a.bag", only_state))
    single = agiros()
    single["/quad/agiros_pilot/feedthrough_command"] = (
        "agiros_msgs/msg/Command", lambda i, t: ROS.command(i, t, single=True), 2)  # fmt: skip
    with pytest.raises(InputError, match="command single rotors"):
        read_bag(write(tmp_path / "b.bag", single))
    whole = (tmp_path / "a.bag").read_bytes()
    (tmp_path / "c.bag").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a readable bag"):
        read_bag(tmp_path / "c.bag")
    (tmp_path / "d.bag").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a readable bag"):
        read_bag(tmp_path / "d.bag")


def test_commands_after_the_flight_do_not_overlap(tmp_path):
    late = agiros()
    late["/quad/agiros_pilot/feedthrough_command"] = (
        "agiros_msgs/msg/Command", lambda i, t: ROS.command(i, t + 60.0), 2)  # fmt: skip
    with pytest.raises(InputError, match=r"overlap for 0\.00 s only"):
        uniform(read_bag(write(tmp_path / "a.bag", late)))


def test_stamps_of_zero_fall_back_to_the_recording(tmp_path):
    topics = agiros()
    topics["/quad/agiros_pilot/state"] = (
        "agiros_msgs/msg/QuadState", lambda i, t: ROS.quad_state(i, 0.0), 1)  # fmt: skip
    raw = read_bag(write(tmp_path / "a.bag", topics, late=0.003))
    assert raw.position is not None
    assert raw.position.time[0] == pytest.approx(START + 0.003, abs=1e-6)
