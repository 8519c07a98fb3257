# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false
"""Real processes and a real wire, in lockstep: each of them is lost in the air."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from adaptation_rig import adapt, events
from lockstep_rig import PROFILE, TASK, crashed, drone_log, leg, until
from waiting import has_ended, wait_for

from lafr_mjx.errors import RunError
from lafr_mjx.hil.operator import descent
from lafr_mjx.hil.operator.drone_plant import HilPlant
from lafr_mjx.hil.operator.operator_steps import land, take_off
from lafr_mjx.hil.operator.session import Session
from lafr_mjx.hil.recording.bags import flights, read_records
from lafr_mjx.runs.run_folder import RunFolder


@pytest.fixture
def session(tmp_path):
    with Session(PROFILE, tmp_path, scenario="wind5") as running:
        yield running


def at_speed(session):
    """In the middle of a flight."""
    take_off(session)
    from lafr_mjx.hil.control.legs import save_leg

    session._send({"leg": str(save_leg(session.folder, leg(seconds=60.0, time_scale=0.6)))})
    until(session, lambda: session.status.get("stage") == "track", 20.0, "the track")
    session.sleep(3.0)
    return session


def test_flight_recording_and_landing(session):
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
    assert session.ended["missed_deadlines"] == 0
    bagged = flights(read_records(session.folder / "flight.bag"))
    assert sorted(bagged) == [0, 1]
    assert np.allclose(bagged[1].command, rollout.command)
    # What was recorded as sent is what was on the wire.
    from lafr_mjx.hil.wire import ros_messages as m

    wire = [
        m.decode(r.kind, r.data).collective_thrust
        for r in read_records(session.folder / "flight.spool")
        if r.topic.endswith("feedthrough_command")
    ]
    assert set(np.round(rollout.command[:, 0], 9)) <= set(np.round(wire, 9))


def test_cut_beats_everything(session):
    at_speed(session)
    begin = session.clock.now()
    session.cut()
    until(session, lambda: drone_log(session)[-1][1][1] == "disarmed", 1.0, "motors off")
    assert session.clock.now() - begin < 0.1


def test_operators_process_killed(tmp_path):
    """The console is gone: the control process lands by itself, then ends."""
    code = (
        "import sys, time, pathlib\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from test_processes import *\n"
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

    try:
        wait_for(lambda: has_ended(control), 300.0, "the end of the control process")
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
    until(
        session,
        lambda: session.mode in ("hover", "guard", "blind", "land"),
        2.0,
        "leaving the policy",
    )


def test_a_session_that_ends_while_its_control_process_hangs(tmp_path, monkeypatch):
    """The pilot hovers by itself; the independent stop lands it before everything is ended."""
    monkeypatch.setattr(descent, "_HANGS_S", 5.0)  # less patience with it than a flight has
    session = Session(PROFILE, tmp_path)
    try:
        take_off(session)
        os.kill(session.process("control").pid, signal.SIGSTOP)
        with pytest.raises(RunError, match="the control process hangs"):
            session.wait("nowhere", seconds=60.0, what="nothing")
    finally:
        session.close()
    assert "the emergency stop lands" in (tmp_path / "events.txt").read_text()
    assert drone_log(session)[-1][1][1] == "disarmed" and not crashed(session)
    assert session.down


def test_a_killed_learner_the_drone_laps_on_hovers_lands(tmp_path, capsys):
    with pytest.raises(RunError, match=r"learner's process has ended with status -9.*landed"):
        adapt(tmp_path, 5, ["learner-kill@16"], limits={"learner_s": 6.0})
    told = events(tmp_path)
    moments = {
        name: float(re.search(rf"([0-9.]+) s  {what}", told)[1])
        for name, what in {
            "death": "the learner's process has ended",
            "hover": r"policy → hover \(the learner is silent",
            "off": "land → off",
        }.items()
    }
    lapped = moments["hover"] - moments["death"]
    assert "fault LEARNER" in told
    # Its last sign of life was up to a stage of its work before its death.
    assert 1.0 < lapped < 7.0, "the last good policy keeps flying, for a bounded time"
    assert moments["off"] - moments["hover"] < 20.0
    folder = RunFolder.open(tmp_path / "run")
    assert len(folder.iterations()) == len(folder.rollout_numbers()) >= 1
    ticks = [r for r in read_records(folder.path / "hil" / "flight.bag")
             if r.topic.endswith("feedthrough_command")]  # fmt: skip
    assert len(ticks) > 600, "the log is complete"
    log = (folder.path / "hil" / "drone.txt").read_text()
    assert "CRASHED" not in log and "idle, disarmed" in log.splitlines()[-2]
    with capsys.disabled():
        print(f"\n  learner killed: lapped on for {lapped:.1f} s, off "
              f"{moments['off'] - moments['hover']:.1f} s after that")  # fmt: skip


def test_command_line_flight(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "lafr_mjx.hil", "fly", "figure8", "--flights", "1",
               "--time-scale", "0.8", "--out", str(out)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "1 of 1 flight, " in done.stdout
    assert (out / "hil" / "flight.bag").exists() and (out / "rollouts" / "000.npz").exists()
    again = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert again.returncode == 2 and "never overwritten" in again.stderr
    bag = str(out / "hil" / "flight.bag")
    replay = [sys.executable, "-m", "lafr_mjx.hil", "replay", bag, "--task", "figure8"]
    done = subprocess.run(replay, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "1 flight" in done.stdout
