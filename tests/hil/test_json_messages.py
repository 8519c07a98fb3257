# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportOptionalSubscript=false
"""Messages as the rosbridge writes them: JSON and back, and what is refused."""

import contextlib
import json
import math

import pytest
from bridge_peer import plain
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_rig import state_message

from lafr_mjx.hil import messages as m
from lafr_mjx.hil.json_messages import from_json, to_json


def test_json_and_back_and_as_the_peer_writes_it():
    message = state_message()
    made = to_json("agiros_msgs/QuadState", message)
    assert json.loads(json.dumps(made)) == plain(message)
    assert made["header"]["stamp"] == {"secs": 12, "nsecs": 250_000_000}
    back = from_json("agiros_msgs/QuadState", made)
    kind = "agiros_msgs/QuadState"
    assert m.encode(kind, back) == m.encode(kind, message)


def test_an_empty_message_has_no_field():
    assert to_json("std_msgs/Empty", m.empty()) == {}
    assert m.encode("std_msgs/Empty", from_json("std_msgs/Empty", {})) == b""


def test_what_is_not_finite_travels_as_null():
    assert (
        to_json("agiros_msgs/QuadState", state_message(math.nan))["pose"]["position"]["x"] is None
    )
    made = to_json("agiros_msgs/QuadState", state_message())
    made["pose"]["position"]["x"] = None
    assert math.isnan(from_json("agiros_msgs/QuadState", made).pose.position.x)


def broken(change):
    made = to_json("agiros_msgs/QuadState", state_message())
    change(made)
    return made


@pytest.mark.parametrize(
    "value",
    [
        None, [], 3, "text", {}, {"op": 1},
        broken(lambda o: o.pop("motors")),
        broken(lambda o: o.update(more=1)),
        broken(lambda o: o.update(t="1.0")),
        broken(lambda o: o.update(t=True)),
        broken(lambda o: o.update(motors={"0": 1})),
        broken(lambda o: o.update(motors=[0.0] * 5000)),
        broken(lambda o: o["header"].update(seq=1.5)),
        broken(lambda o: o["header"].update(frame_id=None)),
        broken(lambda o: o["header"].update(stamp={"sec": 1, "nanosec": 2})),
        broken(lambda o: o["pose"]["position"].update(x=[1])),
    ],
)  # fmt: skip
def test_other_objects_are_refused(value):
    with pytest.raises(m.MalformedError):
        from_json("agiros_msgs/QuadState", value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200)
@given(values, st.sampled_from(["header", "pose", "t", "motors", "velocity"]))
def test_any_object_is_a_message_or_malformed(value, field):
    made = to_json("agiros_msgs/QuadState", state_message())
    made[field] = value
    with contextlib.suppress(m.MalformedError):
        from_json("agiros_msgs/QuadState", made)
