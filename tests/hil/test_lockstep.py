# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false
"""Time in lockstep: it waits for all, for nobody for ever, and a flight is always the same."""

import asyncio
import os
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from lockstep_rig import PROFILE, leg, until
from needs import require_betaflight
from waiting import wait_for

from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.legs import save_leg
from lafr_mjx.hil.operator.operator_steps import land, take_off
from lafr_mjx.hil.operator.session import Session
from lafr_mjx.hil.simulator import time_keeper
from lafr_mjx.hil.simulator.time_keeper import TimeKeeper
from lafr_mjx.hil.timing.flight_clock import REAL_TIME, flight_clock
from lafr_mjx.hil.timing.lockstep import START_S, Lockstep, place

CYCLE_S = 0.01


class World(threading.Thread):
    """A keeper that goes from cycle to cycle."""

    def __init__(self, monkeypatch, first=("one",), hangs_s=10.0):
        super().__init__(daemon=True)
        monkeypatch.setattr(time_keeper, "FIRST", first)
        monkeypatch.setattr(time_keeper, "_HANGS_S", hangs_s)
        monkeypatch.setattr(time_keeper, "_LOOKS_S", 0.05)
        self._place = place()
        self.folder, door = self._place.__enter__()
        self.keeper = TimeKeeper(self.folder, os.dup(door.fileno()))
        door.close()
        # Nobody's messages: these are counted by the flights below.
        self.keeper.node = SimpleNamespace(name="/drone", frames_to=len, frames_from=len)
        self.clock = Lockstep(self.folder)
        self.loop = asyncio.new_event_loop()
        self.stop = asyncio.Event()
        self.start()

    def run(self):
        async def serve():
            await self.keeper.begin(self.stop)
            cycle = 0
            while not self.stop.is_set():
                cycle += 1
                await self.keeper.go_to(START_S + cycle * CYCLE_S, self.stop)
                await self.keeper.round(self.stop)
                await asyncio.sleep(0)  # where nobody waits any more, the end is heard, too
            self.keeper._server.close()
            for seat in self.keeper._seats:
                seat.writer.close()
            await asyncio.sleep(0.01)

        self.loop.run_until_complete(serve())

    def end(self):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.join()
        self._place.__exit__(None, None, None)


@pytest.fixture
def world(monkeypatch, request):
    made = World(monkeypatch, *getattr(request, "param", ()))
    yield made
    made.end()


def thread(function):
    started = threading.Thread(target=function, daemon=True)
    started.start()
    return started


def test_time_goes_on_when_all_wait_and_then_at_once(world):
    clock = world.clock
    clock.join("one")
    time.sleep(0.2)
    assert clock.now() == START_S and not clock.began, "somebody works"
    clock.sleep(5.0)
    assert clock.now() == START_S + 5.0, "to the very moment"
    time.sleep(0.2)
    assert clock.now() == START_S + 5.0 and clock.began


@pytest.mark.parametrize("world", [(("a", "b"),)], indirect=True)
def test_turns_are_given_in_order_one_by_one(world):
    clock, told = world.clock, []

    def go(role, step):
        clock.join(role)
        for _ in range(20):
            clock.sleep(step)
            told.append((round(clock.now() - START_S, 6), role))
        clock.leave()

    threads = [thread(lambda role=role, step=step: go(role, step)) for role, step in
               (("b", 0.0125), ("a", 0.025))]  # fmt: skip
    for one in threads:
        one.join(120.0)
    assert told == sorted(told) and len(told) == 40


@pytest.mark.parametrize("world", [(("one", "two"),)], indirect=True)
def test_who_has_gone_is_not_waited_for(world):
    clock = world.clock

    def come_and_go():
        clock.join("two")
        clock.sleep(0.1)  # and its thread ends, without a word

    thread(come_and_go)
    clock.join("one")
    clock.sleep(3.0)
    assert clock.now() == START_S + 3.0


@pytest.mark.parametrize("world", [(("one", "two"), 2.0)], indirect=True)
def test_who_hangs_is_not_waited_for_for_ever_and_may_come_back(world, capsys):
    clock, go_on, back = world.clock, threading.Event(), []

    def hang():
        clock.join("two")
        clock.sleep(0.1)
        go_on.wait(60.0)
        clock.sleep(0.1)
        back.append(clock.now())
        time.sleep(0.1)
        back.append(clock.now())

    other = thread(hang)
    clock.join("one")
    clock.sleep(1.0)
    assert clock.now() == START_S + 1.0
    assert "two hangs: time goes on without it" in capsys.readouterr().out
    go_on.set()
    clock.sleep(5.0)
    other.join(120.0)
    assert back[0] > START_S + 1.0 and back[1] == back[0], "time waits for it again"


