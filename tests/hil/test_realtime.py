# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Real time, real processes, real wire: the software drone, the control process, the stop.

Each test prints the times that it measured. They run one after the other: `make test-hil`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from realtime_rig import PACE, PATIENT, PROFILE, TASK, leg
from waiting import has_ended, wait_for

from lafr_mjx.errors import RunError
from lafr_mjx.hil.bags import flights, read_records
from lafr_mjx.hil.master import Master
from lafr_mjx.hil.operator import again, land, take_off
from lafr_mjx.hil.plant import HilPlant
from lafr_mjx.hil.safety import Word
from lafr_mjx.hil.session import Session
from lafr_mjx.hil.stop import EmergencyStop


@pytest.fixture
def session(tmp_path):
    with Session(PROFILE, tmp_path, scenario="wind5", patient=PATIENT) as running:
        yield running


def at_speed(session):
    """In the middle of a flight."""
    take_off(session)
    from lafr_mjx.hil.legs import save_leg

    session._send({"leg": str(save_leg(session.folder, leg(seconds=60.0, time_scale=0.6)))})
    wait_for(lambda: session.status.get("stage") == "track", 20.0, "the track")
    time.sleep(3.0)
    return session


def drone_log(session):
    """(seconds, words) that the drone printed."""
    text = (session.folder / "drone.txt").read_text()
    return [
        (float(t), words.split(", "))
        for t, words in re.findall(r"^ *([0-9.]+) s  (.*)$", text, re.MULTILINE)
    ]


def crashed(session):
    return "CRASHED" in (session.folder / "drone.txt").read_text()


def test_flight_recording_and_landing(session, capsys):
    take_off(session)
    plant = HilPlant(session, lap_on=False)
    from lafr_mjx.control.geometric import geometric_controller

    controller = geometric_controller(PROFILE.command.limits)
    run = plant.start()
    for _ in range(2):
        run, rollout = plant.fly(run, controller, TASK.path, TASK.start_clock(0.7), 8.0)
    assert run == 2
    error = np.linalg.norm(rollout.sensed.position - rollout.reference.position, axis=-1)
    assert len(rollout.time) == pytest.approx(400, abs=3)
    assert np.sqrt(np.mean(error**2)) < 0.2
    steps = np.diff(rollout.stamp)
    assert np.mean(np.abs(steps - 0.02) < 0.005) > 0.97, "what the learner can use"
    assert rollout.sample_received.mean() > 0.97
    land(session)
    session.close()
    assert not crashed(session)
    assert session.ended["missed_in_a_row"] <= 1
    bagged = flights(read_records(session.folder / "flight.bag"))
    assert sorted(bagged) == [0, 1]
    assert np.allclose(bagged[1].command, rollout.command)
    # What was recorded as sent is what was on the wire.
    from lafr_mjx.hil import messages as m

    wire = [
        m.decode(r.kind, r.data).collective_thrust
        for r in read_records(session.folder / "flight.spool")
        if r.topic.endswith("feedthrough_command")
    ]
    assert set(np.round(rollout.command[:, 0], 9)) <= set(np.round(wire, 9))
    with capsys.disabled():
        print(f"\n  {session.ended['missed_deadlines']} missed deadlines in "
              f"{session.ended['ticks']} ticks ({session.priority})")  # fmt: skip


def test_a_vehicle_that_has_landed_is_flown_again(session):
    take_off(session)
    session.say(Word.LAND)
    again(session)
    assert session.mode == "policy"
    land(session)
    assert not crashed(session)


