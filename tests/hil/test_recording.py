# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Spool, bags and rollouts: what was recorded comes back, up to the last whole record."""

import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.errors import InputError
from lafr_mjx.hil.recording.bags import flights, read_records, write_bag
from lafr_mjx.hil.recording.spool import Record, SpoolReader, SpoolWriter
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.logs.flown_ticks import TICK, TICK_TOPIC, flights_of_bag


def state_record(k, wall=1e9):
    still = m.twist([0.1 * k, 0, 0], [0, 0, 0.2])
    message = m.message_class("agiros_msgs/QuadState")(
        m.header(wall + 0.01 * k, k), 0.0, m.pose([0.01 * k, 0, 1], [1, 0, 0, 0]), still, still,
        *(m.vector([0] * 3) for _ in range(4)), np.zeros(4),
    )  # fmt: skip
    data = m.encode("agiros_msgs/QuadState", message)
    return Record("/sim/agiros_pilot/state", "agiros_msgs/QuadState", 50 + 0.01 * k,
                  wall + 0.01 * k, data)  # fmt: skip


def tick_record(k, leg=0, wall=1e9, controller="policy"):
    three, nine = np.arange(3.0) + k, np.eye(3).reshape(-1)
    message = m.message_class(TICK)(
        m.header(wall + 0.02 * k, k), 50 + 0.02 * k, leg, 0.02 * k, "policy", controller, True,
        np.array([9.8, k, 0, 0]), np.zeros(4), 50 + 0.02 * k - 0.004, three, three, nine, three,
        three, three, three, three, nine, three, 9.81, 0.02 * k, 1.0, 0.7, ["TRACKING_SLOW"],
    )  # fmt: skip
    return Record(TICK_TOPIC, TICK, 50 + 0.02 * k, wall + 0.02 * k, m.encode(TICK, message))


def flight_records(ticks=50):
    records = []
    for k in range(ticks):
        records += [tick_record(k), state_record(2 * k + 1), state_record(2 * k + 2)]
    return records


def spool(path, records):
    writer = SpoolWriter(path)
    for record in records:
        writer.add(record)
    writer.close()
    assert writer.trouble == ""
    return path


def test_spool_and_back(tmp_path):
    records = flight_records()
    path = spool(tmp_path / "a.spool", records)
    reader = SpoolReader(path)
    assert list(reader) == records
    assert reader.damaged == ""


