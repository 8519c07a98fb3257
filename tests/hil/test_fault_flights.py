# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Every fault in flight on a simulated clock, on the real plant, at hover and at full speed.

LAFR_HIL_REPEATS repeats each at other random moments; LAFR_HIL_ONLY names a part of the faults.
"""

import os
import zlib
from typing import Any, NamedTuple

import fault_table
import numpy as np
import pytest
from rig import PROFILE, SimFlight, leg

from lafr_mjx.hil.drone.injected import parse
from lafr_mjx.hil.drone.physics import Physics
from lafr_mjx.hil.faults import Fault, Rung
from lafr_mjx.hil.safety import Mode, Word
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle

FAST = 0.42  # time scale of the figure-8: 5.3 m/s, the baseline's best
CYCLE_S, TICK_S = 0.01, 0.02
LIMITS = PROFILE.limits
REPEATS = int(os.environ.get("LAFR_HIL_REPEATS", "1"))
WHERE = ["at hover", "at speed"]


@pytest.fixture(scope="module")
def plant():
    settings = load_scenario("wind5").drawn(0).settings_for(0)[0]
    return Physics(load_vehicle("lafr192"), settings)


@pytest.fixture
def flight(plant):
    """A flight in the policy's hands, at hover or at speed, at a random moment."""

    def start(where, *seeds):
        rng = np.random.default_rng([*seeds, where == "at speed"])
        plant.reset(int(rng.integers(1 << 20)))
        sim = SimFlight(plant)
        if where == "at speed":
            sim.tracking(leg(0, time_scale=FAST, seconds=600.0))
            sim.run(2.0 + 3.0 * rng.random())
        else:
            sim.policy()
            sim.run(0.5 + rng.random())
        return sim

    return start


# ------------------------------------------------------------------ how faults begin


def inject(text):
    return lambda sim: sim.drone.injector.add(parse(text, sim.time))


def hook(seconds=np.inf, **changes):
    """Something else is heard from now on, for so long."""

    def begin(sim):
        end = sim.time + seconds

        def changed(heard):
            if sim.time > end:
                return heard
            return heard._replace(**{k: v(heard) if callable(v) else v for k, v in changes.items()})

        sim.hook = changed

    return begin


def around(**changes):
    def begin(sim):
        sim.around = changes

    return begin


def late(periods):
    def begin(sim):
        sim.late = periods

    return begin


def killed(sim):
    sim.alive = False


def undelivered(sim):
    sim.deliver = False


def commanding(make):
    """The policy gives what `make` says, as long as it flies."""

    def begin(sim):
        original, count = sim.logic.flyer.tick, [0]

        def broken(*args, **options):
            wanted = original(*args, **options)
            if options["baseline"]:
                return wanted
            count[0] += 1
            return wanted._replace(command=np.array(make(count[0])), controller="policy")

        sim.logic.flyer.tick = broken

    return begin


def tilted(text):
    """The attitude is bad, but nobody reacts to it: so it stays, as when a rotor has gone."""

    def begin(sim):
        last = next(c for *_, c, _ in reversed(sim.history) if c is not None)
        commanding(lambda k: [last[0], 0.0, 0.0, 0.0])(sim)
        inject(text)(sim)

    return begin


def master_gone(sim):
    seen = sim._heard.master_seen
    hook(master_seen=seen)(sim)


def rushing(heard):
    """Towards the wall at a speed that is allowed, but not there."""
    return heard.state._replace(velocity=np.array([0.0, LIMITS.speed_mps - 1.0, 0.0]))


class Case(NamedTuple):
    """A fault: how it begins, what is seen, where it leads, and within which time."""

    begin: Any
    fault: Fault | None
    first: str  # mode that follows: hover, guard, blind; or baseline: the policy flies no more
    bound: float  # s, until the last command of ours (baseline: of the policy's)
    end: str = "off"  # hover: waits for the operator; policy: the flight goes on


