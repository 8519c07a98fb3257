# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""For the tests of the wire: messages, and a publisher that sends what it is told."""

import os
import random
import socket
import struct
import threading

import numpy as np
from waiting import wait_for

from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.hil.wire import rpc, tcpros

TOPIC, KIND = "/quad/pose", "geometry_msgs/PoseStamped"


def pose(number=0):
    return m.encode(KIND, m.pose_stamped([1, 2, 3], [1, 0, 0, 0], 1.0, number))


def state_message(x=0.1):
    return m.message_class("agiros_msgs/QuadState")(
        m.header(12.25, 3), 1.5, m.pose([x, 2, 3], [1, 0, 0, 0]), m.twist([1, 2, 3], [4, 5, 6]),
        m.twist([0] * 3, [0] * 3), *(m.vector([k, 0, 0]) for k in range(4)), np.arange(4.0),
    )  # fmt: skip


def works(pair):
    """Whether a message still gets through."""
    _, publisher, _, subscriber = pair
    number = random.randrange(1, 2**31)
    wait_for(lambda: publisher.subscribers and subscriber.connected, what="being connected")
    publisher.publish(pose(number))
    wait_for(lambda: subscriber.latest and subscriber.latest.message.header.seq == number,
             what="a message after the fuzz")  # fmt: skip


class FakePublisher:
    """A publisher that answers the handshake properly and then sends what it is told."""

    def __init__(self, master, topic=TOPIC, kind=KIND, digest=None):
        self.kind, self.digest = m.message_type(kind), digest
        self.topic, self.master = topic, master
        self.data = socket.create_server(("127.0.0.1", 0))
        from xmlrpc.server import SimpleXMLRPCServer

        self.server = SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
        port = self.data.getsockname()[1]
        self.server.register_function(
            lambda *a: [1, "", ["TCPROS", "127.0.0.1", port]], "requestTopic"
        )
        self.uri = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        rpc.call(master.uri, "registerPublisher", "/fake", topic, kind, self.uri)

    def accept(self):
        self.data.settimeout(120.0)
        sock, _ = self.data.accept()
        (length,) = struct.unpack("<I", sock.recv(4))
        while length > 0:
            length -= len(sock.recv(length))
        fields = {"md5sum": self.digest or self.kind.digest, "type": self.kind.name}
        sock.sendall(tcpros.encode_fields(fields))
        return sock

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.data.close()


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
