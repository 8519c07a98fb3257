# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportOptionalSubscript=false
"""The rosbridge transport against a websocket peer that speaks the protocol, in another process."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from bridge_peer import plain
from waiting import wait_for
from wire_rig import resident_mb, state_message

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil import messages as m
from lafr_mjx.hil.bridge import Bridge
from lafr_mjx.hil.link import RosLink
from lafr_mjx.hil.modes import Word
from lafr_mjx.hil.node import Node
from lafr_mjx.hil.operator import land, take_off
from lafr_mjx.hil.profile import load_profile
from lafr_mjx.hil.session import Session
from lafr_mjx.hil.transport import check_address

PROFILE = load_profile("sim")
POSE = "geometry_msgs/PoseStamped"


@pytest.mark.parametrize("uri", ["ws://", "ws://h", "ws://h:x", "http://h", "wss:h:1", "udp://h:1"])
def test_bad_address(uri):
    with pytest.raises(InputError, match="--master"):
        check_address(uri)


def test_roslibpy_missing_is_one_clear_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "roslibpy.comm.comm_asyncio", None)
    with pytest.raises(InputError, match=r"pip install 'lafr-mjx\[rosbridge\]'"):
        Bridge("/a", "ws://127.0.0.1:1")


# ------------------------------------------------------------------ against the peer


class Process:
    """The peer, and a ROS node that plays the pilot behind it."""

    def __init__(self, master):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("bridge_peer.py")), master.uri, "sim"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.uri = self.process.stdout.readline().strip()
        assert self.uri.startswith("ws://")

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(60.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def peer(master):
    process = Process(master)
    yield process
    process.close()


class Pilot:
    """The pilot's topics, by hand."""

    def __init__(self, master):
        self.node = Node("/sim/pilot", master.uri)
        topic = PROFILE.topic
        self.state = self.node.advertise(topic("state"), "agiros_msgs/QuadState")
        self.mocap = self.node.advertise(topic("mocap"), POSE)
        self.telemetry = self.node.advertise(topic("telemetry"), "agiros_msgs/Telemetry")
        self.commands = self.node.subscribe(topic("feedthrough_command"), "agiros_msgs/Command")
        self.calls = {
            name: self.node.subscribe(topic(name), "std_msgs/Empty")
            for name in ("start", "land", "off", "force_hover", "trigger_guard")
        }
        self.enable = self.node.subscribe(topic("enable"), "std_msgs/Bool")
        self.node.start()
        self.number = 0

    def tell(self, x=0.0):
        self.number += 1
        now = time.time()
        state = state_message(x)
        state = m.message_class("agiros_msgs/QuadState")(
            m.header(now, self.number), state.t, m.pose([x, 0, 1.5], [1, 0, 0, 0]),
            *(getattr(state, f) for f in ("velocity", "acceleration", "acc_bias", "gyr_bias",
                                          "jerk", "snap", "motors")),
        )  # fmt: skip
        self.state.publish(m.encode("agiros_msgs/QuadState", state))
        pose = m.pose_stamped([x, 0, 1.5], [1, 0, 0, 0], now, self.number)
        self.mocap.publish(m.encode(POSE, pose))
        telemetry = m.message_class("agiros_msgs/Telemetry")(
            m.header(now), 0.0, m.text("sim"), m.boolean(True), m.boolean(False), 0, 0.0, 0.0,
            state, 16.0,
        )  # fmt: skip
        self.telemetry.publish(m.encode("agiros_msgs/Telemetry", telemetry))


@pytest.fixture
def both(master, peer):
    """A link through the bridge to a pilot, connected."""
    pilot = Pilot(master)
    link = RosLink(PROFILE, peer.uri)

    def connected():
        pilot.tell()
        time.sleep(0.01)
        return link.heard().connected

    wait_for(connected, what="a connection through the bridge")
    yield link, pilot, peer
    link.close()
    pilot.node.close()


