"""Parts of one iteration of learning that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lafr_mjx.learner import model_rollout
from lafr_mjx.learner.improve import noise_seen
from lafr_mjx.types import CONTROL_DT


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