CASES = {
    "motion capture stale": Case(
        inject("mocap-drop@+0"), Fault.MOCAP_STALE, "blind", LIMITS.mocap_stale_s),
    "motion capture frozen": Case(
        inject("mocap-freeze@+0"), Fault.MOCAP_FROZEN, "blind", LIMITS.mocap_frozen_s),
    "motion capture jumps": Case(
        inject("mocap-jump@+0"), Fault.MOCAP_JUMP, "hover", 0.0, "hover"),
    "tick late by one period": Case(late(1), Fault.DEADLINE, "baseline", 0.0, "hover"),
    "tick late by two periods": Case(late(2), Fault.DEADLINES, "hover", 0.0, "hover"),
    "policy gives NaN": Case(
        commanding(lambda k: [np.nan] * 4), Fault.NOT_FINITE, "baseline", 0.0, "hover"),
    "policy gives infinity": Case(
        commanding(lambda k: [np.inf, 0, 0, 0]), Fault.NOT_FINITE, "baseline", 0.0, "hover"),
    "policy out of range": Case(
        commanding(lambda k: [40.0, 0.3, 0, 0]), Fault.CLAMPED, "baseline",
        PROFILE.command.repeats * TICK_S, "hover or off"),
    "policy jumps to and fro": Case(
        commanding(lambda k: [9.8 + 30 * (k % 2), 6.0 * (-1) ** k, 0, 0]), Fault.CLAMPED,
        "baseline", PROFILE.command.repeats * TICK_S, "hover or off"),
    "tilt beyond plan": Case(tilted("tilt@+0:9:85"), Fault.TILT, "guard", LIMITS.tilt_s),
    "upside down": Case(tilted("tilt@+0:9:100"), Fault.INVERTED, "guard", LIMITS.inverted_s),
    "cannot stop within the volume": Case(
        hook(0.5, state=rushing), Fault.FENCE, "hover", 0.0, "hover"),
    "outside of the volume": Case(inject("outside@+0"), Fault.OUTSIDE, "guard", 0.0),
    "input delayed": Case(
        inject("latency@+0"), Fault.STATE_STALE, "hover", LIMITS.state_age_s),
    "input repeated and reordered": Case(inject("reorder@+0"), None, "policy", 0.0, "policy"),
    "state is not a number": Case(
        inject("nan@+0"), Fault.STATE_STALE, "hover", LIMITS.state_age_s),
    "vehicle's clock jumps": Case(inject("clock-jump@+0"), Fault.CLOCK, "hover", 0.0, "hover"),
    "vehicle's clock jumps back": Case(
        inject("clock-jump@+0:9:-0.5"), Fault.STATE_STALE, "hover", LIMITS.state_age_s,
        "hover or off"),
    "pilot silent": Case(
        inject("telemetry-stop@+0"), Fault.STATE_STALE, "hover", LIMITS.state_age_s),
    "pilot no longer subscribed": Case(hook(subscribed=False), Fault.LINK, "hover", 0.0),
    "publishing blocked": Case(undelivered, Fault.LINK, "hover", LIMITS.link_s, "hover"),
    "ROS master gone": Case(master_gone, Fault.MASTER, "hover", LIMITS.master_s),
    "another commander": Case(hook(intruders=("/other",)), Fault.INTRUDER, "hover", 0.0),
    "emergency stop": Case(around(stop=True), Fault.STOP, "guard", 0.0),
    "operator's console gone": Case(around(console=False), Fault.CONSOLE, "hover", 0.0),
    "learner silent": Case(around(learner_age=61.0), Fault.LEARNER, "hover", 0.0),
    "battery low": Case(inject("voltage@+0"), Fault.VOLTAGE, "hover", 0.0),
    "battery silent": Case(
        inject("battery-stop@+0"), Fault.BATTERY, "hover", LIMITS.battery_s),
    "pilot's guard": Case(inject("guard@+0"), Fault.GUARDED, "guard", 0.0),
}  # fmt: skip
_only = os.environ.get("LAFR_HIL_ONLY", "")
NAMES = [name for name in CASES if _only in name]