def hears(link, pilot, seconds=120.0):
    def heard():
        pilot.tell(x=0.25 + 0.0001 * pilot.number)
        time.sleep(0.02)
        return link.heard().state.position[0] > 0.25 and link.heard().connected

    before = link.heard().state_number

    def newer():
        return heard() and link.heard().state_number > before

    wait_for(newer, seconds, "a newer state")


def test_state_to_command_and_calls_through_the_bridge(both):
    link, pilot, _ = both
    hears(link, pilot)
    heard = link.heard()
    assert heard.armed and heard.subscribed
    assert np.isnan(heard.voltage), "the telemetry's counts for nothing"
    assert time.monotonic() - heard.state_stamp < 5.0, "by our clock"
    wait_for(lambda: time.monotonic() - link.heard().master_seen < 2.0, what="rosapi's answers")
    assert link.heard().intruders == ()
    assert "digests cannot be compared" in heard.unseen
    assert link.send(np.array([9.5, 0.1, 0.2, 0.3]), time.monotonic() + 5.0)
    wait_for(lambda: pilot.commands.latest, what="the command")
    got = pilot.commands.latest.message
    assert (got.collective_thrust, got.bodyrates.z) == (9.5, 0.3)
    assert not got.is_single_rotor_thrust
    link.call("enable")
    wait_for(lambda: pilot.enable.latest and pilot.enable.latest.message.data, what="enable")
    link.call("trigger_guard")
    wait_for(lambda: pilot.calls["trigger_guard"].latest, what="the guard")
    tape = {topic for topic, *_ in link.drain()}
    assert {PROFILE.topic("state"), PROFILE.topic("feedthrough_command")} <= tape


def test_late_commands_never_leave(both):
    link, pilot, _ = both
    assert not link.send(np.array([9.0, 0, 0, 0]), time.monotonic() - 0.001)
    command = link.node.publishers[PROFILE.topic("feedthrough_command")]
    held = command.held
    body = m.encode(
        "agiros_msgs/Command",
        m.message_class("agiros_msgs/Command")(
            m.header(1.0), 0.0, False, 9.0, m.vector([0, 0, 0]), np.zeros(4)
        ),
    )
    command.publish(body, expires=time.monotonic() - 0.001)
    wait_for(lambda: command.held > held, what="holding it back")
    time.sleep(0.2)
    assert pilot.commands.latest is None


def test_nothing_is_kept_for_a_bridge_that_is_away(both):
    link, pilot, peer = both
    peer.say("drop")
    wait_for(lambda: not link.heard().subscribed, what="noticing the loss")
    for _ in range(3):
        assert not link.send(np.array([9.0, 0, 0, 0]), time.monotonic() + 5.0)
    hears(link, pilot)  # it connects again by itself
    time.sleep(0.3)
    assert pilot.commands.latest is None, "an old command came with the new connection"
    assert link.node.connections >= 2


def test_publishing_never_waits_for_a_bridge_that_reads_nothing(both):
    link, pilot, peer = both
    peer.say("deaf")
    time.sleep(0.1)
    longest, command = 0.0, link.node.publishers[PROFILE.topic("feedthrough_command")]
    for k in range(100):
        begin = time.monotonic()
        link.send(np.array([9.0, 0.001 * k, 0, 0]), begin + 0.05)
        longest = max(longest, time.monotonic() - begin)
        time.sleep(0.01)
    assert longest < 1.0
    assert command.held > 40, "they pile up in the kernel"
    peer.say("speak")
    time.sleep(1.0)
    # The peer's own library reads 16 messages ahead; after them no echo comes.
    assert pilot.commands.counters.received < 50


def test_a_mute_bridge_is_noticed_and_given_up(both):
    link, _, peer = both
    peer.say("mute")
    wait_for(lambda: time.monotonic() - link.heard().master_seen > PROFILE.limits.master_s,
             what="the age of rosapi's last answer")  # fmt: skip