def test_a_wait_that_was_interrupted_takes_nobodys_turn(world):
    clock = world.clock
    clock.join("one")

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for _ in range(5):
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(KeyboardInterrupt):
                while True:
                    clock.sleep(1.0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    for _ in range(50):
        at = clock.now() + 0.015
        clock.sleep_until(at)
        assert clock.now() >= at
    before = clock.now()
    time.sleep(0.1)
    assert clock.now() == before, "and time still waits for us"


def test_without_the_drone_time_is_the_machines_own(world):
    clock = world.clock
    clock.join("one")
    clock.sleep(0.5)
    world.loop.call_soon_threadsafe(world.stop.set)
    real = time.monotonic()
    clock.sleep(1.0)
    assert clock.now() - START_S >= 1.5 and time.monotonic() - real > 0.5
    event = threading.Event()
    assert not clock.wait(event, clock.now() + 0.05)
    event.set()
    assert clock.wait(event, clock.now() + 1.0)


def test_an_event_wakes_at_the_moment_at_which_it_is_set(world):
    clock, event = world.clock, threading.Event()
    clock.join("one")

    def set_it():
        clock.sleep_until(START_S + 0.25)
        event.set()

    thread(set_it)
    clock.sleep(0.2)
    assert not clock.wait(event, START_S + 0.2)
    while not clock.wait(event, clock.now() + 0.01):
        assert clock.now() < START_S + 1.0
    assert clock.now() == pytest.approx(START_S + 0.26, abs=0.011)


def test_a_folder_that_nobody_keeps_a_time_in(tmp_path):
    assert flight_clock() is REAL_TIME
    assert REAL_TIME.now() == pytest.approx(time.monotonic(), abs=0.05)
    with pytest.raises(InputError, match=r"--lockstep .*: cannot be read"):
        flight_clock(tmp_path)
    for content in (b"", bytes(16), os.urandom(16)):
        (tmp_path / "time").write_bytes(content)
        with pytest.raises(InputError, match=r"--lockstep "):
            flight_clock(tmp_path)
    with pytest.raises(InputError, match="cannot be opened"):
        TimeKeeper(tmp_path / "nothing", 0)


def flown(folder, flight_controller, stall=False):
    """A flight with all processes: what was sensed, what was sent, and what happened when."""
    folder.mkdir()
    with Session(PROFILE, folder, scenario="wind5", flight_controller=flight_controller) as session:
        take_off(session)
        session._send({"leg": str(save_leg(folder, leg(seconds=3.0, time_scale=0.6)))})
        until(session, lambda: session.status.get("stage") == "track", 20.0, "the track")
        if stall:
            pids = [session.process(name).pid for name in ("control", "drone", "stop")]
            for pid in pids:
                session.sleep(0.13)
                os.kill(pid, signal.SIGSTOP)
                time.sleep(1.5)
                os.kill(pid, signal.SIGCONT)
        until(session, lambda: 0 in session.status.get("finished", []), 20.0, "the end of the leg")
        rollout = session.rollout(0)
        land(session)
    assert session.down and session.ended["missed_deadlines"] == 0
    assert not [text for _, text in session.events if text.startswith("fault ")]
    assert "CRASHED" not in (folder / "drone.txt").read_text()
    return rollout


@pytest.mark.parametrize("flight_controller", ["plant", "betaflight"])
def test_a_flight_is_the_same_again_whatever_the_machine_does(tmp_path, flight_controller):
    """Once each of its processes stands still for 1.5 s: nothing of the flight changes."""
    if flight_controller == "betaflight":
        require_betaflight()
    one = flown(tmp_path / "one", flight_controller)
    two = flown(tmp_path / "two", flight_controller, stall=True)
    assert len(one.time) == pytest.approx(150, abs=1)
    assert np.array_equal(one.sensed.position, two.sensed.position)
    assert np.array_equal(one.command, two.command)
    assert np.allclose(np.diff(one.stamp), 0.02, atol=1e-6)


def test_a_session_that_never_begins_ends_soon(tmp_path):
    """The drone's process dies before time has begun."""
    session = Session(PROFILE, tmp_path)
    session.process("drone").kill()
    session.close()
    wait_for(lambda: session.process("control").poll() is not None, 60.0, "the end")
    assert session.down
