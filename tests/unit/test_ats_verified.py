"""The verified ATS: what it may never do, and what binds it in constructed cases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.errors import InputError
from lafr_mjx.learner import ats_verified as ats
from lafr_mjx.learner.ats_verified import Memory, Verified
from lafr_mjx.learner.loop import Adaptation
from lafr_mjx.learner.time_scaling import CANDIDATES, LastFlight, Pace
from lafr_mjx.learner.verify import Prediction

LIMITS = Verified()
THRESHOLD, PEAK_ACCELERATION, SLOWEST = 0.35, 1.7, 1.6
HERE = ats._HERE
_propose = jax.jit(Verified.propose)
_candidates = jax.jit(Verified.candidates)
_acceptable = jax.jit(Verified.acceptable)
_decide = jax.jit(Verified.decide)


class AtsState(NamedTuple):
    """Pace of the last flight and memory of the rule, as the tests say them."""

    time_scale: Any = 0.6
    predicted: Any = 0.1
    inflation: Any = 1.0
    refused: Any = 0.0
    failed: Any = 0.0

    def memory(self):
        return Memory(*on_device(self)[2:])

    def last(self, error, peak=PEAK_ACCELERATION, threshold=THRESHOLD, event=False, departed=None):
        scale, predicted = on_device(self)[:2]
        pace = Pace(scale, predicted, predicted + 0.05)
        error, threshold, peak, slowest = map(jnp.float32, (error, threshold, peak, SLOWEST))
        return LastFlight(pace, error, threshold, peak, slowest, error, departed, jnp.bool_(event))


def propose(state, flown, **task):
    return _propose(LIMITS, state.memory(), state.last(flown, **task))


errors = st.floats(0.0, 3.0)
states = st.builds(
    AtsState,
    time_scale=st.floats(0.15, SLOWEST),
    predicted=st.one_of(st.just(float("nan")), st.floats(0.0, 1.0)),
    inflation=st.floats(1.0, 4.0),
    refused=st.floats(0.0, 1.5),
    failed=st.floats(0.0, 1.5),
)
rows = st.lists(st.floats(0.0, 0.4), min_size=CANDIDATES, max_size=CANDIDATES)
check = settings(max_examples=150, deadline=None)


def on_device(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


def predicted(time_scale, nominal, stressed=None, saturation=0.0, probe=None):
    def like(value):
        return np.broadcast_to(np.asarray(value, np.float32), np.shape(time_scale))

    stressed, probe = (nominal if x is None else x for x in (stressed, probe))
    whole = 1.1 * np.asarray(nominal)
    fields = (nominal, 0.0, whole, nominal, whole, stressed, saturation, probe)
    return on_device(Prediction(np.asarray(time_scale), *map(like, fields)))


def decide(state, flown, nominal, old: Any = None, task=None, **others):
    """A whole iteration with given predictions at the candidates."""
    last = state.last(flown, **(task or {}))
    memory, fastest = _propose(LIMITS, state.memory(), last)
    tried = _candidates(LIMITS, fastest, last)
    new = predicted(tried, nominal, **others)
    old = new if old is None else predicted(tried, old)
    return memory, fastest, _decide(LIMITS, memory, last, fastest, new, old), tried


@check
@given(state=states, flown=errors)
def test_proposals_keep_to_the_limits(state, flown):
    memory, fastest = propose(state, flown)
    first, fastest = np.isnan(state.predicted), float(fastest)
    assert LIMITS.fastest - 1e-6 <= fastest <= SLOWEST + 1e-6
    assert memory.inflation >= 1.0 - 1e-6
    assert fastest >= state.time_scale * (1.0 - LIMITS.largest_step) - 1e-5
    if flown <= THRESHOLD - 1e-6:
        assert fastest >= min(max(float(memory.refused), float(memory.failed)), SLOWEST) - 1e-5
    elif flown > THRESHOLD + 1e-6 and not first:
        assert fastest >= min(1.05 * state.time_scale, SLOWEST) - 1e-5
        assert memory.failed >= 1.03 * state.time_scale
    elif first:
        assert fastest == pytest.approx(state.time_scale, rel=1e-5)


@check
@given(state=states, flown=errors, nominal=rows, stressed=rows, saturation=st.floats(0.0, 0.6))
def test_choices_keep_to_the_limits(state, flown, nominal, stressed, saturation):
    memory, fastest, choice, tried = decide(
        state, flown, nominal, stressed=stressed, saturation=saturation
    )
    chosen = float(choice.pace.time_scale)
    first = np.isnan(state.predicted)
    assert choice.bound_by in range(len(LIMITS.outcomes))
    assert np.isfinite(choice.pace.predicted)
    assert LIMITS.fastest - 1e-6 <= chosen <= SLOWEST + 1e-6
    assert chosen >= min(state.time_scale, float(fastest)) - 1e-5
    if flown > THRESHOLD + 1e-6 and not first:
        assert chosen > 1.02 * state.time_scale or chosen >= SLOWEST - 1e-5
        assert choice.bound_by == ats.BARRIER
    found = predicted(tried, nominal, stressed, saturation)
    good = np.asarray(_acceptable(LIMITS, found, memory, state.last(flown)))
    if chosen < 0.999 * state.time_scale:
        index = int(np.argmin(np.abs(np.asarray(tried) - chosen)))
        assert good[index] and not good[:index].any()
        # The next proposal does not go beyond what was refused now.
        if index:
            assert choice.memory.refused >= 0.99 * float(tried[index - 1])


@check
@given(state=states, flown=errors)
def test_candidates_become_slower_and_hold_the_present(state, flown):
    _, fastest = propose(state, flown)
    tried = np.asarray(_candidates(LIMITS, fastest, state.last(flown)))
    assert tried[0] == pytest.approx(float(fastest), rel=1e-5)
    assert np.all(np.diff(tried) >= -1e-6)
    assert tried[HERE] == pytest.approx(max(state.time_scale, float(fastest)), rel=1e-5)
    assert tried[-1] <= SLOWEST * (1.0 + 1e-5)


def test_limits_scale_with_the_threshold_of_the_task():
    """Twice the threshold, twice the errors: the same choice."""
    nominal = np.linspace(0.30, 0.10, CANDIDATES)
    for flown in (0.1, 0.24, 0.26, 0.4):
        _, _, small, _ = decide(AtsState(predicted=flown), flown, nominal)
        _, _, large, _ = decide(
            AtsState(predicted=2 * flown), 2 * flown, 2 * nominal, task={"threshold": 0.7}
        )
        assert float(small.pace.time_scale) == pytest.approx(float(large.pace.time_scale))
        assert small.bound_by == large.bound_by


def test_speeds_up_by_the_largest_step_when_all_is_well():
    _, fastest, choice, _ = decide(AtsState(time_scale=0.9), 0.1, 0.05)
    assert float(fastest) == pytest.approx(0.9 * (1.0 - LIMITS.largest_step), rel=1e-5)
    assert float(choice.pace.time_scale) == pytest.approx(float(fastest), rel=1e-6)
    assert choice.bound_by == ats.TRUST_REGION
    assert float(choice.pace.predicted) == pytest.approx(0.05)
    assert float(choice.pace.expected) == pytest.approx(0.055)
    assert float(choice.memory.refused) == 0.0


def test_speed_binds_at_the_fastest():
    # The path is so slow that its accelerations do not bind first.
    _, _, choice, _ = decide(AtsState(time_scale=0.16), 0.1, 0.05, task={"peak": 0.01})
    assert float(choice.pace.time_scale) == pytest.approx(LIMITS.fastest, rel=1e-5)
    assert choice.bound_by == ats.SPEED


def test_a_step_adds_no_more_than_some_acceleration():
    for time_scale in (0.9, 0.4, 0.28):
        fastest = float(propose(AtsState(time_scale), 0.1)[1])
        more = PEAK_ACCELERATION * (1.0 / fastest**2 - 1.0 / time_scale**2)
        assert more <= LIMITS.acceleration_step + 1e-3
        if time_scale < 0.5:
            assert more == pytest.approx(LIMITS.acceleration_step, rel=1e-3)


def test_stress_is_less_where_predictions_held():
    def share(inflation):
        return float(LIMITS.stress_share(AtsState(inflation=inflation).memory()))

    assert share(1.0) == pytest.approx(0.6)
    assert share(1.2) == pytest.approx(0.8)
    assert share(3.0) == pytest.approx(1.0)


def test_a_refused_candidate_is_the_fast_end_of_the_bracket():
    nominal = np.where(np.arange(CANDIDATES) < 2, 0.5, 0.05)
    _, _, choice, tried = decide(AtsState(0.3), 0.1, nominal)
    assert float(choice.pace.time_scale) == pytest.approx(float(tried[2]), rel=1e-5)
    assert float(choice.memory.refused) == pytest.approx(float(tried[1]), rel=1e-5)
    assert choice.bound_by == ats.VERIFICATION


@pytest.mark.parametrize("limit", [0.265, 0.27, 0.2771, 0.29])
def test_search_settles_at_the_limit_within_twelve_flights(limit):
    """The model refuses all that is faster than a limit; the error grows towards it."""
    state, scales = AtsState(1.0, np.nan), []
    for _ in range(12):
        scales.append(float(state.time_scale))
        flown = 0.05 + 0.05 * limit / scales[-1]
        last = state.last(flown)
        memory, fastest = _propose(LIMITS, state.memory(), last)
        tried = np.asarray(_candidates(LIMITS, fastest, last))
        new = predicted(tried, np.where(tried < limit, 10.0, 0.05 + 0.05 * limit / tried))
        choice = _decide(LIMITS, memory, last, fastest, new, new)
        state = AtsState(choice.pace.time_scale, choice.pace.predicted, *choice.memory)
    assert min(scales) >= limit
    assert scales[-1] < 1.012 * limit, scales
    assert max(scales[-3:]) < 1.01 * min(scales[-3:]), scales


def test_the_bracket_opens_again():
    """A settled drone soon tries a percent more, and goes on, further, while it is accepted."""
    state = AtsState(0.3, refused=0.3 * (1.0 - 0.8 * LIMITS.resolution))
    tries = []
    for _ in range(5):
        _, fastest, choice, _ = decide(state, 0.1, 0.05)
        tries.append(float(fastest) / float(state.time_scale))
        state = AtsState(choice.pace.time_scale, choice.pace.predicted, *choice.memory)
    assert tries[0] == pytest.approx(1.0)  # at first not at all
    assert tries[1] > 0.98
    assert np.all(np.diff(tries[:4]) < 0.0)
    assert tries[-1] < 0.97


def test_a_reserve_is_kept_to_where_the_model_loses_the_path():
    probe = np.where(np.arange(CANDIDATES) == 0, 10.0, 0.05)
    _, _, choice, tried = decide(AtsState(), 0.1, 0.05, probe=probe)
    assert float(choice.pace.time_scale) == pytest.approx(float(tried[1]), rel=1e-5)
    assert choice.bound_by == ats.DIVERGENCE


def test_a_lone_gap_in_the_doubt_is_not_used():
    nominal = np.where(np.arange(CANDIDATES) == 1, 0.05, 0.5)
    nominal[3:] = 0.05
    _, _, choice, tried = decide(AtsState(), 0.24, nominal)
    assert float(choice.pace.time_scale) == pytest.approx(float(tried[3]), rel=1e-5)


def test_saturation_is_not_divergence():
    flown = AtsState(predicted=0.3)
    assert decide(flown, 0.3, 0.05, saturation=0.6)[2].bound_by == ats.SATURATION
    assert decide(flown, 0.3, 10.0)[2].bound_by == ats.DIVERGENCE
    assert decide(flown, 0.3, 10.0, saturation=0.6)[2].bound_by == ats.DIVERGENCE
    assert decide(flown, 0.3, 0.3)[2].bound_by == ats.VERIFICATION


def test_violation_slows_down():
    _, _, choice, _ = decide(AtsState(predicted=0.5), 0.5, 0.05)
    assert choice.bound_by == ats.BARRIER
    assert float(choice.pace.time_scale) == pytest.approx(0.6 * 1.06, rel=1e-5)
    assert float(choice.memory.failed) == pytest.approx(0.6 * 1.04, rel=1e-5)


@pytest.mark.parametrize("nominal", [0.05, 1.0], ids=["all verifies", "nothing verifies"])
def test_a_flight_that_was_helped_is_a_violation_however_small_its_error(nominal):
    _, _, choice, _ = decide(AtsState(), 0.05, nominal, task={"event": True})
    assert choice.bound_by == ats.BARRIER
    assert float(choice.pace.time_scale) > 0.6 * 1.03
    assert float(choice.memory.failed) > 0.6 * 1.0399


def test_a_base_policy_that_was_helped_is_first_trained_at_its_own_speed():
    first = AtsState(predicted=float("nan"))
    _, fastest = _propose(LIMITS, first.memory(), first.last(0.05, event=True))
    assert float(fastest) == pytest.approx(0.6)


def test_a_flight_that_was_helped_surprises_by_what_called_for_the_help():
    """What follows is calm. Expected were 0.07 m until any moment."""
    state, departed = AtsState(predicted=0.02), jnp.array([0.07, 0.25])
    assert float(state.last(0.06).surprise) == pytest.approx(2.0)
    assert float(state.last(0.06, departed=departed).surprise) == pytest.approx(2.0)
    helped = state.last(0.06, event=True, departed=departed)
    assert float(helped.surprise) == pytest.approx(0.27 / 0.09)
    assert float(state.last(0.38, event=True).surprise) == pytest.approx(10.0)


def test_stays_when_it_flew_well_and_nothing_verifies():
    _, _, choice, _ = decide(AtsState(), 0.1, 0.3, old=0.25)
    assert float(choice.pace.time_scale) == pytest.approx(0.6)
    assert choice.bound_by == ats.SETTLED
    assert not bool(choice.use_new_policy)
    assert float(choice.pace.predicted) == pytest.approx(0.25)
    assert 0.5 < float(choice.memory.refused) < 0.6


def test_does_not_stay_where_the_model_loses_the_path():
    _, _, choice, tried = decide(AtsState(), 0.1, 5.0)
    assert float(choice.pace.time_scale) == pytest.approx(float(tried[-1]))
    assert choice.bound_by == ats.DIVERGENCE


def test_slows_down_when_it_flew_badly_and_nothing_verifies():
    _, _, choice, tried = decide(AtsState(predicted=0.3), 0.3, 0.95, old=0.9)
    assert float(choice.pace.time_scale) == pytest.approx(float(tried[-1]))
    assert choice.bound_by == ats.VERIFICATION
    assert not bool(choice.use_new_policy)  # the old one is the better of the two


def test_record_of_the_predictions_inflates_them():
    memory, _ = propose(AtsState(predicted=0.08), 0.18)
    assert float(memory.inflation) == pytest.approx(2.0, rel=1e-5)
    memory, _ = propose(AtsState(inflation=2.0), 0.05)
    assert float(memory.inflation) == pytest.approx(0.6 * 2.0 + 0.4, rel=1e-5)


def test_another_world_has_another_limit():
    bracket = AtsState(predicted=0.05, refused=0.59)
    assert float(propose(bracket, 0.06)[0].refused) > 0.5
    assert float(propose(bracket, 0.2)[0].refused) == 0.0


def test_first_flight_says_nothing_about_the_model():
    memory, fastest = _propose(LIMITS, LIMITS.start(), AtsState(1.0, np.nan).last(1.5))
    assert float(memory.inflation) == 1.0
    assert float(memory.refused) == 0.0
    assert float(fastest) == 1.0


def test_what_failed_untrained_is_tried_again_soon():
    """One violation at a walk, then calm flights as predicted: it may not hold the run back."""
    memory = on_device(Memory(1.0, 0.0, 0.0))
    scale, event = 1.0, True
    for flight in range(7):
        last = AtsState(time_scale=scale).last(0.1, event=event)
        memory, fastest = _propose(LIMITS, memory, last)
        assert float(fastest) > 1.03 or not event
        scale, event = float(fastest), False
        assert flight == 0 or float(memory.failed) < scale * 1.001
    assert scale < 0.5, "six flights later it is twice as fast"


def test_a_rule_that_names_no_outcome_is_told():
    run = SimpleNamespace(_outcomes=("faster",))
    assert Adaptation._outcome(run, 0) == "faster"  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"bound_by = 7, .* outcomes \('faster',\)"):
        Adaptation._outcome(run, 7)  # type: ignore[arg-type]