def test_nonsense_from_the_bridge_is_dropped_and_counted(both):
    link, pilot, peer = both
    hears(link, pilot)
    topic = PROFILE.topic("state")
    bad = [
        "{", "[1]", "3", '"x"', "{}", '{"op":"publish"}', "[" * 5000,
        '{"op":"publish","topic":"/none","msg":{}}',
        '{"op":"publish","topic":[1]}',
        '{"op":["publish"]}',
        '{"op":"service_response","id":"x","values":{}}',
        json.dumps({"op": "publish", "topic": topic, "msg": {"x": 1}}),
        json.dumps({"op": "publish", "topic": topic, "msg": plain(state_message(math.nan))}),
        json.dumps({"op": "status", "level": "error", "msg": "something"}),
    ]  # fmt: skip
    counters = link.node.subscribers[topic].counters
    before = link.node.malformed, counters.malformed
    for text in bad:
        peer.say("raw " + text)
    peer.say("binary")
    wait_for(lambda: link.node.malformed - before[0] >= 10, what="counting nonsense")
    wait_for(lambda: counters.malformed - before[1] >= 2, what="counting bad states")
    assert "error: something" in link.heard().unseen
    hears(link, pilot)
    assert np.isfinite(link.heard().state.position).all()


def test_oversized_frames_close_the_connection_and_it_comes_back(both):
    link, pilot, peer = both
    before = link.node.connections
    peer.say("raw " + json.dumps({"op": "status", "msg": "x" * 60_000}))
    time.sleep(0.2)
    assert link.node.connections == before
    # A line that asyncio's reader takes is at most 64 KiB, so the peer makes the rest itself.
    peer.say("drop")
    wait_for(lambda: link.node.connections > before, what="connecting again")
    hears(link, pilot)


def test_flood_of_10_khz_takes_no_memory(both):
    link, pilot, peer = both
    hears(link, pilot)
    before = resident_mb()
    peer.say(f"flood {PROFILE.topic('state')} 20000")
    counters = link.node.subscribers[PROFILE.topic("state")].counters
    received = counters.received
    wait_for(lambda: counters.received > received + 1000, what="the flood")
    time.sleep(4.0)
    assert resident_mb() - before < 30.0
    assert len(link.drain()) <= 4 * 128 + 1000
    assert counters.malformed == 0
    # A bridge whose echo takes too long is left, and found again.
    hears(link, pilot, 30.0)


def test_second_publisher_is_seen_where_rosapi_sees_it(both, master):
    link, *_ = both
    with Node("/intruder", master.uri) as intruder:
        intruder.advertise(PROFILE.topic("feedthrough_command"), "agiros_msgs/Command")
        intruder.start()
        wait_for(lambda: link.heard().intruders == ("/intruder",), what="seeing the intruder")


# ------------------------------------------------------------------ a flight


def test_a_flight_through_the_bridge(tmp_path, master, peer):
    """Operator, control process, stop, bridge, software drone: all their own processes."""
    command = [sys.executable, "-m", "lafr_mjx.hil", "sim-drone", "--master", master.uri]
    with (tmp_path / "drone.txt").open("wb") as log:
        drone = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        from test_realtime import leg

        with Session(PROFILE, tmp_path, master=peer.uri) as session:
            take_off(session)
            names = {name: why for name, _, why in session.status["checks"]}
            assert "digests cannot be compared" in names["transport"]
            for attempt in range(3):
                try:
                    rollout = session.fly(leg(attempt, seconds=5.0, time_scale=0.8))
                    break
                except RunError:
                    # A busy machine is not what is tested here, and one late tick is a fault.
                    assert any("late" in text for _, text in session.events), session.events
                    wait_for(lambda: session.mode == "off", what="landing")
                    session.say(Word.RESET)
                    take_off(session)
            land(session)
        error = np.linalg.norm(rollout.sensed.position - rollout.reference.position, axis=-1)
        assert np.sqrt(np.mean(error**2)) < 0.2
        counts = session.ended["counts"]
        assert all(c["malformed"] == 0 and c["received"] > 50 for c in counts.values()), counts
        text = (tmp_path / "drone.txt").read_text()
        assert "CRASHED" not in text and text.strip().splitlines()[-1].endswith("disarmed"), text
    finally:
        drone.terminate()
        drone.wait(60.0)
