# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Real time, real processes, real wire: the software drone, the control process, the stop.

Each test prints the times that it measured. They run one after the other: `make test-hil`.
"""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from waiting import wait_for

from lafr_mjx.errors import RunError
from lafr_mjx.hil.bags import flights, read_records
from lafr_mjx.hil.legs import Leg
from lafr_mjx.hil.operator import land, take_off
from lafr_mjx.hil.plant import HilPlant
from lafr_mjx.hil.profile import load_profile
from lafr_mjx.hil.safety import Word
from lafr_mjx.hil.session import Session
from lafr_mjx.hil.spool import SpoolReader
from lafr_mjx.tasks import load_task

PROFILE = load_profile("sim")
TASK = load_task("figure8")


def leg(number=0, seconds=60.0, time_scale=0.6, lap_on=False):
    return Leg(number, TASK.path, time_scale, TASK.ramp_s, seconds, None, np.zeros(4), 0, lap_on)


@pytest.fixture
def session(tmp_path):
    with Session(PROFILE, tmp_path, scenario="wind5") as running:
        yield running


def at_speed(session):
    """In the middle of a flight."""
    take_off(session)
    from lafr_mjx.hil.legs import save_leg

    session._send({"leg": str(save_leg(session.folder, leg()))})
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


def test_control_process_killed(session, capsys):
    at_speed(session)
    session.process("control").kill()
    time.sleep(0.5)
    log = drone_log(session)
    fed = max(t for t, words in log if words[0] == "feedthrough")
    after = [(t, words) for t, words in log if t > fed]
    assert after and after[0][1][0] == "hover", "the pilot hovers without us"
    with pytest.raises(RunError, match="control process has ended"):
        session.wait("off", seconds=1.0, what="nothing")
    # The independent stop brings it down.
    wait_for(lambda: drone_log(session)[-1][1][0] == "land", 10.0, "landing by the stop process")
    time.sleep(4.0)
    assert not crashed(session)
    session.close()
    reader = SpoolReader(session.folder / "flight.spool")
    ticks = [r for r in reader if r.topic == "/lafr_mjx/tick"]
    assert len(ticks) > 150
    assert (session.folder / "flight.bag").exists()
    with capsys.disabled():
        print(f"\n  killed: hover is in force {after[0][0] - fed:.2f} s after feedthrough began; "
              f"log complete to {ticks[-1].time - ticks[0].time:.1f} s")  # fmt: skip


def test_emergency_stop_while_the_control_process_hangs(session, capsys):
    at_speed(session)
    os.kill(session.process("control").pid, signal.SIGSTOP)
    # Its last command is on the wire; the stop must not need it.
    begin = time.monotonic()
    session.stop()
    wait_for(lambda: any("guard" in words for _, words in drone_log(session)), 1.0, "the guard")
    took = time.monotonic() - begin
    wait_for(lambda: drone_log(session)[-1][1][0] == "land", 5.0, "landing")
    time.sleep(4.0)
    assert not crashed(session)
    os.kill(session.process("control").pid, signal.SIGCONT)
    session.close()
    assert took < 0.1
    with capsys.disabled():
        print(f"\n  emergency stop: guard {1e3 * took:.0f} ms after the key")


def test_cut_beats_everything(session):
    at_speed(session)
    begin = time.monotonic()
    session.cut()
    wait_for(lambda: drone_log(session)[-1][1][1] == "disarmed", 1.0, "motors off")
    assert time.monotonic() - begin < 0.1


# Fault, what must be seen, and the time [s] from the last good sample to the last command.
INJECTED = [
    ("mocap-drop@+0:4", "MOCAP_STALE", 0.06),
    ("link-loss@+0:2", "STATE_STALE", 0.05),
    ("mocap-jump@+0:5:0.8", "MOCAP_JUMP", 0.0),
    ("latency@+0:5:0.2", "STATE_STALE", 0.05),
    ("voltage@+0:8:13.0", "VOLTAGE", 0.0),
]
REPEATS = int(os.environ.get("LAFR_HIL_REALTIME_REPEATS", "1"))


@pytest.mark.parametrize("attempt", range(REPEATS))
def test_injected_faults_one_after_the_other(session, capsys, attempt):
    for text, fault, bound in INJECTED:
        seen = len(session.events)
        at_speed(session)
        time.sleep(attempt * 0.7)
        session.inject(text)
        session.wait("hover", "guard", "land", seconds=2.0, what="the reaction")
        time.sleep(0.5)
        new = [what for _, what in session.events[seen:]]
        assert any(f"fault {fault}" in what for what in new), new
        if fault == "MOCAP_JUMP":
            time.sleep(1.5)
            assert session.mode == "hover", "waits for the operator"
            session.say(Word.LAND)
        session.wait("off", seconds=30.0, what="the end")
        assert not crashed(session)
        reaction = reaction_s(session, fault)
        with capsys.disabled():
            print(f"\n  {text}: last command {1e3 * reaction:.0f} ms after the last good sample")
        assert reaction <= bound + 0.025
        # Once it is off and well again, the operator may begin anew.
        wait_for(lambda: not session.status.get("faults"), 20.0, "the end of the fault")
        end = time.monotonic() + 10.0
        while session.mode != "preflight" and time.monotonic() < end:
            session.say(Word.RESET)
            time.sleep(0.3)


def reaction_s(session, fault):
    """From the wire's own record: from the last good sample to the last command."""
    time.sleep(0.5)  # until it is on the disk
    records = list(SpoolReader(session.folder / "flight.spool"))
    sent = [r.time for r in records if r.topic.endswith("feedthrough_command")]
    topic = "/mocap/sim/pose" if fault.startswith("MOCAP") else "/sim/agiros_pilot/state"
    return sent[-1] - max(r.time for r in records if r.topic == topic and r.time <= sent[-1])


def test_operators_process_killed(tmp_path):
    """The console is gone: the control process lands by itself, then ends."""
    code = (
        "import sys, time, pathlib\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from test_realtime import *\n"
        "s = Session(PROFILE, pathlib.Path(sys.argv[1]), scenario='wind5')\n"
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

    def ended():
        try:
            with open(f"/proc/{control}/stat") as file:
                return file.read().split()[2] == "Z"
        except FileNotFoundError:
            return True

    try:
        wait_for(ended, 25.0, "the end of the control process")
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


def test_control_ends_safely_on_ctrl_c(session):
    at_speed(session)
    os.kill(session.process("control").pid, signal.SIGINT)
    wait_for(lambda: session.process("control").poll() is not None, 25.0, "the end")
    assert session.process("control").returncode == 0
    assert not crashed(session)
    assert drone_log(session)[-1][1][1] == "disarmed"


def test_command_line_flight(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "lafr_mjx.hil", "fly", "figure8", "--flights", "1",
               "--time-scale", "0.8", "--out", str(out)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "1 of 1 flights" in done.stdout
    assert (out / "hil" / "flight.bag").exists() and (out / "rollouts" / "000.npz").exists()
    again = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert again.returncode == 2 and "never overwritten" in again.stderr
    bag = str(out / "hil" / "flight.bag")
    replay = [sys.executable, "-m", "lafr_mjx.hil", "replay", bag, "--task", "figure8"]
    done = subprocess.run(replay, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "1 flights" in done.stdout
