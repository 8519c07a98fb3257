# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalCall=false
"""Parts of the control process: legs, flyer, pacer, console; and that it needs no JAX."""

import json
import math
import os
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.policy import create_policy
from lafr_mjx.errors import InputError
from lafr_mjx.hil import flyer as flyer_module
from lafr_mjx.hil.console import Console
from lafr_mjx.hil.flyer import Flyer, bounded
from lafr_mjx.hil.legs import Leg, check_leg, load_leg, save_leg, try_policy
from lafr_mjx.hil.pacer import AHEAD_S, WINDOW_S, Pacer
from lafr_mjx.hil.plant import as_flown
from lafr_mjx.hil.profile import load_profile
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_at
from lafr_mjx.reference.splines import from_waypoints
from lafr_mjx.tasks import load_task
from lafr_mjx.types import COMMAND_HOVER, Reference, Sensed, State

PROFILE = load_profile("sim")
TASK = load_task("figure8")


def policy(seed=0):
    made = create_policy(
        np.random.default_rng(seed), PROFILE.command.limits, "mlp(hidden=[32, 32])"
    )
    last = made.network.layers[-1]
    return made._replace(
        network=Mlp((*made.network.layers[:-1], last._replace(weight=30 * last.weight)))
    )


def leg(number=0, time_scale=0.5, with_policy=True, seconds=8.0, **changes):
    made = Leg(number, TASK.path, time_scale, TASK.ramp_s, seconds,
               policy() if with_policy else None, np.zeros(4), 3, False)  # fmt: skip
    return made._replace(**changes)


def test_control_and_stop_import_no_jax():
    code = (
        "import sys\nimport lafr_mjx.hil.control, lafr_mjx.hil.stop, lafr_mjx.hil.__main__\n"
        "print([m for m in ('jax', 'jaxlib', 'flax', 'optax', 'orbax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_is_imported_in_flight(tmp_path):
    """What the control process does with a leg and with messages has been done before."""
    file = save_leg(tmp_path, leg())
    code = (
        "import pathlib, socket, sys\n"
        "import numpy as np\n"
        "import lafr_mjx.hil.control\n"
        "from lafr_mjx.hil import messages as m\n"
        "from lafr_mjx.hil.legs import check_leg, load_leg, try_leg\n"
        "from lafr_mjx.hil.profile import load_profile\n"
        "from lafr_mjx.hil.warm_up import warm_up\n"
        "profile = load_profile('sim')\n"
        "if sys.argv[2] == 'warm': warm_up(profile)\n"
        "before = set(sys.modules)\n"
        "leg = load_leg(pathlib.Path(sys.argv[1]))\n"
        "assert not check_leg(leg, profile)\n"
        "try_leg(leg, np.zeros((9, len(leg.policy.network.layers[0].weight)), np.float32))\n"
        "m.decode('std_msgs/String', m.encode('std_msgs/String', m.text('x')))\n"
        "socket.getaddrinfo('127.0.0.1', 9, socket.AF_INET, socket.SOCK_STREAM)\n"
        "print(sorted(set(sys.modules) - before))"
    )
    told = [
        subprocess.run([sys.executable, "-c", code, str(file), how], capture_output=True,
                       text=True, check=True).stdout.strip()
        for how in ("warm", "cold")
    ]  # fmt: skip
    assert told[0] == "[]"
    assert "encodings.cp437" in told[1] and "encodings.idna" in told[1]


# ------------------------------------------------------------------ legs


def test_leg_file_and_back(tmp_path):
    given = leg(4, lap_on=True)
    read = load_leg(save_leg(tmp_path, given))
    assert read.number == 4 and read.lap_on and read.seconds == 8.0
    assert np.array_equal(read.path.coefficients, given.path.coefficients)
    assert np.array_equal(
        read.policy.network.layers[1].weight, given.policy.network.layers[1].weight
    )
    assert load_leg(save_leg(tmp_path, leg(5, with_policy=False))).policy is None


@pytest.mark.parametrize(
    "bad",
    [
        {"time_scale": np.nan}, {"time_scale": 0.0}, {"seconds": -1.0}, {"seconds": 1e9},
        {"dither": np.full(4, np.inf)}, {"dither": np.full(4, 9.0)}, {"ramp_s": np.inf},
        {"path": TASK.path._replace(coefficients=TASK.path.coefficients * np.nan)},
        {"path": TASK.path._replace(breaks=TASK.path.breaks[::-1])},
    ],
)  # fmt: skip
def test_bad_leg_is_refused(tmp_path, bad):
    with pytest.raises(InputError):
        load_leg(save_leg(tmp_path, leg(**bad)))


def test_leg_cut_at_any_byte_is_refused(tmp_path):
    path = save_leg(tmp_path, leg(with_policy=False))
    whole = path.read_bytes()
    for end in range(0, len(whole), 97):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError):
            load_leg(path)


