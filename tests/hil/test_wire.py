# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The wire: our node against itself, against nonsense, floods and vanishing peers."""

import os
import socket
import struct
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import wait_for
from wire_rig import KIND, TOPIC, pose

from lafr_mjx.errors import InputError
from lafr_mjx.hil.timing.flight_clock import FlightClock
from lafr_mjx.hil.wire import ros_messages as messages
from lafr_mjx.hil.wire import rpc, tcpros
from lafr_mjx.hil.wire.node import Node
from lafr_mjx.hil.wire.ros_master import Master

# ------------------------------------------------------------------ bytes


@settings(deadline=None)
@given(
    st.dictionaries(st.text("abcdefgh_", min_size=1), st.text(max_size=50), max_size=10),
    st.lists(st.integers(1, 30), max_size=30),
)
def test_header_survives_any_cut_of_the_stream(fields, cuts):
    data = tcpros.encode_fields(fields) + tcpros.frame(b"payload")
    frames, splitter = [], tcpros.Frames(tcpros.MAX_HEADER)
    for cut in [*cuts, len(data)]:
        frames += splitter.feed(data[:cut])
        data = data[cut:]
    assert tcpros.decode_fields(frames[0]) == fields
    assert frames[1] == b"payload"


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_are_fields_or_a_wire_error(data):
    try:
        fields = tcpros.decode_fields(data)
    except tcpros.WireError:
        return
    assert all(isinstance(value, str) for value in fields.values())


@settings(deadline=None)
@given(st.integers(101, 2**32 - 1))
def test_announced_size_is_refused_before_it_is_stored(length):
    with pytest.raises(tcpros.OversizedError):
        tcpros.Frames(100).feed(struct.pack("<I", length))


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=400) | st.binary(max_size=200).map(lambda b: b"POST / HTTP/1.1\r\n" + b))
def test_random_http_is_a_request_or_an_error(data):
    try:
        request = rpc.parse_request(data)
    except rpc.RpcError:
        return
    assert request is None or isinstance(request[0], str)