def seed(name):
    return zlib.crc32(name.encode())


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", NAMES)
def test_fault(flight, name, where, attempt):
    case = CASES[name]
    sim = flight(where, seed(name), attempt)
    begin, before = sim.time, len(sim.history)
    case.begin(sim)
    sim.run(case.bound + 0.3)
    ticks = sim.history[before:]
    seen = {fault for _, _, faults, _, _ in ticks for fault in faults}
    sent = np.array([c for *_, c, _ in sim.history if c is not None])
    assert np.isfinite(sent).all()
    assert np.all(np.abs(np.diff(sent, axis=0)) <= PROFILE.command.slew + 1e-9)
    if case.first == "policy":
        assert sim.outdated > 5 and sim.mode is Mode.POLICY and not seen
        reaction = 0.0
    elif case.first == "baseline":
        reaction = _check_baseline(sim, case, before)
    else:
        assert case.fault in seen, seen
        modes = [mode for _, mode, *_ in ticks if mode is not Mode.POLICY]
        assert modes[0] is Mode(case.first)
        # The last command of the policy's; where none leaves anyway, when we see that.
        in_policy = [t for t, mode, *_ in ticks if mode is Mode.POLICY]
        reaction = max(in_policy, default=begin) - begin
    # One cycle of the vehicle, for the fault begins between two of our ticks.
    assert reaction <= case.bound + CYCLE_S + 1e-6
    fault_table.note("simulated", name, where, max(0.0, reaction), case.bound, case.end)
    _check_end(sim, case, begin)


def _check_baseline(sim, case, before):
    """When the policy's last command left, and that the baseline stays."""
    assert any(case.fault in faults for _, _, faults, _, _ in sim.history[before:])
    rungs = [(t, rung) for t, *_, rung in sim.looks[before:]]
    first = next(t for t, rung in rungs if rung >= Rung.BASELINE)
    assert all(rung >= Rung.BASELINE for t, rung in rungs if first <= t < first + 2.0)
    # From the first bad command; the tick before the baseline's was the policy's last.
    return max(0.0, first - rungs[0][0] - TICK_S)


def _check_end(sim, case, begin):
    """The drone ends in the right safe state, unharmed, and nothing goes up again by itself."""
    if case.end == "policy":
        sim.run(2.0)
        assert sim.mode is Mode.POLICY
    elif case.end == "hover":
        assert sim.run(PROFILE.ladder.baseline_s + 1.0, lambda: sim.mode is Mode.HOVER)
        sim.run(3.0)
        assert sim.mode is Mode.HOVER, "waits for the operator"
    else:
        assert sim.run(30.0, lambda: sim.mode in (Mode.OFF, Mode.HOVER)), sim.events
        sim.run(20.0, lambda: sim.mode is Mode.OFF)
        assert case.end == "hover or off" or sim.mode is Mode.OFF, sim.events
        sim.run(1.5)
    assert sim.drone.crashed == "", sim.drone.crashed
    if case.first not in ("policy",):
        left = [t for t, mode, *_ in sim.history if t > begin and mode is not Mode.POLICY]
        after = [t for t, mode, *_ in sim.history if left and t > left[0] and mode is Mode.POLICY]
        assert left and not after


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_our_process_killed(flight, where, attempt):
    sim = flight(where, 1, attempt)
    begin, pilot = sim.time, sim.drone.pilot
    killed(sim)
    assert sim.run(0.3, lambda: not pilot.feeding)
    reaction, bound = sim.time - begin, PROFILE.pilot.feedthrough_timeout_s
    assert reaction <= bound + CYCLE_S + 1e-6
    sim.run(6.0)
    assert np.linalg.norm(sim.truth[3:6]) < 0.3, "hovers without us"
    assert sim.drone.crashed == "" and not pilot.guard
    fault_table.note("simulated", "our process killed", where, reaction, bound, "pilot hovers")


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_link_lost_and_back(flight, where, attempt):
    """Under a lost link nothing of ours arrives; once it is back, the operator must ask."""
    sim = flight(where, 2, attempt)
    begin = sim.time
    inject("link-loss@+0")(sim)
    sim.run(0.3)
    reaction = sim.left_policy() - begin
    assert reaction <= LIMITS.state_age_s + CYCLE_S
    assert sim.drone.pilot.mode == "hover" and not sim.drone.pilot.feeding
    fault_table.note("simulated", "link lost", where, reaction, LIMITS.state_age_s, "pilot hovers")
    sim.drone.injector._faults.clear()
    sim.run(0.1)
    assert sim.mode is Mode.HOVER
    # Until it was stable for its time the word does not count, and nobody flies without it.
    clear = sim.logic.machine.clear_since
    while sim._heard.state_receipt - clear < PROFILE.ladder.stable_s - 2 * TICK_S:
        sim.say(Word.POLICY)
        sim.run(TICK_S)
        assert sim.mode is Mode.HOVER
    back = sim.time
    assert sim.run(8.0, lambda: np.linalg.norm(sim.truth[3:6]) < 0.1), "settled"
    sim.run(0.5)
    assert sim.mode is Mode.HOVER
    for _ in range(20):
        sim.say(Word.POLICY)
        if sim.run(0.2, lambda: sim.mode is Mode.POLICY):
            break
    assert sim.mode is Mode.POLICY and sim.time - back > 0.0
    assert sim.drone.crashed == ""