def test_the_stop_of_a_second_person_beside_our_own(tmp_path):
    """Started before the flight, and held by somebody else: both must reach the pilot."""
    with Master() as master:
        theirs = EmergencyStop(PROFILE, master.uri)
        try:
            with Session(PROFILE, tmp_path, master=master.uri, patient=PATIENT) as session:
                take_off(session)
                wait_for(lambda: theirs.connected, 5.0, "their connection")
                text = (tmp_path / "stop.txt").read_text()
                assert text.strip().splitlines()[-1].endswith("ready"), text
                begin = time.monotonic()
                theirs.stop()
                while not any("guard" in words for _, words in drone_log(session)):
                    theirs.poll()
                    assert time.monotonic() - begin < 1.0, "the guard"
                    time.sleep(0.005)
                while session.mode != "off":
                    theirs.poll()
                    assert time.monotonic() - begin < 40.0, session.trouble()
                    time.sleep(0.02)
                assert not crashed(session)
        finally:
            theirs.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_flight_ends_in_order_when_its_command_is_told_to_end(tmp_path, number):
    """Told twice within a moment, as some starters do: it lands, and says so in a line."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "lafr_mjx.hil", "fly", "--fixed", *PACE, "--out", str(out)]
    flight = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = out / "hil" / "events.txt"
    wait_for(lambda: log.exists() and "hover → policy" in log.read_text(), 60.0, "the policy")
    for _ in range(2):
        flight.send_signal(number)
        time.sleep(0.01)
    _, told = flight.communicate(timeout=60.0)
    assert flight.returncode == 1 and "the vehicle was landed" in told
    assert "Traceback" not in told and (out / "summary.json").exists()
    assert "land → off" in log.read_text() and "→ guard" not in log.read_text()


def test_cut_beats_everything(session):
    at_speed(session)
    begin = session.clock.now()
    session.cut()
    wait_for(lambda: drone_log(session)[-1][1][1] == "disarmed", 1.0, "motors off")
    assert session.clock.now() - begin < 0.1


def test_operators_process_killed(tmp_path):
    """The console is gone: the control process lands by itself, then ends."""
    code = (
        "import sys, time, pathlib\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from test_realtime import *\n"
        "s = Session(PROFILE, pathlib.Path(sys.argv[1]), scenario='wind5', patient=PATIENT)\n"
        "at_speed(s)\n"
        "print('pid', s.process('control').pid, s.process('drone').pid, flush=True)\n"
        "time.sleep(100)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    line = parent.stdout.readline().split()
    control, drone = int(line[1]), int(line[2])
    parent.kill()
    parent.wait()

    try:
        wait_for(lambda: has_ended(control), 25.0, "the end of the control process")
        log = (tmp_path / "drone.txt").read_text()
        assert "CRASHED" not in log
        assert log.strip().splitlines()[-1].endswith("idle, disarmed"), log
    finally:
        os.kill(drone, signal.SIGTERM)


def test_drone_process_killed(session):
    at_speed(session)
    session.process("drone").kill()
    with pytest.raises(RunError, match="drone process has ended"):
        session.wait("nowhere", seconds=5.0, what="nothing")
    wait_for(lambda: session.mode in ("hover", "guard", "land"), 2.0, "leaving the policy")


def test_a_session_that_ends_while_its_control_process_hangs(tmp_path):
    """The pilot hovers by itself; the independent stop lands it before everything is ended."""
    session = Session(PROFILE, tmp_path, patient=PATIENT)
    try:
        take_off(session)
        os.kill(session.process("control").pid, signal.SIGSTOP)
    finally:
        session.close()
    assert "the emergency stop lands" in (tmp_path / "events.txt").read_text()
    assert drone_log(session)[-1][1][0] == "land" and not crashed(session)


def test_a_session_that_ends_after_its_control_process_was_killed(tmp_path):
    """At once: nobody gives the independent stop time, but the session itself."""
    session = Session(PROFILE, tmp_path, patient=PATIENT)
    try:
        take_off(session)
        session.process("control").kill()
        with pytest.raises(RunError, match="control process has ended"):
            session.wait("nowhere", seconds=5.0, what="nothing")
    finally:
        session.close()
    assert "has ended: the emergency stop lands" in (tmp_path / "events.txt").read_text()
    assert drone_log(session)[-1][1][0] == "land" and not crashed(session)
    truth = [r for r in read_records(tmp_path / "flight.bag") if r.topic == PROFILE.topic("state")]
    assert truth, "what was recorded before is in the bag"
    assert not session.down, "nobody has heard of its landing"


def test_whatever_goes_wrong_on_the_ground_the_vehicle_is_landed_first(tmp_path):
    """The operator's process cannot write the next leg: an error of the system, not one of ours."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "lafr_mjx.hil", "fly", "--fixed", *PACE, "--out", str(out)]
    file = tmp_path / "told.json"
    flight = subprocess.Popen([*command, "--json", str(file)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)  # fmt: skip
    wait_for(lambda: (out / "hil").exists(), 60.0, "the folder")
    (out / "hil" / ".leg-000.npz").mkdir()
    _, told = flight.communicate(timeout=90.0)
    assert flight.returncode == 1 and "Is a directory" in told and "Traceback" not in told
    log = (out / "hil" / "events.txt").read_text()
    assert "hover → policy" in log and "land → off" in log
    assert (out / "hil" / "flight.bag").exists()
    hil = json.loads(file.read_text())["hil"]
    assert hil["confirmed_down"] and "Is a directory" in hil["trouble"]


def test_command_line_flight(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "lafr_mjx.hil", "fly", "figure8", "--flights", "1",
               "--time-scale", "0.8", *PACE, "--out", str(out)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "1 of 1 flight, " in done.stdout
    assert (out / "hil" / "flight.bag").exists() and (out / "rollouts" / "000.npz").exists()
    again = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert again.returncode == 2 and "never overwritten" in again.stderr
    bag = str(out / "hil" / "flight.bag")
    replay = [sys.executable, "-m", "lafr_mjx.hil", "replay", bag, "--task", "figure8"]
    done = subprocess.run(replay, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "1 flight" in done.stdout
