# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Whole flights with all processes, in lockstep: how they begin and end, what is left."""

import json
import signal
import subprocess
import sys
import time

import pytest
from lockstep_rig import PROFILE, crashed, drone_log, until
from waiting import wait_for

from lafr_mjx.hil.operator.operator_steps import again, land, take_off
from lafr_mjx.hil.operator.session import Session
from lafr_mjx.hil.safety.modes import Word

FLY = [sys.executable, "-m", "lafr_mjx.hil", "fly"]


def test_a_vehicle_that_has_landed_is_flown_again(tmp_path):
    with Session(PROFILE, tmp_path, scenario="wind5") as session:
        take_off(session)
        session.say(Word.LAND)
        again(session)
        assert session.mode == "policy"
        land(session)
        assert not crashed(session)


def test_the_stop_of_a_second_person_beside_our_own(tmp_path):
    """Held by somebody else: both must reach the pilot."""
    with Session(PROFILE, tmp_path) as session:
        command = [sys.executable, "-m", "lafr_mjx.hil", "stop", "--master", session.master]
        theirs = subprocess.Popen(
            [*command, "--lockstep", str(session.clock._folder)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            take_off(session)
            while "ready" not in theirs.stdout.readline():
                assert theirs.poll() is None
                session.sleep(0.05)
            text = (tmp_path / "stop.txt").read_text()
            assert text.strip().splitlines()[-1].endswith("ready"), text
            theirs.stdin.write("stop\n")
            theirs.stdin.flush()
            until(session, lambda: any("guard" in w for _, w in drone_log(session)), 1.0, "guard")
            until(session, lambda: session.mode == "off", 40.0, "motors off")
            assert not crashed(session)
        finally:
            theirs.kill()
            theirs.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_flight_ends_in_order_when_its_command_is_told_to_end(tmp_path, number):
    """Told twice within a moment, as some starters do: it lands, and says so in a line."""
    out = tmp_path / "run"
    command = [*FLY, "--fixed", "--out", str(out)]
    flight = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = out / "hil" / "events.txt"
    wait_for(lambda: log.exists() and "hover → policy" in log.read_text(), 900.0, "the policy")
    for _ in range(2):
        flight.send_signal(number)
        time.sleep(0.01)
    _, told = flight.communicate(timeout=900.0)
    assert flight.returncode == 1 and "the vehicle was landed" in told
    assert "Traceback" not in told and (out / "summary.json").exists()
    assert "land → off" in log.read_text() and "→ guard" not in log.read_text()


def test_whatever_goes_wrong_on_the_ground_the_vehicle_is_landed_first(tmp_path):
    """The operator's process cannot write the next leg: an error of the system, not one of ours."""
    out = tmp_path / "run"
    command = [*FLY, "--fixed", "--out", str(out)]
    file = tmp_path / "told.json"
    flight = subprocess.Popen([*command, "--json", str(file)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)  # fmt: skip
    wait_for(lambda: (out / "hil").exists(), 900.0, "the folder")
    (out / "hil" / ".leg-000.npz").mkdir()
    _, told = flight.communicate(timeout=900.0)
    assert flight.returncode == 1 and "Is a directory" in told and "Traceback" not in told
    log = (out / "hil" / "events.txt").read_text()
    assert "hover → policy" in log and "land → off" in log
    assert (out / "hil" / "flight.bag").exists()
    hil = json.loads(file.read_text())["hil"]
    assert hil["confirmed_down"] and "Is a directory" in hil["trouble"]