def test_policy_with_nan_or_missing_is_refused(tmp_path):
    path = save_leg(tmp_path, leg())
    file = tmp_path / "leg-000-policy.npz"
    whole = file.read_bytes()
    file.unlink()
    with pytest.raises(InputError):
        load_leg(path)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError):
        load_leg(path)


def test_policy_is_tried_on_the_last_flight():
    seen = np.random.default_rng(0).standard_normal(
        (200, policy().network.layers[0].weight.shape[0])
    )
    assert try_policy(policy(), seen) == ""
    assert try_policy(policy(), seen[:0]) == ""
    last = policy().network.layers[-1]
    wild = policy()._replace(
        network=Mlp((*policy().network.layers[:-1], last._replace(bias=last.bias + 50)))
    )
    assert "limit" in try_policy(wild, seen)
    # One that answers the last flight's error with all it has may fly.
    first = policy().network.layers[0]
    weight = np.array(first.weight)
    weight[:3] *= 1e4
    keen = policy()._replace(
        network=Mlp((first._replace(weight=weight), *policy().network.layers[1:]))
    )
    assert try_policy(keen, seen) == ""
    weight[:3] = np.nan
    broken = policy()._replace(
        network=Mlp((first._replace(weight=weight), *policy().network.layers[1:]))
    )
    assert "not finite" in try_policy(broken, seen)


def test_leg_must_fit_into_the_arena():
    assert check_leg(leg(time_scale=0.3), PROFILE) == ""
    assert "m/s" in check_leg(leg(time_scale=0.15), PROFILE) or "fence" in check_leg(
        leg(time_scale=0.15), PROFILE
    )
    shifted = TASK.path.coefficients.copy()
    shifted[:, 0, 0] += 6.0
    assert "fence" in check_leg(leg(path=TASK.path._replace(coefficients=shifted)), PROFILE)
    low = TASK.path.coefficients.copy()
    low[:, 2, 0] -= 1.2
    assert check_leg(leg(path=TASK.path._replace(coefficients=low)), PROFILE) != ""


# ------------------------------------------------------------------ flyer


def state_at(rng, position):
    return State(position + 0.05 * rng.standard_normal(3), 0.1 * rng.standard_normal(3),
                 np.eye(3), np.zeros(3))  # fmt: skip


def begin(flyer, start, given):
    flyer.begin(100.0, start)
    flyer.offer(given)
    state = State(start, np.zeros(3), np.eye(3), np.zeros(3))
    now = 100.0
    while flyer.stage != "track":
        now += 0.02
        flyer.tick(now, state, now - 0.005, slow=False, baseline=False)
        flyer.sent(COMMAND_HOVER)
    return now


def test_commands_are_those_of_training():
    """The same states through the flyer and through the policy as the plant calls it."""
    rng = np.random.default_rng(1)
    flyer, given = Flyer(PROFILE), leg()
    start = begin(flyer, TASK.start_position, given)
    # The first tick of the track was made above; go on from there with a clock of our own.
    flown = given.policy
    memory, clock = flown.start(), clocks.start(given.time_scale, given.ramp_s)
    worst = 0.0
    for k in range(1, 400):
        now, age = start + 0.02 * k, 0.004
        state = state_at(rng, TASK.start_position)
        flyer.prepare()
        wanted = flyer.tick(now, state, now - age, slow=False, baseline=False)
        clock = clocks.advance(clock, 0.02)
        references = [reference_at(given.path, clock, float(p) - age) for p in flown.preview_s()]
        stacked = Reference(*(np.stack(fields) for fields in zip(*references, strict=True)))
        if k == 1:
            memory = np.tile(COMMAND_HOVER, (len(memory), 1))
        sensed = Sensed(state, np.asarray(now - age), np.asarray(now))
        memory, expected = flown(memory, sensed, stacked)
        worst = max(worst, float(np.abs(wanted.command - expected).max()))
        flyer.sent(wanted.command)
    assert worst < 1e-3, "the stamp of the first sample was 1 ms elsewhere"


