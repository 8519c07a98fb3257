# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Message definitions: digests that a real pilot expects, and bytes that cannot be messages."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.hil.wire import ros_messages as messages

# As published with the standard messages of ROS Noetic (rosmsg md5).
STANDARD = {
    "std_msgs/Bool": "8b94c1b53db61fb6aed406028ad6332a",
    "std_msgs/Empty": "d41d8cd98f00b204e9800998ecf8427e",
    "geometry_msgs/PoseStamped": "d3812c3cbc69362b77dc0b19b345f8f5",
    "nav_msgs/Odometry": "cd5e73d190d741a2f92e81eda573aca7",
    "sensor_msgs/BatteryState": "4ddae7f048e32fda22cac764685e3974",
}


@pytest.mark.parametrize(("name", "digest"), [*messages.AGIROS_DIGESTS.items(), *STANDARD.items()])
def test_digest(name, digest):
    assert messages.message_type(name).digest == digest


def test_digest_of_command_by_the_rule_of_ros():
    # ROS: md5 of the definition without comments, packages of the fields replaced by digests.
    vector = hashlib.md5(b"float64 x\nfloat64 y\nfloat64 z").hexdigest()
    stamped = hashlib.md5(b"uint32 seq\ntime stamp\nstring frame_id").hexdigest()
    text = (
        f"{stamped} header\nfloat64 t\nbool is_single_rotor_thrust\nfloat64 collective_thrust\n"
        f"{vector} bodyrates\nfloat64[4] thrusts"
    )
    assert (
        messages.message_type("agiros_msgs/Command").digest
        == hashlib.md5(text.encode()).hexdigest()
    )


def test_bytes_and_back():
    kind = messages.message_class("agiros_msgs/Command")
    sent = kind(messages.header(12.5, 7), 1.0, False, 9.81, messages.vector([1, 2, 3]), np.ones(4))
    got = messages.decode("agiros_msgs/Command", messages.encode("agiros_msgs/Command", sent))
    assert (got.collective_thrust, got.bodyrates.z, got.header.seq) == (9.81, 3.0, 7)
    assert messages.seconds(got.header.stamp) == 12.5


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=600), st.sampled_from([*messages.AGIROS_DIGESTS, *STANDARD]))
def test_random_bytes_are_a_message_or_malformed(data, name):
    try:
        message = messages.decode(name, data)
    except messages.MalformedError:
        return
    assert len(messages.encode(name, message)) == len(data)


@pytest.mark.parametrize("name", ["agiros_msgs/QuadState", "agiros_msgs/Telemetry"])
def test_a_message_cut_anywhere_is_malformed(name):
    whole = messages.encode(name, _blank(name))
    for end in range(len(whole)):
        with pytest.raises(messages.MalformedError):
            messages.decode(name, whole[:end])
    with pytest.raises(messages.MalformedError):
        messages.decode(name, whole + b"\0")


def _blank(name):
    m = messages
    still = m.twist([0] * 3, [0] * 3)
    state = m.message_class("agiros_msgs/QuadState")(
        m.header(0.0), 0.0, m.pose([0] * 3, [1, 0, 0, 0]), still, still,
        *(m.vector([0] * 3) for _ in range(4)), np.zeros(4),
    )  # fmt: skip
    if name.endswith("QuadState"):
        return state
    return m.message_class(name)(
        m.header(0.0), 0.0, m.text("sim"), m.boolean(True), m.boolean(False), 0, 0.0, 0.0, state,
        16.0,
    )  # fmt: skip