# ------------------------------------------------------------------ bounds, to the tick


def rising(sim, begin, steps, age):
    """Make the fault longer until it trips; (age at the last good tick, age at the trip)."""
    good = 0.0
    for step in steps:
        before = len(sim.looks)
        begin(sim, step)
        sim.run(0.4)
        looks = sim.looks[before:]
        modes = [mode for _, mode, *_ in sim.history[before:]]
        ages = [age(look) for look in looks]
        if sim.mode is Mode.POLICY:
            good = max(good, *ages)
            sim.run(0.3)
            continue
        trip = next(k for k, mode in enumerate(modes) if mode is not Mode.POLICY)
        return max(good, *ages[:trip]), ages[trip]
    raise AssertionError("never tripped")


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("kind", "limit", "column"),
    [("mocap-drop", LIMITS.mocap_stale_s, 1), ("telemetry-stop", LIMITS.state_age_s, 2)],
)
def test_age_trips_at_the_first_tick_beyond_its_bound(flight, where, kind, limit, column):
    sim = flight(where, 3)
    good, bad = rising(
        sim, lambda s, step: inject(f"{kind}@+0:{step:.3f}")(s), np.arange(0.015, 0.12, 0.01),
        lambda look: look[column],
    )  # fmt: skip
    assert good <= limit < bad
    assert limit - good < TICK_S and bad - limit < TICK_S, "to the tick"


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("degrees", "limit", "first"), [(85, LIMITS.tilt_s, 0.25), (100, LIMITS.inverted_s, 0.05)]
)
def test_tilt_trips_at_the_first_tick_beyond_its_time(flight, where, degrees, limit, first):
    sim = flight(where, 4)
    spans = []
    original = sim.logic.flyer.tick
    for seconds in np.arange(first, limit + 0.1, CYCLE_S):
        before = len(sim.history)
        tilted(f"tilt@+0:{seconds:.3f}:{degrees}")(sim)
        start = sim.time
        sim.run(float(seconds))
        sim.logic.flyer.tick = original
        sim.run(0.2)
        modes = [(t, mode) for t, mode, *_ in sim.history[before:]]
        left = [t for t, mode in modes if mode is Mode.GUARD]
        if left:
            spans.append((seconds, left[0] - start))
            break
        assert sim.mode is Mode.POLICY
        sim.run(1.5)
    (seconds, reaction) = spans[0]
    assert limit - 1e-6 < reaction <= limit + 2 * TICK_S
    assert seconds >= limit - CYCLE_S, "a shorter tilt is within the plan"


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (inject("clock-jump@+0:0.3:0.009"), inject("clock-jump@+0:0.3:0.012")),
        (inject(f"voltage@+0:0.3:{LIMITS.voltage_land_v}"), inject("voltage@+0:0.3:13.39")),
        (around(learner_age=LIMITS.learner_s), around(learner_age=LIMITS.learner_s + 0.02)),
        (inject("mocap-jump@+0:0.3:0.1"), inject("mocap-jump@+0:0.3:0.9")),
        (late(0), late(2)),
    ],
    ids=["clock", "voltage", "learner", "jump", "late"],
)
def test_value_at_its_bound_is_good_and_beyond_it_trips(flight, where, good, bad):
    for begin, trips in ((good, False), (bad, True)):
        sim = flight(where, 6)
        begin(sim)
        sim.run(0.25)
        assert (sim.mode is not Mode.POLICY) == trips, sim.events[-3:]