def test_prepared_and_unprepared_ticks_agree():
    rng = np.random.default_rng(2)
    ready, plain = Flyer(PROFILE), Flyer(PROFILE)
    start = begin(ready, TASK.start_position, leg())
    assert begin(plain, TASK.start_position, leg()) == start
    for k in range(1, 600):
        now = start + 0.02 * k
        state = state_at(rng, TASK.start_position)
        slow = 200 < k < 250
        ready.prepare()
        a = ready.tick(now, state, now - 0.005, slow=slow, baseline=False)
        b = plain.tick(now, state, now - 0.005, slow=slow, baseline=False)
        ready.sent(a.command), plain.sent(b.command)
        assert np.allclose(a.command, b.command, atol=1e-6), k
        assert a.leg == b.leg and ready.stage == plain.stage
    assert ready.finished == [0]
    assert ready.stage == "hold"


def test_the_way_to_a_leg_is_made_before_the_tick_that_takes_it(monkeypatch):
    """The same way whether prepared or not; of two legs that were offered, to the second's."""
    calls = []
    made = flyer_module.from_waypoints
    monkeypatch.setattr(
        flyer_module, "from_waypoints", lambda *a, **k: calls.append(a) or made(*a, **k)
    )
    ready, plain = Flyer(PROFILE), Flyer(PROFILE)
    position = TASK.start_position + np.array([0.7, -0.4, 0.2])
    elsewhere = from_waypoints([[0.0, 0.5, 1.2], [1.0, 0.5, 1.2]], 2.0, periodic=False)
    for flyer in (ready, plain):
        flyer.begin(100.0, position)
        flyer.offer(leg(0, path=elsewhere))
        if flyer is ready:
            flyer.prepare()
        flyer.offer(leg(1))
    state = State(position, np.zeros(3), np.eye(3), np.zeros(3))
    now, stages = 100.0, set()
    for _ in range(1000):
        now += 0.02
        ready.prepare()
        before = len(calls)
        a = ready.tick(now, state, now - 0.005, slow=False, baseline=False)
        assert len(calls) == before, "in the tick nothing is made"
        b = plain.tick(now, state, now - 0.005, slow=False, baseline=False)
        assert np.allclose(a.position, b.position, atol=1e-6), now
        stages.add(ready.stage)
        state = State(a.position, np.zeros(3), np.eye(3), np.zeros(3))
        ready.sent(a.command), plain.sent(b.command)
        if ready.stage == "track":
            break
    assert stages == {"transfer", "hold", "track"} and ready.leg.number == 1
    assert np.allclose(ready._hold, TASK.start_position, atol=1e-9)
    assert len(calls) == 3, "two that were prepared, one that was not"


def test_baseline_is_the_geometric_controller():
    flyer = Flyer(PROFILE)
    start = begin(flyer, TASK.start_position, leg(with_policy=False))
    state = State(TASK.start_position + 0.1, np.zeros(3), np.eye(3), np.zeros(3))
    wanted = flyer.tick(start + 0.02, state, start + 0.02, slow=False, baseline=False)
    clock = clocks.advance(clocks.start(0.5, TASK.ramp_s), 0.02)
    reference = reference_at(TASK.path, clock)
    both = Reference(*(np.stack([field, field]) for field in reference))
    controller = geometric_controller(PROFILE.command.limits)
    _, expected = controller(flyer._memory - 0.02 * (reference.position - state.position),
                             Sensed(state, np.asarray(0.0), np.asarray(0.0)), both)  # fmt: skip
    assert np.allclose(wanted.command, expected, atol=1e-9)
    assert wanted.controller == "baseline"


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4),
    st.lists(st.floats(-6, 6), min_size=4, max_size=4),
)
def test_bounded_commands_are_within_range_and_slew(command, last):
    limits = PROFILE.command.limits
    last = np.clip(np.array(last), limits.low, limits.high)
    sent, changed = bounded(np.array(command), last, PROFILE)
    assert np.all(sent >= limits.low - 1e-9) and np.all(sent <= limits.high + 1e-9)
    assert np.all(np.abs(sent - last) <= PROFILE.command.slew + 1e-9)
    assert changed == bool(np.any(np.abs(sent - command) > 1e-6))
    within = np.clip(command, limits.low, limits.high)
    slew = PROFILE.command.slew
    assert np.array_equal(sent, np.clip(within, last - slew, last + slew))


