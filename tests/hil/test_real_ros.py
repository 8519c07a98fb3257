# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Our node with Debian's `roscore`, `rospy` and tools, where they are installed."""

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from needs import require
from waiting import wait_for

from lafr_mjx.hil.wire import ros_messages as messages
from lafr_mjx.hil.wire import rpc
from lafr_mjx.hil.wire.node import Node

SYSTEM_PYTHON = "/usr/bin/python3"
NEEDED = {
    "roscore": "python3-roslaunch",
    "rostopic": "python3-rostopic",
    "rosbag": "python3-rosbag",
}
MISSING = [package for tool, package in NEEDED.items() if shutil.which(tool) is None]
TOPIC = "/quad/agiros_pilot/feedthrough_command"

require(not MISSING, f"the Debian packages {', '.join(MISSING)} and python3-rospy")


@pytest.fixture(scope="module")
def ros(tmp_path_factory):
    """Environment of a real master on a free port of the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = tmp_path_factory.mktemp("ros")
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "ROS_HOME": str(home),
        "ROS_MASTER_URI": f"http://127.0.0.1:{port}",
        "ROS_IP": "127.0.0.1",
        "LANG": "C.UTF-8",
    }
    master = subprocess.Popen(
        ["roscore", "-p", str(port)], env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    uri = environment["ROS_MASTER_URI"]

    def up():
        try:
            return rpc.call(uri, "getPid", "/test") > 0
        except rpc.RpcError:
            return False

    wait_for(up, what="the start of roscore")
    yield environment
    os.killpg(master.pid, 15)
    master.wait(timeout=120)


def command(number):
    kind = messages.message_class("agiros_msgs/Command")
    return messages.encode(
        "agiros_msgs/Command",
        kind(
            messages.header(time.time(), number), 0.0, False, 9.5, messages.vector([0.1, 0.2, 0.3]),
            np.zeros(4),
        ),
    )  # fmt: skip


def test_round_trip_with_rospy(ros):
    peer = subprocess.Popen(
        [SYSTEM_PYTHON, str(Path(__file__).with_name("ros_peer.py"))], env=ros, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert peer.stdin is not None
    assert peer.stdout is not None
    peer.stdin.write(messages.message_type("agiros_msgs/Command").definition)
    peer.stdin.close()
    with Node("/lafr_mjx_test", ros["ROS_MASTER_URI"]) as node:
        publisher = node.advertise(TOPIC, "agiros_msgs/Command")
        poses = node.subscribe("/mocap/quad/pose", "geometry_msgs/PoseStamped")
        node.start()
        wait_for(lambda: publisher.subscribers and poses.connected, what="meeting rospy")

        def answered(number):
            return poses.latest is not None and poses.latest.message.pose.position.y == number

        def ask_until_answered():
            publisher.publish(command(0))
            time.sleep(0.05)
            return answered(0)

        # rospy's publisher answers our handshake before it counts us in: what it publishes in
        # between is lost, as for any of its subscribers.
        wait_for(ask_until_answered, what="the first pose")
        trips = []
        for number in range(1, 51):
            before = time.monotonic()
            publisher.publish(command(number))
            wait_for(lambda n=number: answered(n), what=f"the answer to command {number}")
            trips.append(1e3 * (poses.latest.receipt - before))
            time.sleep(0.01)
        assert poses.latest.message.pose.position.x == 9.5
        assert poses.counters.malformed == 0
    told = json.loads(peer.stdout.read())
    peer.wait(timeout=120)
    assert told["digest"] == messages.AGIROS_DIGESTS["agiros_msgs/Command"]
    assert told["count"] >= 50
    assert (told["thrust"], told["rates"], told["single"]) == (9.5, [0.1, 0.2, 0.3], False)
    print(f"round trip with rospy: median {np.median(trips):.2f} ms, most {max(trips):.2f} ms")


def test_rostopic_hz_sees_our_rate(ros):
    with Node("/lafr_mjx_test", ros["ROS_MASTER_URI"]) as node:
        publisher = node.advertise("/quad/pose", "geometry_msgs/PoseStamped")
        node.start()
        hz = subprocess.Popen(
            ["rostopic", "hz", "-w", "100", "/quad/pose"], env={**ros, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        wait_for(lambda: publisher.subscribers, what="rostopic's subscription")
        start = time.monotonic()
        for number in range(200):
            publisher.publish(
                messages.encode(
                    "geometry_msgs/PoseStamped",
                    messages.pose_stamped([0, 0, 1], [1, 0, 0, 0], time.time(), number),
                )
            )
            time.sleep(max(0.0, start + 0.02 * (number + 1) - time.monotonic()))
        hz.send_signal(2)
        output, _ = hz.communicate(timeout=120)
    rates = [float(line.split(":")[1]) for line in output.splitlines() if "average rate" in line]
    assert rates
    assert abs(rates[-1] - 50.0) < 1.0


def test_rostopic_list_and_info_know_us(ros):
    with Node("/lafr_mjx_test", ros["ROS_MASTER_URI"]) as node:
        node.advertise(TOPIC, "agiros_msgs/Command")
        node.start()
        wait_for(lambda: node.master_seen > 0.0, what="registering")
        done = subprocess.run(
            ["rostopic", "info", TOPIC], env=ros, capture_output=True, text=True, timeout=120
        )
    assert "agiros_msgs/Command" in done.stdout
    assert "/lafr_mjx_test" in done.stdout


def test_rosbag_reads_and_plays_our_bag(ros, tmp_path):
    from test_recording import flight_records

    from lafr_mjx.hil.recording.bags import write_bag

    # Our own message types travel with the bag; nothing of ours is installed on that side.
    count = write_bag(tmp_path / "flight.bag", flight_records(100))
    assert count == 300
    info = subprocess.run(
        ["rosbag", "info", "flight.bag"], env=ros, cwd=tmp_path, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert info.returncode == 0, info.stderr
    assert messages.AGIROS_DIGESTS["agiros_msgs/QuadState"] in info.stdout
    assert "300" in info.stdout
    with Node("/lafr_mjx_test", ros["ROS_MASTER_URI"]) as node:
        states = node.subscribe("/sim/agiros_pilot/state", "agiros_msgs/QuadState")
        node.start()
        play = subprocess.Popen(
            ["rosbag", "play", "--delay=1.5", "flight.bag"], env=ros, cwd=tmp_path,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(lambda: states.counters.received > 150, what="the states of the bag")
        play.wait(timeout=120)
        assert states.latest.message.header.seq > 150
        assert states.counters.malformed == 0
