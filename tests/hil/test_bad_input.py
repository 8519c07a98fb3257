# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Edges of the command line: one clear line, the right exit status, no traceback."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lafr_mjx.errors import RunError
from lafr_mjx.hil.operator import drone_flights as flights
from lafr_mjx.hil.operator.session import Session
from lafr_mjx.hil.recording.spool import Record, SpoolWriter
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.timing.flight_clock import REAL_TIME
from lafr_mjx.hil.wire.ros_master import Master
from lafr_mjx.logs.flown_ticks import TICK, TICK_TOPIC
from lafr_mjx.resources import data_folder
from lafr_mjx.runs.run_folder import RunFolder


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "lafr_mjx.hil", *arguments], capture_output=True, text=True,
        timeout=600, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fly", "figure8", "--vehicle", "nobody"], "unknown drone"),
        (["fly", "nothing"], "unknown task"),
        (["fly", "--flights", "0"], "--flights"),
        (["fly", "--flights", "-1"], "--flights"),
        (["fly", "--time-scale", "nan"], "--time-scale"),
        (["fly", "--time-scale", "1e308"], "--time-scale"),
        (["fly", "--time-scale", "0.2"], "cannot be flown there"),
        (["fly", "--seed", "-1"], "--seed"),
        (["fly", "--fault", "gremlin@3"], "--fault"),
        (["fly", "--fault", "gremlin@3"], "mocap-drop, "),
        (["fly", "--fault", "gremlin@3"], "learner-kill, learner-hang, learner-nan"),
        *(
            ([command, "--host", host], f"--host '{host}': must be an address or a name of this")
            for command in ("fly", "stop", "sim-drone", "master")
            for host in ("300.1.1.1", "no-such-host.invalid")
        ),
        (["fly", "--fault", "mocap-drop@1:-1"], "seconds, from 0"),
        (["fly", "--fault", "mocap-drop@-1"], "seconds, from 0"),
        (["fly", "--fault", "mocap-drop@nan"], "seconds, from 0"),
        (["fly", "--fixed", "--iterations", "3"], "--iterations 3"),
        (["fly", "--master", "nonsense"], "--master"),
        (["fly", "--master", "http://127.0.0.1:1"], "no ROS master answers"),
        (["fly", "--master", "ws://127.0.0.1:1"], "must be an address like http://"),
        (["compare", "--task", "nope"], "unknown task"),
        (["compare", "--scenario", "nope"], "unknown scenario"),
        (["fly", "--scenario", "nowhere"], "unknown scenario"),
        (["fly", "--plugins", "x=none.py:X"], "there is no file"),
        (["fly", "--policy", "none.npz"], "none.npz"),
        (["fly", "--policy", "none.npz", "--fixed"], "none.npz"),
        (["fly", "--policy", "none.py:Net"], "there is no file"),
        (["fly", "--policy", "mpl"], "did you mean 'mlp'?"),
        (["fly", "--policy", "mlp(hidden=[8])", "--fixed"], "need a run's policy.npz"),
        (["fly", "--ats", "verifed"], "did you mean 'verified'?"),
        (["fly", "--ats", "hold", "--fixed"], "fixed flights learn nothing"),
        (["fly", "--reference", "space-time", "--fixed"], "fixed flights learn nothing"),
        (["fly", "--corridor", "0.1"], "--reference space-time has"),
        (["fly", "--corridor", "0.3", "--reference", "space-time"], "at most 0.2 on the task"),
        (["fly", "--features", "bodi"], "did you mean 'body'?"),
        (["fly", "--features", "body", "--method", "baseline"], "has none"),
        (["fly", "--horizon", "3"], "--horizon 3: must be a whole number from 5 to 200"),
        (["compare", "--horizon", "3"], "--horizon 3: must be a whole number from 5 to 200"),
        (["fly", "--vehicle", "agilicious192.toml"], "--master"),
        (["fly", "--vehicle", "agilicious192", "--master", "http://127.0.0.1:1"], "operator"),
        (
            [
                "fly",
                "--vehicle",
                "agilicious192",
                "--master",
                "http://127.0.0.1:1",
                "--plugins",
                "x=none.py:X",
            ],
            "are for the software drone only",
        ),
        (["sim-drone", "--master", "nonsense", "--seconds", "1"], "master"),
        (["sim-drone", "--seconds", "-1"], "--seconds"),
        (["check", "--seconds", "1e308"], "--seconds"),
        (["replay", "none.bag"], "no such bag"),
        (["master", "--port", "70000"], "--port"),
        (["stop", "--master", "http://"], "--master"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, told, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists(), "nothing is left behind"


def test_a_stop_that_nobody_holds_says_so():
    done = run("stop")
    assert done.returncode == 1 and "nobody holds" in done.stderr


def test_an_existing_run_is_kept_and_no_wrong_advice_given(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.toml").write_text("x = 1\n")
    done = run("fly", "--fixed", "--out", str(tmp_path / "a"))
    assert done.returncode == 2 and "never overwritten" in done.stderr
    assert "--resume" not in done.stderr


def test_replay_that_cannot_write(tmp_path):
    record = Record(TICK_TOPIC, TICK, 0.0, 0.0, b"")
    spool = SpoolWriter(tmp_path / "flight.spool")
    spool.add(record)
    spool.close()
    for option in ("--bag", "--out"):
        done = run("replay", str(tmp_path / "flight.spool"), option, "/proc/nowhere/x")
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr


def test_what_is_missing_of_a_cut_recording_is_told(tmp_path):
    from test_recording import flight_records

    spool = SpoolWriter(tmp_path / "flight.spool")
    for record in flight_records(100):
        spool.add(record)
    spool.close()
    whole = (tmp_path / "flight.spool").read_bytes()
    (tmp_path / "cut.spool").write_bytes(whole[: len(whole) // 2])
    for name, told in (("flight", ""), ("cut", "what comes after that is missing")):
        done = run("replay", str(tmp_path / f"{name}.spool"))
        assert done.returncode == 0 and told in done.stderr, done.stderr
        assert bool(told) == ("at byte" in done.stderr)


def test_a_flown_run_is_no_simulated_one(tmp_path):
    run_of = {"task": "figure8", "scenario": "wind5", "seed": 0, "iterations": 12}
    for engine, told in (("hil", "has engine hil"), ("mjx", "has method geometric, not ours")):
        config = {"run": run_of | {"method": "geometric", "engine": engine}}
        with RunFolder.create(tmp_path / engine, config):
            pass
        done = run("compare", "--simulated", str(tmp_path / engine), cwd=tmp_path)
        assert done.returncode == 2 and told in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_pilot_that_is_not_there_is_named(tmp_path):
    profile = load_profile("agilicious192")
    with Master() as master, Session(profile, tmp_path, master=master.uri) as session:
        with pytest.raises(RunError, match="topics"):
            session.wait_ready(12.0)
        assert any(text.startswith("waiting for: topics") for _, text in session.events)


def test_unknown_flag():
    done = run("fly", "--warp", "9")
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_drone_of_ones_own_by_path(tmp_path):
    text = (data_folder("hil") / "agilicious192.toml").read_text(encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('quad = "quad"', 'quad = "7"'), encoding="utf-8")
    done = run("fly", "--vehicle", str(file))
    assert done.returncode == 2 and "mine.toml" in done.stderr and "quad" in done.stderr


@pytest.mark.parametrize(("count", "told"), [(1, "1 missed deadline;"), (2, "2 missed deadlines;")])
def test_the_last_line_counts_in_words(tmp_path, capsys, count, told):
    session: Any = SimpleNamespace(
        ended={"missed_deadlines": count}, events=[], down=True, folder=tmp_path, clock=REAL_TIME
    )
    asked: Any = SimpleNamespace(master=None, profile=SimpleNamespace(simulated=True))
    with RunFolder.create(tmp_path / "run", {"run": {"engine": "hil"}}) as folder:
        flights._finish(asked, folder, session, None, 0, 1.0)
    assert told in capsys.readouterr().out