def test_what_a_learner_flies_is_turned_into_files():
    flown, dither, guard = as_flown(geometric_controller(PROFILE.command.limits))
    assert flown is None and not dither.any() and guard is None
    flown, dither, guard = as_flown(policy())
    assert flown is not None and not dither.any() and guard is None
    with pytest.raises(InputError, match="cannot be flown"):
        as_flown(object())


# ------------------------------------------------------------------ pacer


class FakeTime:
    """A clock and states that arrive on it, for the pacer."""

    def __init__(self, arrivals):
        self.at, self.arrivals, self.flag = 0.0, list(arrivals), False

    # The interface of a clock.
    def now(self):
        return self.at

    def sleep_until(self, moment):
        self._to(moment)

    def wait(self, event, until):
        end = max(self.at, until)
        if not self.flag and self.arrivals and self.arrivals[0] <= end:
            self.at = max(self.at, self.arrivals.pop(0))
            self.flag = True
        if not self.flag:
            self.at = end
        return self.flag

    def _to(self, moment):
        while self.arrivals and self.arrivals[0] <= moment:
            self.at = max(self.at, self.arrivals.pop(0))
            self.flag = True
        self.at = max(self.at, moment)

    # The interface of an event.
    def is_set(self):
        return self.flag

    def clear(self):
        self.flag = False


def paced(arrivals, ticks, compute=0.001, stall=None, hz=100.0):
    fake = FakeTime(arrivals)
    pacer, begins = Pacer(hz, fake), []
    for k in range(ticks):
        begins.append(pacer.wait(fake))
        fake._to(fake.at + (stall[1] if stall and k == stall[0] else compute))
        pacer.finish()
    return pacer, np.array(begins)


@pytest.mark.parametrize("phase", [0.0, 0.003, 0.0071, 0.0099])
@pytest.mark.parametrize("rate", [1.0, 1.0002, 0.9998])
def test_pacer_locks_to_the_states_and_keeps_50_hz(phase, rate):
    arrivals = phase + 0.01 * rate * np.arange(3000)
    pacer, begins = paced(arrivals, 1000)
    late = begins[100:, None] - arrivals[None]
    age = np.where(late >= 0, late, np.inf).min(axis=1)
    assert age.max() < 1e-6, "each tick begins at the arrival of a state"
    assert np.allclose(np.diff(begins[100:]), 0.02 * rate, atol=1e-6)
    assert pacer.missed == 0


def test_pacer_goes_on_without_states():
    pacer, begins = paced([], 200)
    assert np.allclose(np.diff(begins), 0.02)
    assert pacer.missed == 0


def test_pacer_keeps_50_hz_with_faster_states_and_jitter():
    rng = np.random.default_rng(0)
    for hz in (100, 200, 400):
        arrivals = np.sort(np.arange(4 * hz) / hz + 0.0005 * rng.random(4 * hz))
        _, begins = paced(arrivals, 150, hz=hz)
        mean = np.diff(begins[40:]).mean()
        assert abs(1.0 / mean - 50.0) < 1.0, hz


@pytest.mark.parametrize("moved", [0.001, 0.003, 0.0051, 0.0079, 0.0099])
def test_pacer_finds_states_that_have_moved_at_once(moved):
    """The vehicle stood still and goes on: its states come at other moments from then on."""
    before = 0.01 * np.arange(400)
    arrivals = np.concatenate([before, before[-1] + 0.01 + moved + 0.01 * np.arange(400)])
    _, begins = paced(arrivals, 350)
    late = begins[100:, None] - arrivals[None]
    age = np.where(late >= 0, late, np.inf).min(axis=1)
    assert np.sum(age > 1e-6) <= 1, "at most the tick whose state did not come"
    steps = np.diff(begins[100:])
    assert steps.min() > 0.0099 and steps.max() < 0.0251


