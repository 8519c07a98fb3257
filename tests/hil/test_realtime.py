# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The few flights in real time: that they end safely, however punctual the machine is."""

import json
import subprocess
import sys

import pytest
from lockstep_rig import PROFILE, crashed, drone_log
from waiting import wait_for

from lafr_mjx.errors import RunError
from lafr_mjx.hil.operator.operator_steps import take_off
from lafr_mjx.hil.operator.session import Session

LATE = ("DEADLINE", "STATE_STALE", "MOCAP", "LINK", "TRACKING")
"""What a machine that stands still may trip."""


def test_a_flight_in_real_time_ends_down(tmp_path):
    """It comes to its end, or is broken off by what a late machine causes, and by nothing else."""
    out, told = tmp_path / "run", tmp_path / "told.json"
    command = [sys.executable, "-m", "lafr_mjx.hil", "fly", "figure8", "--flights", "1"]
    command += ["--time-scale", "0.8", "--real-time", "--out", str(out), "--json", str(told)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    hil = json.loads(told.read_text())["hil"]
    assert hil["confirmed_down"] and not hil["lockstep"], done.stderr
    assert "CRASHED" not in (out / "hil" / "drone.txt").read_text()
    if done.returncode:
        assert hil["trips"], done.stderr
    assert all(any(name in trip for name in LATE) for trip in hil["trips"]), hil["trips"]
    assert (out / "hil" / "flight.bag").exists()


def test_the_control_process_is_killed_in_real_time(tmp_path):
    """The pilot hovers by its own time-out, and the emergency stop's process lands."""
    with Session(PROFILE, tmp_path, real_time=True) as session:
        assert not session.clock.lockstep
        for attempt in range(5):
            try:
                take_off(session)
                break
            except RunError:  # late
                if attempt == 4:
                    pytest.skip("this machine is never punctual for the few seconds of a take-off")
                session.wait("off", seconds=60.0, what="landing")
        session.process("control").kill()
        wait_for(lambda: drone_log(session)[-1][1][0] != "feedthrough", 60.0, "the time-out")
    assert session.down and drone_log(session)[-1][1][1] == "disarmed" and not crashed(session)
