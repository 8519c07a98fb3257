# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The wire against nonsense, floods and connections by the thousand."""

import os
import random
import socket
import struct
import threading
import time
import xmlrpc.client
from urllib.parse import urlsplit

from waiting import wait_for
from wire_rig import KIND, TOPIC, FakePublisher, pose, resident_mb, works

from lafr_mjx.hil.wire import ros_messages as messages
from lafr_mjx.hil.wire import tcpros
from lafr_mjx.hil.wire.node import Node


def test_random_bytes_at_every_door(pair, master):
    sender, _, listener, _ = pair
    rng = random.Random(5)
    doors = [
        sender.data_port, urlsplit(sender.uri).port, listener.data_port,
        urlsplit(listener.uri).port, urlsplit(master.uri).port,
    ]  # fmt: skip
    kind = messages.message_type(KIND)
    hello = tcpros.encode_fields({"callerid": "/f", "topic": TOPIC, "md5sum": kind.digest})
    call = xmlrpc.client.dumps(("/f", TOPIC, [["TCPROS"]]), "requestTopic").encode()
    http = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(call), call)
    for i in range(300):
        sock = socket.create_connection(("127.0.0.1", doors[i % len(doors)]), timeout=120)
        good = hello if i % 2 else http
        cut = good[: rng.randrange(len(good))]
        noise = rng.randbytes(rng.randrange(1, 2000))
        sock.sendall(rng.choice([noise, cut, cut + noise, struct.pack("<I", 2**32 - 1) + noise]))
        sock.close()
    works(pair)


def test_nonsense_from_a_publisher_is_dropped_and_counted(master):
    fake = FakePublisher(master)
    with Node("/listener", master.uri) as listener:
        subscriber = listener.subscribe(TOPIC, KIND)
        listener.start()
        sock = fake.accept()
        sock.sendall(tcpros.frame(pose(1)))
        wait_for(lambda: subscriber.latest, what="a good message")
        good = subscriber.latest
        for bad in (b"", b"x" * 20, pose(2)[:-1], pose(2) + b"!"):
            sock.sendall(tcpros.frame(bad))
            time.sleep(0.02)
        wait_for(lambda: subscriber.counters.malformed == 4, what="four malformed messages")
        assert subscriber.latest is good
        sock.sendall(struct.pack("<I", 65_537))
        wait_for(lambda: subscriber.counters.oversized == 1, what="an oversized message")
        sock = fake.accept()  # it connects again by itself
        sock.sendall(tcpros.frame(pose(3)))
        wait_for(lambda: subscriber.latest.message.header.seq == 3, what="going on")
        sock.close()
    fake.close()


def test_publisher_with_a_wrong_digest_is_refused(master):
    fake = FakePublisher(master, digest="0" * 32)
    with Node("/listener", master.uri) as listener:
        subscriber = listener.subscribe(TOPIC, KIND)
        listener.start()
        fake.accept().sendall(tcpros.frame(pose(1)))
        wait_for(lambda: subscriber.counters.refused >= 1, what="the refusal")
        assert subscriber.latest is None
    fake.close()


def test_flood_of_10_khz_gives_the_newest_and_takes_no_memory(master):
    fake = FakePublisher(master)
    with Node("/listener", master.uri) as listener:
        subscriber = listener.subscribe(TOPIC, KIND)
        listener.start()
        sock = fake.accept()
        before, number, start = resident_mb(), 0, time.monotonic()
        while number < 30_000:
            due = int((time.monotonic() - start) * 10_000)
            while number < due:
                number += 1
                sock.sendall(tcpros.frame(pose(number)))
            time.sleep(0.0005)
        wait_for(lambda: subscriber.latest.message.header.seq == number, what="the newest")
        assert subscriber.counters.malformed == 0
        assert len(subscriber.drain()) <= 128
        assert resident_mb() - before < 20.0
    fake.close()


def test_10000_connections_opened_and_dropped(pair):
    sender, _, listener, _ = pair
    doors = [sender.data_port, urlsplit(listener.uri).port]
    before = resident_mb()
    threads, open_files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    linger = struct.pack("ii", 1, 0)  # close with a reset: no port waits
    for i in range(10_000):
        sock = socket.create_connection(("127.0.0.1", doors[i % 2]), timeout=120)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if i % 3 == 0:
            sock.send(b"\x10")
        sock.close()
    works(pair)
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= open_files + 2, what="closing them")
    assert threading.active_count() <= threads + 1
    assert resident_mb() - before < 20.0


def test_hundreds_of_silent_connections_leave_room(pair):
    sender, *_ = pair
    idle = [socket.create_connection(("127.0.0.1", sender.data_port)) for _ in range(300)]
    works(pair)
    for sock in idle:
        sock.close()