def test_pacer_prepares_each_tick_before_its_state():
    fake = FakeTime(0.003 + 0.01 * np.arange(1000))
    pacer, prepared, begins = Pacer(100.0, fake), [], []
    for _ in range(300):
        begins.append(pacer.wait(fake, lambda: prepared.append(fake.at)))
        fake._to(fake.at + 0.001)
        pacer.finish()
    ahead = np.array(begins[100:]) - np.array(prepared[-200:])
    assert np.allclose(ahead, AHEAD_S, atol=1e-4)


@pytest.mark.parametrize(("stall", "missed"), [(0.019, 0), (0.0215, 1), (0.041, 2), (0.101, 5)])
def test_pacer_counts_what_was_late(stall, missed):
    pacer, _ = paced([], 100, stall=(50, stall - WINDOW_S))
    assert pacer.missed == missed == pacer.missed_in_a_row


# ------------------------------------------------------------------ memory


def test_memory_is_kept_where_that_is_allowed():
    script = (
        "import re, threading\n"
        "from lafr_mjx.hil.realtime import keep_in_memory\n"
        "locked = keep_in_memory()\n"
        "thread = threading.Thread(target=lambda: bytearray(1 << 22))\n"
        "thread.start()\n"
        "thread.join()\n"
        "status = open('/proc/self/status').read()\n"
        "kept = int(re.search(r'VmLck:\\s+(\\d+)', status)[1])\n"
        "assert (kept > 1000) == locked, (kept, locked)\n"
        "print(locked)\n"
    )

    def run(*limit):
        command = [*limit, sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run() in ("True", "False")
    if shutil.which("setpriv") and os.geteuid() == 0:
        # With a limit an allocation in flight could fail: better not locked at all.
        assert run("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock") == "False"


def test_matrix_products_at_the_same_time_take_no_new_memory_in_flight():
    """32 MB for each would be allocated, and locked, in the middle of a tick."""
    script = (
        "import os, sys\n"
        "from lafr_mjx.hil.realtime import keep_in_memory, memory_mb, reserve_matrix_memory\n"
        "locked = keep_in_memory()\n"
        "reserve_matrix_memory(int(sys.argv[1]))\n"
        "before = memory_mb(os.getpid())\n"
        "reserve_matrix_memory(3)\n"
        "print(memory_mb(os.getpid()) - before if locked else 'nan')\n"
    )

    def grows(reserved):
        command = [sys.executable, "-c", script, str(reserved)]
        one = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=one)
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    unprepared = grows(1)
    if math.isnan(unprepared):
        pytest.skip("memory cannot be locked here: it grows page by page")
    assert unprepared > 32.0, "megabytes: what it is for"
    assert grows(3) < 16.0


# ------------------------------------------------------------------ console


def consoles():
    one, two = socket.socketpair()
    return Console(one), Console(two), one, two


def test_console_carries_lines_and_notices_the_end():
    one, two, *_ = consoles()
    one.send({"word": "arm"})
    one.send({"leg": "x", "number": 3})
    assert two.receive() == [{"word": "arm"}, {"leg": "x", "number": 3}]
    one.close()
    two.receive()
    assert two.closed


def test_console_never_blocks_nor_grows():
    one, *_ = consoles()
    for _ in range(20_000):
        one.send({"status": "x" * 200})
    assert one.dropped > 1000
    assert len(one._waiting) < 200_000


@settings(deadline=None, max_examples=50)
@given(st.lists(st.binary(max_size=300), max_size=10))
def test_console_survives_nonsense(chunks):
    _, two, raw, _ = consoles()
    for chunk in chunks:
        raw.setblocking(True)
        raw.sendall(chunk)
        assert all(isinstance(message, dict) for message in two.receive())
    raw.sendall(b"\n" + json.dumps({"good": 1}).encode() + b"\n")
    assert two.receive()[-1] == {"good": 1}
