"""The verified ATS: what it may never do, and what binds it in constructed cases."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lafr_mjx.learner import ats_verified as ats
from lafr_mjx.learner.ats_verified import MAX_TRUST, MIN_TRUST, Memory, Verified
from lafr_mjx.learner.time_scaling import CANDIDATES, LastFlight, Pace
from lafr_mjx.learner.verify import Prediction

LIMITS = Verified()
THRESHOLD, PEAK_ACCELERATION = 0.35, 1.7
_propose = jax.jit(Verified.propose)
_candidates = jax.jit(Verified.candidates)
_acceptable = jax.jit(Verified.acceptable)
_decide = jax.jit(Verified.decide)


class AtsState(NamedTuple):
    """Pace of the last flight and memory of the rule, as the tests say them."""

    time_scale: Any
    predicted: Any
    expected: Any
    inflation: Any
    trust: Any
    floor: Any
    reached: Any

    def memory(self):
        return Memory(*on_device(self)[3:])

    def last(self, error, peak=PEAK_ACCELERATION, event=False):
        pace = Pace(*on_device(self)[:3])
        error, threshold, peak = map(jnp.float32, (error, THRESHOLD, peak))
        return LastFlight(pace, error, threshold, peak, jnp.bool_(event))


def propose(state, flown):
    return _propose(LIMITS, state.memory(), state.last(flown))


errors = st.floats(0.0, 3.0)
scales = st.floats(0.15, 2.0)
states = st.builds(
    AtsState,
    time_scale=scales,
    predicted=st.one_of(st.just(float("nan")), st.floats(0.0, 1.0)),
    expected=st.floats(0.0, 1.0),
    inflation=st.floats(1.0, 4.0),
    trust=st.floats(MIN_TRUST, MAX_TRUST),
    floor=st.floats(0.0, 1.9),
    reached=st.sampled_from([0.0, 1.0]),
)
rows = st.lists(st.floats(0.0, 0.4), min_size=CANDIDATES, max_size=CANDIDATES)
check = settings(max_examples=150, deadline=None)


def on_device(tree):
    tree = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)
    return tree._replace(reached=tree.reached > 0.5) if isinstance(tree, AtsState) else tree


def predicted(time_scale, nominal, stressed=None, saturation=0.0):
    time_scale = np.asarray(time_scale, np.float32)
    nominal = np.broadcast_to(np.asarray(nominal, np.float32), time_scale.shape)
    stressed = nominal if stressed is None else stressed
    spread = [np.broadcast_to(np.float32(x), time_scale.shape) for x in (stressed, saturation)]
    return on_device(Prediction(time_scale, nominal, 0.0 * nominal, 1.1 * nominal, *spread))


def decide(
    state, flown, nominal, stressed=None, saturation=0.0, here: Any = 0.05, old: Any = 0.05,
    peak=PEAK_ACCELERATION, event=False,
):  # fmt: skip
    """A whole iteration with given predictions at the candidates and where it flew."""
    last = state.last(flown, peak, event)
    memory, fastest = _propose(LIMITS, state.memory(), last)
    tried = _candidates(LIMITS, fastest, last)
    new = predicted(tried, nominal, stressed, saturation)
    present = LIMITS.present(memory, last)
    new_here, old_here = predicted(present, here), predicted(present, old)
    return memory, fastest, _decide(LIMITS, memory, last, fastest, new, new_here, old_here), tried


def remembered(time_scale=0.6, predicted=0.1, inflation=1.0, trust=0.1, floor=0.0, reached=True):
    return AtsState(time_scale, predicted, predicted, inflation, trust, floor, reached)


@check
@given(state=states, flown=errors)
def test_proposals_keep_to_the_limits(state, flown):
    memory, fastest = propose(state, flown)
    fastest, floor = float(fastest), float(memory.floor)
    assert LIMITS.fastest - 1e-6 <= fastest <= LIMITS.slowest + 1e-6
    assert MIN_TRUST - 1e-6 <= memory.trust <= MAX_TRUST + 1e-6
    assert memory.inflation >= 1.0 - 1e-6
    assert fastest >= state.time_scale * (1.0 - float(memory.trust)) - 1e-5
    first = np.isnan(state.predicted)
    if not (first and flown > THRESHOLD):
        assert fastest >= min(floor, LIMITS.slowest) - 1e-5
    if flown > THRESHOLD + 1e-6 and not first:
        assert fastest >= min(1.05 * state.time_scale, LIMITS.slowest) - 1e-5
        assert floor >= 1.03 * state.time_scale
    if flown > THRESHOLD + 1e-6 and first:
        assert fastest == pytest.approx(state.time_scale, rel=1e-6)


@check
@given(state=states, flown=errors, nominal=rows, stressed=rows, saturation=st.floats(0.0, 0.5))
def test_choices_keep_to_the_limits(state, flown, nominal, stressed, saturation):
    assume(state.floor < state.time_scale)  # the floor is below what is flown
    memory, fastest, choice, tried = decide(state, flown, nominal, stressed, saturation)
    chosen = float(choice.pace.time_scale)
    first = np.isnan(state.predicted)
    assert choice.bound_by in range(len(LIMITS.outcomes))
    assert np.isfinite(choice.pace.predicted)
    assert chosen >= LIMITS.fastest - 1e-6
    assert chosen >= state.time_scale * (1.0 - float(memory.trust)) - 1e-5
    # Staying where it flew is allowed; anything faster must be a candidate.
    assert chosen >= min(state.time_scale, float(fastest)) - 1e-5
    if chosen < state.time_scale * 0.999:
        assert chosen >= float(memory.floor) - 1e-5
        assert bool(choice.use_new_policy)
    if flown > THRESHOLD + 1e-6 and not first:
        assert chosen > 1.02 * state.time_scale or chosen >= LIMITS.slowest - 1e-5
        assert choice.bound_by == ats.BARRIER
    good = np.asarray(
        _acceptable(
            LIMITS, predicted(tried, nominal, stressed, saturation), memory, state.last(flown)
        )
    )
    if chosen < state.time_scale * 0.98:
        index = int(np.argmin(np.abs(np.asarray(tried) - chosen)))
        assert good[index]
        assert not good[:index].any()


@check
@given(state=states, nominal=rows, stressed=rows)
def test_accepted_only_with_the_slower_neighbour(state, nominal, stressed):
    tried = np.linspace(0.4, 0.6, CANDIDATES)
    found = predicted(tried, nominal, stressed)
    good = np.asarray(_acceptable(LIMITS, found, state.memory(), state.last(0.0)))
    rho = state.inflation
    alone = (rho * np.array(nominal) < LIMITS.nominal_limit) & (
        rho * np.array(stressed) < THRESHOLD
    )
    edge = np.abs(rho * np.array(nominal) - LIMITS.nominal_limit) < 1e-5
    edge |= np.abs(rho * np.array(stressed) - THRESHOLD) < 1e-5
    assume(not edge.any())
    assert not good[0]  # only shows whether the end is near
    np.testing.assert_array_equal(good[1:-1], alone[1:-1] & alone[2:])
    assert good[-1] == alone[-1]


@check
@given(state=states, flown=errors)
def test_candidates_become_slower_and_reach_beyond_the_present(state, flown):
    _, fastest = propose(state, flown)
    tried = np.asarray(_candidates(LIMITS, fastest, state.last(flown)))
    assert tried[1] == pytest.approx(float(fastest), rel=1e-5)
    assert tried[0] == pytest.approx((1.0 - LIMITS.reserve) * float(fastest), rel=1e-5)
    assert np.all(np.diff(tried) >= 0.0)
    # Beyond the present time scale, or as slow as is allowed.
    assert tried[-1] >= min(1.01 * state.time_scale, LIMITS.slowest * (1.0 - 1e-5))
    assert tried[-1] <= LIMITS.slowest * (1.0 + 1e-5)


def test_speeds_up_by_the_trust_region_when_all_is_well():
    memory, fastest, choice, _ = decide(remembered(), 0.1, 0.05)
    assert float(choice.pace.time_scale) == pytest.approx(float(fastest), rel=1e-6)
    assert float(fastest) == pytest.approx(0.6 * (1.0 - float(memory.trust)), rel=1e-5)
    assert choice.bound_by == ats.TRUST_REGION
    assert bool(choice.use_new_policy)
    assert float(choice.pace.predicted) == pytest.approx(0.05)
    assert float(choice.pace.expected) == pytest.approx(0.055)


def test_speed_binds_at_the_fastest():
    # The path is so slow that its accelerations do not bind first.
    _, _, choice, _ = decide(remembered(time_scale=0.16), 0.1, 0.05, peak=0.01)
    assert float(choice.pace.time_scale) == pytest.approx(LIMITS.fastest, rel=1e-5)
    assert choice.bound_by == ats.SPEED


def test_a_step_adds_no_more_than_some_acceleration():
    for time_scale in (0.9, 0.4, 0.28):
        memory, fastest = propose(remembered(time_scale, trust=MAX_TRUST), 0.1)
        more = PEAK_ACCELERATION * (1.0 / float(fastest) ** 2 - 1.0 / time_scale**2)
        assert more <= LIMITS.acceleration_step + 1e-3
        by_trust = time_scale * (1.0 - float(memory.trust))
        if time_scale < 0.5:
            assert more == pytest.approx(LIMITS.acceleration_step, rel=1e-3)
            assert float(fastest) > by_trust
        else:
            assert float(fastest) == pytest.approx(by_trust, rel=1e-5)


def test_region_grows_only_after_a_full_step_and_not_while_settling():
    def trust_after(flown=0.11, **state):
        return float(propose(remembered(**state), flown)[0].trust)

    assert trust_after(trust=0.1, reached=True) == pytest.approx(0.115)
    assert trust_after(trust=0.1, reached=False) == pytest.approx(0.1)
    assert trust_after(trust=0.03, reached=True) == pytest.approx(0.03)
    # Far from the limit a small region is not for settling: there is a way to go.
    assert trust_after(flown=0.05, trust=0.03, reached=True) == pytest.approx(0.045)
    assert trust_after(flown=0.05, trust=0.03, reached=False) == pytest.approx(0.03)


def test_stress_is_less_where_predictions_held():
    def share(inflation):
        return float(LIMITS.stress_share(remembered(inflation=inflation).memory()))

    assert share(1.0) == pytest.approx(0.6)
    assert share(1.2) == pytest.approx(0.8)
    assert share(3.0) == pytest.approx(1.0)


def test_verification_binds_where_the_model_doubts():
    nominal = np.where(np.arange(CANDIDATES) < 3, 0.5, 0.05)
    _, _, choice, tried = decide(remembered(trust=0.14), 0.25, nominal)
    # The first that passes is too near to one at which the model loses the path.
    assert tried[2] / tried[3] > 1.0 - LIMITS.reserve > tried[2] / tried[4]
    assert float(choice.pace.time_scale) == pytest.approx(float(tried[4]), rel=1e-5)
    assert choice.bound_by == ats.VERIFICATION


def test_a_reserve_is_kept_to_where_the_model_loses_the_path():
    nominal = np.where(np.arange(CANDIDATES) == 0, 10.0, 0.05)
    _, fastest, choice, tried = decide(remembered(), 0.1, nominal)
    assert float(choice.pace.time_scale) == pytest.approx(float(tried[2]), rel=1e-5)
    assert float(choice.pace.time_scale) > 1.01 * float(fastest)
    assert choice.bound_by == ats.VERIFICATION


def test_a_lone_gap_in_the_doubt_is_not_used():
    nominal = np.where(np.arange(CANDIDATES) == 1, 0.05, 0.5)
    nominal[3:] = 0.05
    _, _, choice, tried = decide(remembered(trust=0.14), 0.25, nominal)
    assert float(choice.pace.time_scale) == pytest.approx(float(tried[4]), rel=1e-5)


def test_saturation_binds():
    _, _, choice, _ = decide(remembered(), 0.1, 0.05, saturation=0.6)
    assert choice.bound_by == ats.SETTLED  # flew well, so it stays
    _, _, choice, _ = decide(remembered(), 0.3, 0.05, saturation=0.6)
    assert choice.bound_by == ats.SATURATION
    assert float(choice.pace.time_scale) > 0.6


def test_violation_slows_down():
    _, _, choice, _ = decide(remembered(), 0.5, 0.05)
    assert choice.bound_by == ats.BARRIER
    assert float(choice.pace.time_scale) > 0.6 * 1.03
    assert float(choice.memory.floor) == pytest.approx(0.6 * 1.04, rel=1e-5)


@pytest.mark.parametrize("nominal", [0.05, 1.0], ids=["all verifies", "nothing verifies"])
def test_a_flight_that_was_helped_is_a_violation_however_small_its_error(nominal):
    _, _, choice, _ = decide(remembered(), 0.05, nominal, event=True)
    assert choice.bound_by == ats.BARRIER
    assert float(choice.pace.time_scale) > 0.6 * 1.03
    assert float(choice.memory.floor) == pytest.approx(0.6 * 1.04, rel=1e-5)


def test_a_base_policy_that_was_helped_is_first_trained_at_its_own_speed():
    first = remembered(predicted=float("nan"))
    _, fastest = _propose(LIMITS, first.memory(), first.last(0.05, event=True))
    assert float(fastest) == pytest.approx(0.6)


def test_the_error_of_a_flight_that_was_helped_is_judged_by_what_was_predicted_for_all_of_it():
    state = remembered(predicted=0.02)._replace(expected=0.18)
    assert float(state.last(0.38).surprise) == pytest.approx(10.0)
    assert float(state.last(0.38, event=True).surprise) == pytest.approx(2.0)


def test_stays_when_it_flew_well_and_nothing_verifies():
    _, _, choice, _ = decide(remembered(), 0.1, 1.0, here=0.1, old=0.09)
    assert float(choice.pace.time_scale) == pytest.approx(0.6)
    assert choice.bound_by == ats.SETTLED
    assert not bool(choice.use_new_policy)
    assert float(choice.pace.predicted) == pytest.approx(0.09)
    assert float(choice.memory.trust) < 0.1
    # The new policy is taken at the same speed if it is the better of the two there.
    _, _, choice, _ = decide(remembered(), 0.1, 1.0, here=0.08, old=0.09)
    assert float(choice.pace.time_scale) == pytest.approx(0.6)
    assert bool(choice.use_new_policy)
    assert float(choice.pace.predicted) == pytest.approx(0.08)


def test_does_not_stay_at_the_very_edge():
    """Flew well, but a little faster the model loses the path: a small step back."""
    edge = np.array([0.1, 0.1, 5.0])
    _, _, choice, _ = decide(remembered(), 0.1, 1.0, here=edge, old=edge)
    assert float(choice.pace.time_scale) == pytest.approx(0.6 * (1.0 + LIMITS.reserve), rel=1e-5)
    assert choice.bound_by == ats.VERIFICATION


def test_slows_down_when_it_flew_badly_and_nothing_verifies():
    _, _, choice, _ = decide(remembered(), 0.3, 1.0, here=0.95, old=0.9)
    assert float(choice.pace.time_scale) == pytest.approx(0.69, rel=1e-4)
    assert choice.bound_by == ats.VERIFICATION
    assert not bool(choice.use_new_policy)  # the old one is the better of the two


def test_record_of_the_predictions_inflates_them():
    memory, _ = propose(remembered(predicted=0.08), 0.18)
    assert float(memory.inflation) == pytest.approx(2.0, rel=1e-5)
    memory, _ = propose(remembered(inflation=2.0), 0.05)
    assert float(memory.inflation) == pytest.approx(0.6 * 2.0 + 0.4, rel=1e-5)


def test_first_flight_says_nothing_about_the_model():
    memory, fastest = _propose(LIMITS, LIMITS.start(), remembered(1.0, np.nan).last(1.5))
    assert float(memory.inflation) == 1.0
    assert float(memory.floor) == 0.0
    assert float(fastest) == 1.0
