"""The blind descent of a point mass."""

import numpy as np
import pytest
from point_mass import (
    AS_EXPECTED,
    BLOWN,
    BOTH,
    LOADED,
    PROFILE,
    Blind,
    CannotSee,
    Mass,
    circle,
    fly,
)

from lafr_mjx.hil.control.flyer import Flyer
from lafr_mjx.hil.safety.blind_descent import BlindDescent
from lafr_mjx.types import CONTROL_DT, GRAVITY, State


def descend(motion, speed, height=1.5, seed=0):
    """From a flight that was seen to `down`; rows of time, height and speeds."""
    see, mass, rng = Blind(), Mass(motion, (0.0, 0.0, 2.0)), np.random.default_rng(seed)

    def straight(mass, time):
        way = np.array([speed, 0.0, 0.0]) - mass.velocity
        way[2] += 2.0 * (height - mass.position[2])
        return np.clip(2.0 * way, -4.0, 4.0)

    fly(mass, see, 3.0, circle, rng)
    fly(mass, see, 4.0, straight, rng)
    lost, blind, rows = mass.time - CONTROL_DT, see.blind, []
    fly(mass, CannotSee(see), 0.06, straight)
    begin = mass.position.copy()
    blind.begin(mass.time, lost, 0.0)
    while not blind.down and mass.time - lost < 6.0:
        command = blind.tick(mass.time, descend=mass.time - lost > PROFILE.limits.mocap_lost_s)
        rows.append((mass.time - lost, mass.position[2], np.hypot(*mass.velocity[:2]),
                     mass.velocity[2], command[0]))  # fmt: skip
        mass.send(command)
        blind.log.add(mass.time, command)
        mass.run(CONTROL_DT)
    return mass, blind, np.array(rows), float(np.linalg.norm(mass.position[:2] - begin[:2]))


@pytest.mark.parametrize("motion", [AS_EXPECTED, LOADED, BLOWN, BOTH])
@pytest.mark.parametrize(("speed", "height"), [(0.0, 1.0), (4.0, 1.5), (4.0, 4.3)])
def test_it_brakes_sinks_and_says_when_it_must_be_down(motion, speed, height):
    mass, blind, rows, away = descend(motion, speed, height)
    time, height, level, _, _ = rows.T
    assert level[0] > 0.8 * speed, "it was flying"
    assert level[(time > 1.7) & (height > 0.0)].max() < 0.6, "and stands by then"
    assert np.diff(height).max() < 0.02, "it does not climb"
    assert away < 0.5 + 0.9 * speed
    assert mass.impact is not None and mass.impact < 1.5, "softer than what breaks it"
    assert mass.rotation[2, 2] > 0.96, "and level"
    touch = time[np.argmax(height <= 0.0)]
    assert touch < PROFILE.ladder.blind_s, "then it is switched off in any case"
    assert blind.down and touch + 0.3 < time[-1] < touch + 1.2, "not before, and soon after it"


def test_from_a_hover_it_is_down_before_the_time_is_over():
    _, _, rows, _ = descend(AS_EXPECTED, 0.0, height=1.0)
    assert rows[-1, 0] < PROFILE.ladder.blind_s


def test_lost_again_before_anything_was_seen_it_goes_on_from_where_it_was():
    """A burst of motion capture, too short to be kept, must not bring the first loss back."""
    see, mass = Blind(), Mass(AS_EXPECTED, velocity=(0.0, 0.0, 0.0))
    fly(mass, see, 3.0, lambda m, _: np.clip(np.array([4.0, 0, 0]) - m.velocity, -4, 4)
        - [0, 0, m.position[2] - 2.0])  # fmt: skip
    blind, log = see.blind, see.log
    blind.begin(mass.time, mass.time, 0.0)

    def on(seconds, command):
        for _ in range(round(seconds / CONTROL_DT)):
            given = command()
            mass.send(given)
            log.add(mass.time, given)
            mass.run(CONTROL_DT)

    on(1.6, lambda: blind.tick(mass.time, descend=False))
    blind.end()
    on(0.1, lambda: np.array([GRAVITY, 0.0, 0.0, 0.0]))  # somebody hovers
    assert blind.ready(mass.time)
    blind.begin(mass.time, mass.time - 0.1, 0.0)
    flown = blind._flown
    assert flown is not None
    assert np.linalg.norm(flown.velocity - mass.velocity) < 0.3
    assert abs(flown.position[2] - mass.position[2]) < 0.2


def test_it_never_turns_over():
    blind = BlindDescent()
    falling = State(np.array([0, 0, 9.0]), np.array([0.0, 0, -12.0]), np.eye(3), np.zeros(3))
    blind.see(falling, 1.0, airborne=True)
    blind.begin(1.02, 1.0, 0.0)
    command = blind.tick(1.04, descend=True)
    assert np.isfinite(command).all() and np.abs(command[1:]).max() < 6.0


def test_it_only_brakes_as_long_as_motion_capture_may_come_back():
    see, mass = Blind(), Mass(AS_EXPECTED, velocity=(0.0, 0.0, 0.0))
    fly(mass, see, 3.0, lambda m, _: -2.0 * m.velocity - [0, 0, 2.0 * (m.position[2] - 2.0)])
    see.blind.begin(mass.time, mass.time, 0.0)
    for _ in range(50):
        command = see.blind.tick(mass.time, descend=False)
        mass.send(command)
        see.log.add(mass.time, command)
        mass.run(CONTROL_DT)
    assert mass.position[2] == pytest.approx(2.0, abs=0.1) and not see.blind.down


def test_from_high_up_it_sinks_slowly_near_the_ground():
    _, _, rows, _ = descend(AS_EXPECTED, 1.0, height=4.3)
    _, height, _, climb, _ = rows.T
    assert -2.7 < climb.min() < -2.0
    assert climb[(height > 0.0) & (height < 0.4)].min() > -1.4


def test_near_the_ground_its_thrust_is_below_its_weight():
    _, _, rows, _ = descend(LOADED, 0.0)
    last = rows[-40:, 4]  # it stands, or must
    assert np.all(0.76 * last < 0.97 * GRAVITY)


def test_trim_is_what_the_baseline_needs_to_hold():
    see, mass = Blind(), Mass(LOADED)
    assert np.allclose(see.blind.trim(), 0.0), "nothing is known"
    fly(mass, see, 4.0, circle, np.random.default_rng(4))
    trim = see.blind.trim()
    assert trim[2] == pytest.approx((1.0 / 0.76 - 1.0) * GRAVITY, abs=0.4)
    flyer, here = Flyer(PROFILE), np.array([0.0, 0.0, 1.5])
    flyer.begin(0.0, here, trim)
    still = State(here, np.zeros(3), np.eye(3), np.zeros(3))
    command = flyer.tick(0.0, still, 0.0, slow=False, baseline=False).command
    assert command[0] == pytest.approx(GRAVITY / 0.76, abs=0.5)


def test_it_is_ready_as_soon_as_something_was_seen():
    blind = BlindDescent()
    assert not blind.ready(1.0) and not blind.down
    blind.see(State(np.zeros(3), np.zeros(3), np.eye(3), np.zeros(3)), 1.0, airborne=False)
    assert blind.ready(1.1) and not blind.ready(1.5), "it may be anywhere by then"
    blind.begin(1.1, 1.0, 0.0)
    assert np.isfinite(blind.tick(1.12, descend=True)).all()
