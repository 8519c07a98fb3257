"""Flights whose link is lost, whose command is interrupted, whose wire is fuzzed."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import numpy as np
from lockstep_rig import PROFILE, leg
from waiting import wait_for

from lafr_mjx.hil.operator.operator_steps import land, take_off
from lafr_mjx.hil.operator.session import Session
from lafr_mjx.hil.recording.bags import read_records
from lafr_mjx.hil.timing.priority import memory_mb
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.hil.wire import rpc, tcpros
from lafr_mjx.hil.wire.node import Node


def test_a_vehicle_that_is_not_heard_any_more_is_not_called_landed(tmp_path):
    """The link is lost for ever: nobody knows what has become of it, and that is said."""
    out, told = tmp_path / "run", tmp_path / "told.json"
    command = [sys.executable, "-m", "lafr_mjx.hil", "fly", "--fixed"]
    command += ["--fault", "link-loss@9", "--out", str(out), "--json", str(told)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 1 and "NOT CONFIRMED DOWN" in done.stderr, done.stderr
    assert json.loads(told.read_text())["hil"]["confirmed_down"] is False
    log = (out / "hil" / "drone.txt").read_text()
    assert re.findall(r"^ *[0-9.]+ s  (.*)$", log, re.MULTILINE)[-1] == "hover, armed"


def test_a_comparison_that_is_interrupted_waits_for_the_landing(tmp_path):
    """Ctrl-C in a terminal goes to all processes of the command."""
    simulated, out = tmp_path / "simulated", tmp_path / "both"
    options = [
        "--iterations",
        "1",
        "--seed",
        "0",
        "--scenario",
        "wind5",
    ]
    # What it is compared with does not matter here: it is never got to.
    adapt = [sys.executable, "-m", "lafr_mjx", "adapt", "figure8", "--iterations", "1", "--seed",
             "0", "--scenario", "wind5", "--engine", "freebody", "--out"]  # fmt: skip
    subprocess.run([*adapt, str(simulated)], check=True, capture_output=True, timeout=1800)
    command = [sys.executable, "-m", "lafr_mjx.hil", "compare", *options]
    flight = subprocess.Popen(
        [*command, "--simulated", str(simulated), "--out", str(out)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    log = out / "flown" / "hil" / "events.txt"
    wait_for(lambda: log.exists() and "hover → policy" in log.read_text(), 900.0, "the policy")
    os.killpg(flight.pid, signal.SIGINT)
    _, told = flight.communicate(timeout=900.0)
    assert flight.returncode == 1 and "did not come to its end" in told
    assert "Traceback" not in told
    assert "land → off" in log.read_text() and "→ guard" not in log.read_text()
    assert (out / "flown" / "summary.json").exists() and (log.parent / "flight.bag").exists()


# ------------------------------------------------------------------ a fuzzed wire


def doors(session):
    """Ports of the control process: its calls, and its topics."""
    publishing, _, _ = rpc.call(session.master, "getSystemState", "/fuzz")
    command = PROFILE.pilot.topic("feedthrough_command")
    name = next(node for topic, nodes in publishing if topic == command for node in nodes)
    uri = str(rpc.call(session.master, "lookupNode", "/fuzz", name))
    _, _, data = rpc.call(uri, "requestTopic", "/fuzz", command, [["TCPROS"]])
    return urlsplit(uri).port, int(data)


class Fuzzer(threading.Thread):
    """Random bytes, cut headers, wrong digests and dropped connections, about 1000 a second."""

    def __init__(self, ports):
        super().__init__(daemon=True)
        self.ports, self.count, self.done = ports, 0, threading.Event()

    def run(self):
        rng, linger = random.Random(7), struct.pack("ii", 1, 0)
        fields = {
            "callerid": "/fuzz",
            "topic": PROFILE.pilot.topic("feedthrough_command"),
            "md5sum": "0",
        }
        hello = tcpros.encode_fields(fields)
        while not self.done.wait(0.0005) and self.count < 50_000:
            with contextlib.suppress(OSError):
                sock = socket.create_connection(("127.0.0.1", rng.choice(self.ports)), timeout=60)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                noise, cut = rng.randbytes(rng.randrange(2000)), hello[: rng.randrange(len(hello))]
                sock.sendall(rng.choice([b"", noise, cut, hello, cut + noise]))
                sock.close()
                self.count += 1


def test_a_flight_whose_wire_is_fuzzed(tmp_path, capsys):
    """10,000 connections with nonsense and a false publisher of states; the flight goes on."""
    with Session(PROFILE, tmp_path, scenario="wind5") as session:
        take_off(session)
        control = session.process("control").pid
        fuzzer, before = Fuzzer(doors(session)), memory_mb(control)
        with Node("/false_pilot", session.master or "") as other:
            state = other.advertise(PROFILE.pilot.topic("state"), "std_msgs/String")
            other.start()
            fuzzer.start()
            rollout = session.fly(leg(seconds=4.0, time_scale=0.6, lap_on=True))
            end = time.monotonic() + 900.0
            while fuzzer.count < 10_000 and time.monotonic() < end and session.mode == "policy":
                state.publish(m.encode("std_msgs/String", m.text("not a state")))
                session.sleep(0.05)
            fuzzer.done.set()
            fuzzer.join()
        assert session.mode == "policy", session.trouble()
        grown = memory_mb(control) - before
        land(session)
        faults = [text for _, text in session.events if text.startswith("fault ")]
    assert not faults and fuzzer.count >= 10_000 and grown < 10.0
    error = np.linalg.norm(rollout.sensed.position - rollout.reference.position, axis=-1)
    assert error.max() < 0.4 and "CRASHED" not in (tmp_path / "drone.txt").read_text()
    sent = np.array(
        [
            (c.collective_thrust, c.bodyrates.x, c.bodyrates.y, c.bodyrates.z)
            for c in (
                m.decode(r.kind, r.data)
                for r in read_records(tmp_path / "flight.bag")
                if r.topic == PROFILE.pilot.topic("feedthrough_command")
            )
        ]
    )
    limits = PROFILE.command.limits
    assert len(sent) > 200 and np.isfinite(sent).all()
    assert np.all((sent >= limits.low) & (sent <= limits.high))
    with capsys.disabled():
        print(f"\n  {fuzzer.count} connections with nonsense, memory grew by {grown:.1f} MB")
