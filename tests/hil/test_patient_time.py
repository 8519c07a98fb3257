# pyright: reportOptionalMemberAccess=false
"""Time that stands still while the machine does: what counts of a stall, and a flight by it."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_rig import PROFILE, leg
from waiting import wait_for

from lafr_mjx.errors import InputError
from lafr_mjx.hil.drone.world_clock import WorldClock
from lafr_mjx.hil.flight_clock import FlightClock, flight_clock
from lafr_mjx.hil.operator import land, take_off
from lafr_mjx.hil.patient_time import (
    ALLOWED_S,
    BEAT_S,
    LEAST_PACE,
    MOST_STILL_S,
    Beats,
    PatientPage,
    PatientTime,
    Stretch,
)
from lafr_mjx.hil.profile import load_profile
from lafr_mjx.hil.session import Session
from lafr_mjx.hil.time_keeper import place

BEATS = st.lists(st.tuples(st.integers(0, 2), st.floats(1e-5, 0.5)), min_size=1, max_size=60)


@given(BEATS)
def test_it_runs_only_while_all_cores_beat(beats):
    """Whatever the order and pauses of beats: never backwards, never faster than real time."""
    keeper, moment = Beats([0, 1, 2], 100.0), 100.0
    last = dict.fromkeys(range(3), 100.0)
    for core, pause in beats:
        before, begin = keeper.stretch, moment
        moment += pause
        half = before.at(begin + 0.5 * pause)
        assert before.at(begin) <= half <= before.at(moment) <= before.at(begin) + pause + 1e-9
        silent = min(last.values()) + ALLOWED_S  # from here on nothing counts
        counts = max(0.0, min(moment, silent) - begin)
        assert before.at(moment) <= before.at(begin) + max(counts, LEAST_PACE * pause) + 1e-9
        last[core] = moment
        stretch = keeper.beat(core, moment)
        assert stretch.at(moment) == pytest.approx(before.at(moment)), "it never jumps"


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 0.02)), min_size=50, max_size=200))
def test_it_runs_no_faster_than_the_slowest_core_is_served_and_never_sticks(stalls):
    """Two cores of which one after the other is taken away, for long or for many short moments."""
    keeper, moment, served = Beats([0, 1], 0.0), 0.0, 0.0
    for second, stall in stalls:
        moment += BEAT_S
        keeper.beat(int(not second), moment)
        moment += stall
        keeper.beat(int(second), moment)
        served += BEAT_S
        if stall > 0.001:  # a further round, so that no core is late by a whole one
            moment += BEAT_S
            keeper.beat(int(not second), moment)
            keeper.beat(int(second), moment)
            served += BEAT_S
    time = keeper.stretch.at(moment)
    lag = 0.0005 * 2 * len(stalls)  # what is still called punctual
    assert 0.3 * served <= time <= served + ALLOWED_S + lag


@pytest.mark.parametrize(
    ("cores", "period"), [(1, 0.01), (2, 0.01), (8, 0.003), (8, 0.1), (64, 0.05)]
)
def test_beats_that_are_always_late_slow_it_down_but_do_not_stop_it(cores, period):
    """A machine with coarse timers, or one that has no time for beats."""
    keeper = Beats(list(range(cores)), 0.0)
    for k in range(1, round(20.0 / period)):
        for core in range(cores):
            keeper.beat(core, period * (k + core / cores))
    assert keeper.stretch.at(20.0) >= LEAST_PACE * (20.0 - MOST_STILL_S) - 0.1


def test_a_core_that_beats_no_more_does_not_stop_it():
    keeper = Beats([0, 1], 0.0)
    for k in range(1, 10_001):
        keeper.beat(0, 0.001 * k)
        if k <= 1000:
            keeper.beat(1, 0.001 * k)
        if k == 2900:
            assert keeper.stretch.at(2.9) == pytest.approx(1.0, abs=2 * ALLOWED_S)
    assert keeper.stretch.at(10.0) >= 1.0 + LEAST_PACE * (9.0 - MOST_STILL_S)


def test_of_a_stall_next_to_nothing_counts_whatever_its_length():
    beats = Beats([0, 1], 0.0)
    for k in range(1, 21):
        for core in (0, 1):
            stretch = beats.beat(core, 0.001 * k)
    assert stretch.at(0.02) == pytest.approx(0.02)
    stretch = beats.beat(0, 0.5)  # the other core stands still for longer
    stood = 0.02 + ALLOWED_S
    assert stretch.at(0.6) == pytest.approx(stood)
    stretch = beats.beat(1, 0.6)
    assert stretch.at(0.7) == pytest.approx(stood), "now the first one has been silent for long"
    beats.beat(0, 0.7)
    beats.beat(1, 0.7)
    for k in range(1, 11):
        for core in (0, 1):
            stretch = beats.beat(core, 0.7 + 0.001 * k)
    # What had counted of the stall is given back.
    assert stretch.at(0.71) == pytest.approx(0.03 + BEAT_S, abs=0.001)


SECONDS = st.floats(-5.0, 5.0)


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS), min_size=1, max_size=4))
def test_the_drone_reads_the_same_time_by_code_of_its_own(tmp_path_factory, stretches):
    """Whatever a keeper writes; the real moment passes between two looks, so one on each side."""
    file = tmp_path_factory.mktemp("time") / "time"
    page = PatientPage(file)
    for numbers in stretches:
        page.write(Stretch(*(time.monotonic() + number for number in numbers)))
        ours, drones = PatientTime(file), WorldClock(2.0, file)
        before, theirs, after = ours(), 2.0 * drones.now(), ours()
        assert before - 1e-9 <= theirs <= after + 1e-9


@pytest.fixture
def keeper():
    with place() as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "lafr_mjx.hil.time_keeper", str(file), str(os.getpid())]
        )
        try:
            wait_for(file.exists, what="the keeper")
            yield process, file
        finally:
            process.kill()
            process.wait()


def test_a_keeper_that_stands_still_stops_the_time_of_all(keeper):
    process, file = keeper
    one, two = PatientTime(file), flight_clock(2.0, file)
    began, real = one(), time.monotonic()
    two.sleep(0.05)
    assert time.monotonic() - real >= 0.1, "slow and patient"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.05)  # it has stopped, and what is allowed has passed
    still, still_two = one(), two.now()
    time.sleep(0.3)
    assert one() == still and two.now() == still_two
    os.kill(process.pid, signal.SIGCONT)
    wait_for(lambda: one() > still + 0.05, what="time to go on")
    assert one.stood_still_s >= 0.3
    assert one() - began <= time.monotonic() - real - 0.3
    assert two.now() == pytest.approx(one() / 2.0, abs=0.01)


def test_nobody_waits_for_ever_for_a_dead_keeper(keeper):
    process, file = keeper
    clock = FlightClock(1.0, PatientTime(file))
    process.kill()
    process.wait()
    real = time.monotonic()
    clock.sleep(0.2)
    took = time.monotonic() - real
    assert MOST_STILL_S - 0.1 <= took < MOST_STILL_S + 0.2 / LEAST_PACE + 1.0


def test_it_never_runs_backwards(keeper):
    now, latest = PatientTime(keeper[1]), 0.0
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        moment = now()
        assert moment >= latest
        latest = moment


def test_no_keeper_outlives_who_started_it_by_long(tmp_path):
    """Even if that has gone before the keeper has begun: it knows whom to look for."""
    from lafr_mjx.hil import time_keeper

    with place() as file:
        code = "import sys; from lafr_mjx.hil import time_keeper as k; k._ORPHAN_S = 0.5; k.main()"
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        keeper = subprocess.Popen([sys.executable, "-c", code, str(file), str(gone.pid)])
        assert keeper.wait(120.0) == 0
        assert not file.parent.exists(), "and leaves nothing"
    assert time_keeper._ORPHAN_S >= 60.0, "a software drone stays so long for a landing"


def test_it_ends_with_a_signal_and_leaves_nothing(tmp_path):
    with place() as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "lafr_mjx.hil.time_keeper", str(file), str(os.getpid())]
        )
        wait_for(file.exists, what="the keeper")
        process.terminate()
        assert process.wait(120.0) == 0
        folder = file.parent
    assert not folder.exists()


def test_a_flight_whose_machine_stands_still(tmp_path):
    """All its processes are stopped for 0.4 s, again and again: no fault, and no late tick."""
    with Session(PROFILE, tmp_path, scenario="wind5", patient=True) as session:
        take_off(session)
        missed = session.status["missed"]
        pids = [session.process(name).pid for name in ("time", "control", "drone", "stop")]
        session._send({"leg": str(_saved(session))})
        wait_for(lambda: session.status.get("stage") == "track", what="the track")
        for _ in range(5):
            session.clock.sleep(0.5)
            for pid in pids:  # who keeps the time first, and last when it goes on
                os.kill(pid, signal.SIGSTOP)
            time.sleep(0.4)
            for pid in reversed(pids):
                os.kill(pid, signal.SIGCONT)
        wait_for(lambda: 0 in session.status.get("finished", []), what="the end of the leg")
        rollout = session.rollout(0)
        assert session.mode == "policy", session.trouble()
        assert not [text for _, text in session.events if text.startswith("fault ")]
        assert session.status["missed"] == missed
        land(session)
    assert session.stood_still_s is not None and session.stood_still_s > 1.9
    assert np.median(np.diff(rollout.stamp)) == pytest.approx(0.02, abs=1e-3)
    error = np.linalg.norm(rollout.sensed.position - rollout.reference.position, axis=-1)
    assert error.max() < 0.4 and "CRASHED" not in (tmp_path / "drone.txt").read_text()


def _saved(session):
    from lafr_mjx.hil.legs import save_leg

    return save_leg(session.folder, leg(seconds=6.0, time_scale=1.0))


def test_only_the_software_drone_waits_for_a_machine(tmp_path):
    with pytest.raises(InputError, match="--patient: a real drone flies in real time"):
        Session(load_profile("agilicious192"), tmp_path, patient=True)
    with pytest.raises(InputError, match=r"--patient .*nothing: cannot be read"):
        flight_clock(1.0, tmp_path / "nothing")
    for name, content in (("empty", b""), ("zeros", bytes(200)), ("noise", os.urandom(200))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="cannot be read"):
            flight_clock(1.0, tmp_path / name)
        with pytest.raises(InputError, match="cannot be read"):
            WorldClock(1.0, tmp_path / name)