def test_nothing_is_overwritten(tmp_path):
    path = spool(tmp_path / "a.spool", [])
    with pytest.raises(InputError):
        SpoolWriter(path)
    write_bag(tmp_path / "a.bag", flight_records(3))
    with pytest.raises(InputError, match="overwritten"):
        write_bag(tmp_path / "a.bag", [])


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_spool_cut_or_flipped_anywhere_gives_what_is_whole_before(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("spool")
    records = flight_records(5)
    whole = spool(folder / "a.spool", records).read_bytes()
    at = data.draw(st.integers(17, len(whole) - 1))
    bad = folder / "b.spool"
    if data.draw(st.booleans()):
        bad.write_bytes(whole[:at])
    else:
        flipped = bytearray(whole)
        flipped[at] ^= 1 << data.draw(st.integers(0, 7))
        bad.write_bytes(flipped)
    reader = SpoolReader(bad)
    found = list(reader)
    assert found == records[: len(found)]
    ends = [i for i, r in enumerate(records) if r == found[-1]][-1] + 1 if found else 0
    assert ends == len(found)


def test_full_disk_stops_the_recording_and_nothing_else(tmp_path):
    def full(descriptor, data):
        if os.lseek(descriptor, 0, os.SEEK_CUR) > 5000:
            raise OSError(28, "No space left on device")
        return os.write(descriptor, data)

    writer = SpoolWriter(tmp_path / "a.spool", full)
    longest = 0.0
    for k in range(300):
        begin = time.monotonic()
        writer.add(state_record(k))
        longest = max(longest, time.monotonic() - begin)
        time.sleep(0.001)
    writer.close()
    assert "No space" in writer.trouble
    assert longest < 1.0
    assert len(list(SpoolReader(tmp_path / "a.spool"))) > 3


def test_slow_disk_never_holds_up_the_loop(tmp_path):
    quick = threading.Event()

    def slow(descriptor, data):
        quick.wait(600.0)
        return os.write(descriptor, data)

    quick.set()
    writer = SpoolWriter(tmp_path / "a.spool", slow)
    quick.clear()
    begin = time.monotonic()
    for k in range(200):
        writer.add(state_record(k))
    assert time.monotonic() - begin < 300.0, "it waited for the disk"
    quick.set()
    writer.close()
    assert len(list(SpoolReader(tmp_path / "a.spool"))) == 200


def test_bag_and_spool_give_the_same_rollout(tmp_path):
    records = flight_records()
    write_bag(tmp_path / "a.bag", records)
    spooled = flights(read_records(spool(tmp_path / "a.spool", records)))
    bagged = flights(read_records(tmp_path / "a.bag"))
    viewed = flights_of_bag(tmp_path / "a.bag")
    assert list(spooled) == list(bagged) == list(viewed) == [0]
    one, two = spooled[0], bagged[0]
    assert len(one.time) == 50
    assert np.allclose(one.time, 0.02 * np.arange(50))
    assert np.allclose(one.stamp, one.time - 0.004)
    assert np.allclose(one.command[:, 1], np.arange(50))
    assert np.allclose(one.reference.position[:, 2], np.arange(50) + 2)
    assert np.allclose(one.time_scale, 0.7)
    # States were taken at 10 ms, 20 ms, ...; bags keep the wall clock to the nanosecond.
    assert one.sample_received.all()
    assert np.allclose(one.sample_time, 0.01 * (1 + np.arange(100)), atol=1e-6)
    assert np.allclose(one.sample.position[:, 0], 0.01 * (1 + np.arange(100)))
    assert one.diagnostics is two.diagnostics is None
    assert not one.measured
    for other in (two, viewed[0]):
        each = (flown._replace(diagnostics=0, measured=0) for flown in (one, other))
        for a, b in zip(*each, strict=True):
            pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
            assert all(np.allclose(x, y, atol=1e-6) for x, y in pairs)


def test_a_bag_without_a_flight_of_ours_is_refused(tmp_path):
    write_bag(tmp_path / "a.bag", [r for r in flight_records() if r.topic != TICK_TOPIC])
    with pytest.raises(InputError, match="holds no flight"):
        flights_of_bag(tmp_path / "a.bag")


@pytest.mark.parametrize("other", ["fallback", "baseline"])
def test_who_else_than_the_asked_policy_flew_is_in_the_flight(other):
    names = ["policy"] * 7 + [other] * 3
    rollout = flights([tick_record(k, controller=name) for k, name in enumerate(names)])[0]
    np.testing.assert_array_equal(rollout.fallback, [False] * 7 + [True] * 3)
    whole = flights([tick_record(k, controller=other) for k in range(10)])[0]
    assert not whole.fallback.any()  # the baseline was asked for


def test_gaps_are_not_received(tmp_path):
    records = [r for i, r in enumerate(flight_records()) if not 60 <= i < 90]
    rollout = flights(records)[0]
    assert 0.7 < rollout.sample_received.mean() < 0.9


@pytest.mark.parametrize("content", [b"", b"#ROSBAG V2.0\n", b"nonsense" * 100])
def test_damaged_bag_is_named(tmp_path, content):
    path = tmp_path / "bad.bag"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.bag"):
        list(read_records(path))
    with pytest.raises(InputError, match="no such bag"):
        list(read_records(tmp_path / "none.bag"))


def test_a_bag_of_others_has_no_flight(tmp_path):
    write_bag(tmp_path / "a.bag", [state_record(k) for k in range(10)])
    assert flights(read_records(tmp_path / "a.bag")) == {}


def test_a_bag_of_another_version_is_refused(tmp_path):
    from rosbags.rosbag1 import Writer
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    text = m.message_type(TICK).definition.replace("float64 time_scale", "float64 other_name")
    store = get_typestore(Stores.ROS1_NOETIC)
    store.register(get_types_from_msg(text, "lafr_mjx_msgs/msg/Tick"))
    with Writer(tmp_path / "a.bag") as writer:
        other = writer.add_connection(TICK_TOPIC, "lafr_mjx_msgs/msg/Tick", typestore=store)
        writer.write(other, 1, tick_record(0).data)
    with pytest.raises(InputError, match=r"a\.bag: /lafr_mjx/tick holds .* with the digest"):
        list(read_records(tmp_path / "a.bag"))


def test_the_same_bag_can_be_replayed_and_fitted_to(tmp_path):
    from lafr_mjx.logs.readers.ros_bag import read_bag

    def command(k):
        message = m.message_class("agiros_msgs/Command")(
            m.header(1e9 + 0.02 * k, k), 0.0, False, 9.8, m.vector([k, 0.0, 0.0]), np.zeros(4)
        )
        return Record(
            "/sim/agiros_pilot/feedthrough_command",
            "agiros_msgs/Command",
            50 + 0.02 * k,
            1e9 + 0.02 * k,
            m.encode("agiros_msgs/Command", message),
        )

    records = flight_records() + [command(k) for k in range(50)]
    write_bag(tmp_path / "a.bag", sorted(records, key=lambda record: record.wall))
    rollout, raw = flights(read_records(tmp_path / "a.bag"))[0], read_bag(tmp_path / "a.bag")
    assert np.allclose(raw.position.values, rollout.sample.position)
    assert np.allclose(raw.rate_command.values, rollout.command[:, 1:])
