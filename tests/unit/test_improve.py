"""Parts of one iteration of learning that can be checked by hand."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from lafr_mjx.learner import model_rollout
from lafr_mjx.learner.improve import anchors_of, noise_seen
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference import splines
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.types import CONTROL_DT, Rollout, State


@pytest.mark.parametrize("scale", [0.6, 1.0, 2.0, 3.5])
def test_noise_is_recovered_from_the_loss_of_a_perfect_model(scale):
    """The loss of a vehicle at rest, of which only noise is seen, over many pairs of samples."""
    rng = np.random.default_rng(0)
    loss = sum(
        np.mean(np.sum((rng.normal(0.0, scale * sigma, (2, 20_000, 3))[0]
                        - rng.normal(0.0, scale * sigma, (20_000, 3))) ** 2, axis=-1))
        for sigma in model_rollout.SENSOR_NOISE
    ) / CONTROL_DT**2  # fmt: skip
    assert float(noise_seen(loss)) == pytest.approx(scale, rel=0.02)


def test_noise_is_never_taken_for_nothing_nor_for_everything():
    assert float(noise_seen(0.0)) == pytest.approx(0.5)
    assert float(noise_seen(1e6)) == pytest.approx(4.0)


def test_a_drone_on_its_reference_is_no_way_off():
    """Also while the ramp goes on, and with samples that are late."""
    path = splines.from_harmonics([0, 0, 1.0], [[1.5, 0, 0]], [[0, 1.5, 0]], 6.0, segments=8)
    time = CONTROL_DT * np.arange(150)
    stamp = time - 0.01
    clock = clocks.start(0.6, 1.5)
    asked = reference_state(path, *clocks.shifted(clock, time))
    then = reference_state(path, *clocks.shifted(clock, stamp))
    sensed = State(then.position, then.velocity, then.rotation, then.rates)
    phase, rate, *_ = clocks.shifted(clock, time)
    own = np.concatenate([asked.thrust[:, None], asked.rates], axis=-1)
    flags = np.ones(150, bool)
    flight = Rollout(
        time, flags, sensed, stamp, own, asked, phase, rate, 0.6 * flags, sensed, ~flags, stamp,
        sensed, flags, None,
    )  # fmt: skip
    found = anchors_of(jax.tree.map(np.float32, flight)._replace(valid=flags, crashed=~flags),
                       jax.tree.map(np.float32, path), 1.5)  # fmt: skip
    usable = np.asarray(found.usable)
    np.testing.assert_array_equal(usable, time >= 0.749)
    off = jax.tree.map(lambda leaf: np.asarray(leaf)[usable], found.offset)
    np.testing.assert_allclose(off.position, 0.0, atol=2e-3)
    np.testing.assert_allclose(off.velocity, 0.0, atol=2e-2)
    np.testing.assert_allclose(
        off.rotation, np.tile(np.eye(3), (len(off.position), 1, 1)), atol=2e-2
    )
    np.testing.assert_allclose(np.asarray(found.commands)[usable], 0.0, atol=1e-5)