def test_request_with_entities_is_refused():
    body = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "b">]><methodCall/>'
    with pytest.raises(rpc.RpcError, match="document type"):
        rpc.parse_request(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@pytest.mark.parametrize("length", ["-1", "1e9", str(rpc.MAX_BODY + 1), "9" * 30, ""])
def test_request_of_impossible_length_is_refused(length):
    with pytest.raises(rpc.RpcError):
        rpc.parse_request(f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())


# ------------------------------------------------------------------ pairs of nodes


def test_newest_message_with_its_moment_of_receipt(pair):
    _, publisher, _, subscriber = pair
    before = time.monotonic()
    publisher.publish(pose(3))
    wait_for(lambda: subscriber.latest is not None, what="a message")
    assert subscriber.latest.message.header.seq == 3
    assert before <= subscriber.latest.receipt <= time.monotonic()
    publisher.publish(pose(4))
    wait_for(lambda: subscriber.latest.message.header.seq == 4, what="the newer message")
    assert [messages.decode(KIND, raw.data).header.seq for raw in subscriber.drain()] == [3, 4]


class Stepped(FlightClock):
    lockstep = True


def deaf_subscriber(sender, publisher):
    """One that does not read: its window fills."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", sender.data_port))
    kind = messages.message_type(KIND)
    deaf.sendall(
        tcpros.encode_fields(
            {"callerid": "/deaf", "topic": TOPIC, "md5sum": kind.digest, "type": kind.name}
        )
    )
    wait_for(lambda: publisher.subscribers, what="the handshake")
    return deaf


def test_in_lockstep_nothing_is_held_back_for_what_the_kernel_has_not_acknowledged(master):
    """There a second may pass before the kernel has acknowledged anything."""
    with Node("/sender", master.uri, clock=Stepped()) as sender:
        publisher = sender.advertise(TOPIC, KIND)
        sender.start()
        with deaf_subscriber(sender, publisher):
            assert all(publisher.publish(pose(i)) == 1 for i in range(500))
        assert publisher.held == 0


def test_an_expired_message_never_leaves_late(master):
    # What waits is replaced, not queued.
    with Node("/sender", master.uri) as sender:
        publisher = sender.advertise(TOPIC, KIND)
        sender.start()
        deaf = deaf_subscriber(sender, publisher)
        longest = 0.0
        for i in range(5000):
            begin = time.monotonic()
            publisher.publish(pose(i), expires=begin + 0.05)
            longest = max(longest, time.monotonic() - begin)
        assert longest < 1.0, "publishing waited for a subscriber, who never reads"
        assert publisher.held > 1000
        deaf.settimeout(0.5)
        received = b""
        try:
            while chunk := deaf.recv(65536):
                received += chunk
        except TimeoutError:
            pass
        frames = tcpros.Frames(tcpros.MAX_HEADER).feed(received)[1:]
        # What the kernel had taken may arrive; no more than a few hundred milliseconds' worth.
        assert len(frames) < 200
        deaf.close()


def test_wrong_digest_is_refused_on_both_sides(master):
    with Node("/sender", master.uri) as sender, Node("/listener", master.uri) as listener:
        publisher = sender.advertise(TOPIC, "std_msgs/Bool")
        subscriber = listener.subscribe(TOPIC, KIND)
        sender.start()
        listener.start()
        wait_for(lambda: publisher.refused and subscriber.counters.refused, what="the refusal")
        publisher.publish(messages.encode("std_msgs/Bool", messages.boolean(True)))
        time.sleep(0.2)
        assert subscriber.latest is None
        assert not subscriber.connected


def test_subscriber_finds_a_publisher_that_comes_back(master):
    with Node("/listener", master.uri) as listener:
        subscriber = listener.subscribe(TOPIC, KIND)
        listener.start()
        for number in range(3):
            with Node("/sender", master.uri) as sender:
                publisher = sender.advertise(TOPIC, KIND)
                sender.start()
                wait_for(lambda p=publisher: p.subscribers, what="the connection")
                publisher.publish(pose(number))
                wait_for(
                    lambda n=number: (
                        subscriber.latest and subscriber.latest.message.header.seq == n
                    ),
                    what="a message",
                )
            wait_for(lambda: not subscriber.connected, what="noticing the end")
        assert subscriber.counters.connections == 3


def test_silent_connection_is_made_anew(master):
    with Node("/sender", master.uri) as sender, Node("/listener", master.uri) as listener:
        publisher = sender.advertise(TOPIC, KIND)
        subscriber = listener.subscribe(TOPIC, KIND, idle_s=0.3)
        sender.start()
        listener.start()
        wait_for(lambda: subscriber.counters.connections >= 3, what="connecting again")
        publisher.publish(pose(9))


def test_links_outlive_the_master_and_register_with_the_next():
    first = Master()
    port = urlsplit(first.uri).port
    with Node("/sender", first.uri) as sender, Node("/listener", first.uri) as listener:
        publisher = sender.advertise(TOPIC, KIND)
        subscriber = listener.subscribe(TOPIC, KIND)
        sender.start()
        listener.start()
        wait_for(lambda: publisher.subscribers and subscriber.connected, what="a connection")
        first.close()
        time.sleep(0.8)
        publisher.publish(pose(1))
        wait_for(lambda: subscriber.latest, what="a message without master")
        gone = time.monotonic()
        with Master(port=port) as second:
            wait_for(lambda: sender.master_seen > gone, what="registering again")
            topics = rpc.call(second.uri, "getPublishedTopics", "/test", "")
            assert [TOPIC, KIND] in topics


def test_second_publisher_is_seen_and_not_mixed_in(pair, master):
    sender, publisher, _, subscriber = pair
    with Node("/intruder", master.uri) as intruder:
        other = intruder.advertise(TOPIC, KIND)
        intruder.start()
        wait_for(
            lambda: set(sender.publishing.get(TOPIC, ())) == {"/sender", "/intruder"},
            what="seeing the intruder",
        )
        other.publish(pose(666))
        time.sleep(0.1)
        assert other.subscribers == 0
        publisher.publish(pose(1))
        wait_for(lambda: subscriber.latest is not None, what="a message")
        assert subscriber.latest.message.header.seq == 1


def test_a_publisher_that_was_killed_is_not_taken_for_a_second_one(pair, master):
    """A master remembers nodes that never said goodbye."""
    script = (
        "import sys, time\n"
        "from lafr_mjx.hil.wire.node import Node\n"
        "node = Node('/other', sys.argv[1])\n"
        f"node.advertise({TOPIC!r}, {KIND!r})\n"
        "node.start()\n"
        "time.sleep(600)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script, master.uri])
    try:
        wait_for(lambda: "/other" in pair[0].publishing[TOPIC], what="the other one")
    finally:
        other.kill()
        other.wait()
    wait_for(lambda: "/other" not in pair[0].publishing[TOPIC], what="its end")
    known, _, _ = rpc.call(master.uri, "getSystemState", "/test")
    assert any("/other" in nodes for _, nodes in known), "the master still knows it"


def test_nobody_else_can_shut_us_down(pair):
    sender, _, listener, _ = pair
    for node in (sender, listener):
        rpc.call(node.uri, "shutdown", "/stranger", "please")
        rpc.call(node.uri, "publisherUpdate", "/stranger", "/nothing", ["http://1"])
        with pytest.raises(rpc.RpcError, match="unknown call"):
            rpc.call(node.uri, "system", "/stranger", "ls")
    assert rpc.call(sender.uri, "getPid", "/test") == os.getpid()


@pytest.mark.parametrize("uri", ["", "127.0.0.1:11311", "http://", "http://h:x", "ftp://h:1"])
def test_bad_master_address(uri):
    with pytest.raises(InputError, match="--master"):
        Node("/a", uri)


@pytest.mark.parametrize("name", ["", "a", "/", "/a/", "/a b", "/é", "//a", "/a" * 300])
def test_bad_name(name):
    with pytest.raises(InputError, match="ROS name"):
        Node(name)


def test_listens_on_the_loopback_only(master):
    with Node("/a", master.uri) as node:
        assert node._rpc_socket.getsockname()[0] == "127.0.0.1"
        assert node._data_socket.getsockname()[0] == "127.0.0.1"
    assert urlsplit(master.uri).hostname == "127.0.0.1"