@pytest.mark.parametrize("where", WHERE)
def test_clamping_trips_at_the_first_tick_beyond_its_count(flight, where):
    repeats = PROFILE.command.repeats
    for ticks, trips in ((repeats, False), (repeats + 1, True)):
        sim = flight(where, 7)
        original, count = sim.logic.flyer.tick, [0]

        def clamped(*args, original=original, count=count, ticks=ticks, **options):
            wanted = original(*args, **options)
            count[0] += 1
            if count[0] > ticks:
                return wanted
            return wanted._replace(
                command=np.array([40.0, *wanted.command[1:]]), controller="policy"
            )

        sim.logic.flyer.tick = clamped
        sim.run(0.6)
        assert any(rung >= Rung.BASELINE for *_, rung in sim.looks) == trips


# ------------------------------------------------------------------ a bad wire


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("loss", "jitter"),
    [(0.01, 0.0), (0.1, 0.0), (0.5, 0.0), (0.0, 0.02), (0.0, 0.1), (0.0, 0.5), (0.1, 0.1)],
)
def test_loss_and_jitter(flight, where, loss, jitter):
    """No command from an old state, no crash; what cannot be flown is left to the pilot."""
    sim = flight(where, 8)
    sim.ages.clear()
    sim.loss, sim.jitter = loss, jitter
    sim.run(6.0)
    assert not sim.ages or max(sim.ages) <= LIMITS.state_age_s
    if loss <= 0.1 and jitter == 0.0:
        assert sim.mode is Mode.POLICY, sim.events[-3:]
    if jitter >= 0.1:
        assert sim.mode is not Mode.POLICY
    sim.loss = sim.jitter = 0.0
    sim.run(2.0)
    if sim.mode is Mode.POLICY:
        sim.say(Word.LAND)
    sim.run(30.0, lambda: sim.mode is Mode.OFF)
    assert sim.mode in (Mode.OFF, Mode.HOVER), "down, or waiting for the operator"
    assert sim.drone.crashed == ""


@pytest.mark.parametrize("where", WHERE)
def test_swapped_frames_and_a_frozen_state_are_found_out(flight, where):
    def swapped(heard):
        x, y, z = heard.state.position
        return heard.state._replace(position=np.array([y + 1.0, x - 1.0, z]))

    sim = flight(where, 9)
    hook(state=swapped)(sim)
    sim.run(0.06)
    assert sim.mode is not Mode.POLICY
    if where == "at hover":
        return  # there a state that repeats itself is the truth
    sim = flight(where, 10)
    still, begin = sim._heard.state, sim.time
    hook(2.0, state=still)(sim)
    sim.run(0.4)
    assert sim.mode is not Mode.POLICY
    assert any(Fault.DISAGREE in faults for _, _, faults, _, _ in sim.history)
    fault_table.note("simulated", "state frozen", where, sim.left_policy() - begin, None, "hover")
    sim.run(3.0)
    assert sim.drone.crashed == ""
