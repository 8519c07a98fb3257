"""The decoders and the encoder by `struct` against the ones that serve all types."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx import so3
from lafr_mjx.hil.drones import agilicious as link
from lafr_mjx.hil.wire import fast_messages
from lafr_mjx.hil.wire import ros_messages as messages

FAST = fast_messages.decoders(messages.message_class)
NUMBERS = st.floats(width=64)  # with infinities and NaN
TEXTS = st.text(max_size=12)


def generic(name, data):
    """What rosbags makes of it; None if it refuses."""
    package, _, kind = name.rpartition("/")
    try:
        return messages.store().deserialize_ros1(data, f"{package}/msg/{kind}")
    except Exception:
        return None


def same(one, other):
    """Equal in all fields and their types, NaN included."""
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__
        )
    if isinstance(one, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
            and one.flags.writeable == other.flags.writeable
        )
    if type(one) is float and math.isnan(one):
        return type(other) is float and math.isnan(other)
    return type(one) is type(other) and one == other


@st.composite
def states(draw):
    numbers = draw(st.lists(NUMBERS, min_size=31, max_size=31))
    make, part = messages.message_class, iter(numbers)

    def some(name, count):
        return make(name)(*(next(part) for _ in range(count)))

    vector = "geometry_msgs/Vector3"
    pose = make("geometry_msgs/Pose")(
        some("geometry_msgs/Point", 3), some("geometry_msgs/Quaternion", 4)
    )
    twists = [make("geometry_msgs/Twist")(some(vector, 3), some(vector, 3)) for _ in range(2)]
    rest = [some(vector, 3) for _ in range(4)]
    motors = np.array(draw(st.lists(NUMBERS, max_size=40)), float)
    return make("agiros_msgs/QuadState")(
        draw(headers()), draw(NUMBERS), pose, *twists, *rest, motors
    )


@st.composite
def headers(draw):
    time = messages.message_class("builtin_interfaces/Time")(
        draw(st.integers(-(2**31), 2**31 - 1)), draw(st.integers(0, 2**32 - 1))
    )
    sequence = draw(st.integers(0, 2**32 - 1))
    return messages.message_class("std_msgs/Header")(sequence, time, draw(TEXTS))


@st.composite
def sound(draw):
    """Bytes of a message that may be, with its type."""
    name = draw(st.sampled_from(sorted(FAST)))
    state = draw(states())
    if name.endswith("QuadState"):
        message = state
    elif name.endswith("PoseStamped"):
        message = messages.message_class(name)(draw(headers()), state.pose)
    elif name.endswith("Command"):
        message = messages.message_class(name)(
            draw(headers()), draw(NUMBERS), draw(st.booleans()), draw(NUMBERS),
            state.velocity.linear, np.array(draw(st.lists(NUMBERS, min_size=4, max_size=4)), float),
        )  # fmt: skip
    else:
        message = messages.message_class(name)(
            draw(headers()), draw(NUMBERS), messages.text(draw(TEXTS)),
            messages.boolean(draw(st.booleans())), messages.boolean(draw(st.booleans())),
            draw(st.integers(-(2**31), 2**31 - 1)), draw(NUMBERS), draw(NUMBERS), state,
            draw(NUMBERS),
        )  # fmt: skip
    return name, messages.encode(name, message)


@settings(deadline=None, max_examples=300)
@given(sound())
def test_sound_messages_are_the_same(made):
    name, data = made
    expected = generic(name, data)
    fast = FAST[name](data)
    assert fast is None or same(fast, expected)
    if expected is not None:
        assert same(messages.decode(name, data), expected)


@settings(deadline=None, max_examples=500)
@given(sound(), st.data())
def test_a_broken_message_is_refused_by_both_or_by_none(made, data):
    name, whole = made
    how = data.draw(st.sampled_from(["cut", "longer", "byte", "length"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    if how == "cut":
        whole = whole[:at]
    elif how == "longer":
        whole += data.draw(st.binary(min_size=1, max_size=20))
    elif how == "byte":
        whole = whole[:at] + data.draw(st.binary(min_size=1, max_size=4)) + whole[at + 1 :]
    else:  # the frame's name is said to have another length
        length = data.draw(st.integers(0, 2**32 - 1)).to_bytes(4, "little")
        whole = whole[:12] + length + whole[16:]
    expected = generic(name, whole)
    fast = FAST[name](whole)
    if expected is None:
        assert fast is None
        with pytest.raises(messages.MalformedError):
            messages.decode(name, whole)
    else:
        assert fast is None or same(fast, expected)
        assert same(messages.decode(name, whole), expected)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=500), st.sampled_from(sorted(FAST)))
def test_random_bytes_are_never_taken_for_a_message(data, name):
    if generic(name, data) is None:
        assert FAST[name](data) is None


def test_the_usual_message_is_decoded_here():
    """Else all of the above would be true of decoders that do nothing."""
    m = messages
    still = m.twist([0] * 3, [0] * 3)
    state = m.message_class("agiros_msgs/QuadState")(
        m.header(5.0, 3), 5.0, m.pose([1, 2, 3], [1, 0, 0, 0]), still, still,
        *(m.vector([0] * 3) for _ in range(4)), np.zeros(4),
    )  # fmt: skip
    telemetry = m.message_class("agiros_msgs/Telemetry")(
        m.header(5.0), 5.0, m.text("sim"), m.boolean(True), m.boolean(False), 0, 0.0, 0.0, state,
        16.0,
    )  # fmt: skip
    pose = m.pose_stamped([1, 2, 3], [1, 0, 0, 0], 5.0)
    command = m.message_class("agiros_msgs/Command")(
        m.header(5.0, 3), 5.0, True, 9.81, m.vector([1, 2, 3]), np.arange(4.0)
    )
    made = dict(zip(sorted(FAST), (command, state, telemetry, pose), strict=True))
    for name, message in made.items():
        assert same(FAST[name](m.encode(name, message)), generic(name, m.encode(name, message)))


@settings(deadline=None)
@given(
    st.integers(0, 2**40), st.floats(0.0, 2e9), st.lists(NUMBERS, min_size=4, max_size=4)
)  # fmt: skip
def test_a_command_has_the_same_bytes(sequence, wall, command):
    kind = messages.message_class("agiros_msgs/Command")
    message = kind(
        messages.header(wall, sequence), wall, False, command[0], messages.vector(command[1:]),
        np.zeros(4),
    )  # fmt: skip
    expected = messages.encode("agiros_msgs/Command", message)
    assert fast_messages.command_bytes(sequence, wall, tuple(command)) == expected


def test_our_own_bytes_of_a_command_are_decoded_here():
    """The emergency stop hears whether somebody streams."""
    data = fast_messages.command_bytes(7, 12.5, (9.81, 1.0, 2.0, 3.0))
    got = FAST["agiros_msgs/Command"](data)
    assert got is not None and (got.collective_thrust, got.bodyrates.z) == (9.81, 3.0)


# ------------------------------------------------------------------ what is read of a telemetry


@pytest.mark.parametrize(
    ("bridge", "armed", "motors"),
    [("sbus", True, True), ("sbus", False, False), ("debug", True, False), ("DEBUG", True, False),
     ("BridgeDebug", True, False), ("", True, True)],
)  # fmt: skip
def test_a_debug_bridge_is_not_armed(bridge, armed, motors):
    m = messages
    telemetry = m.message_class("agiros_msgs/Telemetry")(
        m.header(5.0), 5.0, m.text(bridge), m.boolean(armed), m.boolean(False), 0, 0.0, 0.0,
        state_message(5.0, [0] * 3, [1, 0, 0, 0], [0] * 3, [0] * 3), 16.0,
    )  # fmt: skip
    name = "agiros_msgs/Telemetry"
    assert link.motors_armed(m.decode(name, m.encode(name, telemetry))) is motors


# ------------------------------------------------------------------ what is read of a state


def state_message(stamp, position, quaternion, velocity, rates):
    m = messages
    moving, still = m.twist(velocity, rates), m.twist([0] * 3, [0] * 3)
    return m.message_class("agiros_msgs/QuadState")(
        m.header(stamp), stamp, m.pose(position, quaternion), moving, still,
        *(m.vector([0] * 3) for _ in range(4)), np.zeros(4),
    )  # fmt: skip


def test_a_state_is_read_bit_by_bit():
    rng = np.random.default_rng(0)
    reader = link._StateReader()
    for k in range(1, 200):
        position, velocity, rates = rng.normal(size=(3, 3))
        quaternion = rng.normal(size=4)
        quaternion *= (1.0 + rng.uniform(-0.009, 0.009)) / np.linalg.norm(quaternion)
        state = reader(state_message(float(k), position, quaternion, velocity, rates)).state
        unit = quaternion / math.hypot(*quaternion)
        # In a batch the matrix is made by arrays.
        expected = so3.quaternion_to_matrix(np.stack([unit, unit]))[0]
        for found, sent in zip(state, (position, velocity, expected, rates), strict=True):
            assert found.dtype == np.float64 and np.array_equal(found, sent)
            flags = np.asarray(found).flags
            assert flags.writeable and flags.c_contiguous


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("which", range(13))
def test_a_number_that_is_none_is_refused(bad, which):
    numbers = np.array([0, 0, 1, 1, 0, 0, 0, *[0] * 6], float)
    numbers[which] = bad
    parts = numbers[:3], numbers[3:7], numbers[7:10], numbers[10:]
    with pytest.raises(messages.MalformedError):
        link._StateReader()(state_message(1.0, *parts))


@pytest.mark.parametrize(
    ("position", "quaternion"),
    [([1e4, 0, 0], [1, 0, 0, 0]), ([0, -1e5, 0], [1, 0, 0, 0]), ([0, 0, 1], [1.02, 0, 0, 0]),
     ([0, 0, 1], [0, 0, 0, 0]), ([0, 0, 1], [0.5, 0.5, 0.5, 0.4])],
)  # fmt: skip
def test_a_pose_that_cannot_be_is_refused(position, quaternion):
    pose = messages.pose_stamped(position, quaternion, 1.0)
    with pytest.raises(messages.MalformedError):
        link.PoseReader()(pose)
