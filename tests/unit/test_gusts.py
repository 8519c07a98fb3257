"""Dryden gusts against MIL-F-8785C: intensity, correlation in time, spectrum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx.plant.noise import Draws
from lafr_mjx.plant.plugins.gusts import DrydenGusts, dryden_time_constants
from lafr_mjx.plant.vec3 import Vec3

AXES = ("along", "across", "up")
SIGMA = (0.5, 0.8, 0.3)
TIMES = (0.4, 0.6, 0.25)
DT, LENGTH, BATCH = 0.02, 2048, 192


def dryden_spectrum(frequency, intensity, time_constant, axis):
    """The standard's one-sided power spectral density [m²/s²/Hz] of an axis."""
    x = (2.0 * np.pi * frequency * time_constant) ** 2
    if axis == "along":
        return 4.0 * intensity**2 * time_constant / (1.0 + x)
    return 2.0 * intensity**2 * time_constant * (1.0 + 3.0 * x) / (1.0 + x) ** 2


@pytest.fixture(scope="module")
def gusts():
    """[BATCH, LENGTH, 3] m/s, with the mean wind along the world's y axis."""
    plugin = DrydenGusts(Vec3(*SIGMA), Vec3(*TIMES), Vec3(0.0, 1.0, 0.0))

    def run(key):
        def tick(memory, moment):
            new = plugin.update(memory, Draws.of(key, moment, "gusts"), DT)
            return new, plugin.velocity(memory, Vec3.zero()).array()

        start = plugin.init(Draws.of(key, np.uint32(0xFFFFFFFF), "gusts"))
        return jax.lax.scan(tick, start, jnp.arange(LENGTH))[1]

    keys = jax.vmap(lambda i: jax.random.key_data(jax.random.key(i)))(jnp.arange(BATCH))
    world = np.asarray(jax.jit(jax.vmap(run))(keys), float)
    # Along is +y, across (to the left of it) is -x.
    return np.stack([world[..., 1], -world[..., 0], world[..., 2]], axis=-1)


def test_length_scales_at_low_altitude():
    """At 10 ft: L_u = h / (0.177 + 0.000823 h)^1.2 in feet, L_w = h; below that the same."""
    length = 10.0 / (0.177 + 0.00823) ** 1.2 * 0.3048
    assert dryden_time_constants(1.5, 5.0) == pytest.approx((length / 5, length / 5, 3.048 / 5))
    assert dryden_time_constants(1.5, 0.0) == pytest.approx((length, length, 3.048))
    high = dryden_time_constants(30.48, 10.0)
    assert high[2] == pytest.approx(3.048)
    assert high[0] == pytest.approx(100.0 / (0.177 + 0.0823) ** 1.2 * 0.03048)


@pytest.mark.parametrize("axis", range(3))
def test_intensity_from_the_first_moment_on(gusts, axis):
    """The first moment over the batch, and all moments: the process starts stationary."""
    assert gusts[:, 0, axis].std() == pytest.approx(SIGMA[axis], rel=4 / np.sqrt(2 * BATCH))
    # About one independent value per two time constants.
    independent = BATCH * LENGTH * DT / (2 * TIMES[axis])
    assert gusts[..., axis].std() == pytest.approx(SIGMA[axis], rel=4 / np.sqrt(2 * independent))
    assert abs(gusts[..., axis].mean()) < 4 * SIGMA[axis] / np.sqrt(independent)


@pytest.mark.parametrize("axis", range(3))
def test_autocorrelation(gusts, axis):
    """First order: e^(-τ/T). Second order: (1 - τ/2T) e^(-τ/T), which goes below zero."""
    values = gusts[..., axis] / SIGMA[axis]
    for share in (0.25, 0.5, 1.0, 2.0, 3.0):
        lag = round(share * TIMES[axis] / DT)
        x = lag * DT / TIMES[axis]
        expected = np.exp(-x) * (1.0 if axis == 0 else 1.0 - 0.5 * x)
        independent = BATCH * LENGTH * DT / (2 * TIMES[axis])
        measured = np.mean(values[:, lag:] * values[:, :-lag])
        assert measured == pytest.approx(expected, abs=4 * np.sqrt(2 / independent))


def test_axes_are_independent(gusts):
    flat = (gusts / np.array(SIGMA)).reshape(-1, 3)
    independent = BATCH * LENGTH * DT / (2 * max(TIMES))
    correlation = flat.T @ flat / len(flat)
    off = correlation[np.triu_indices(3, 1)]
    assert np.abs(off).max() < 4 / np.sqrt(independent)


@pytest.mark.parametrize("axis", range(3))
def test_spectrum(gusts, axis):
    """Welch: Hann windows of 512 over the batch, against the formula and its aliases.

    The process is sampled exactly, so its spectrum is the sum over S(f + k / dt). Bands average
    at least 4 bins of about 8 · 192 windows: 2 % of scatter; allowed are 8 % (Hann leaks a
    little where the spectrum is steep).
    """
    size = 512
    window = np.hanning(size)
    parts = gusts[..., axis].reshape(BATCH, -1, size) * window
    power = np.mean(np.abs(np.fft.rfft(parts, axis=-1)) ** 2, axis=(0, 1))
    power *= 2.0 * DT / np.sum(window**2)
    frequency = np.fft.rfftfreq(size, DT)
    aliases = [
        dryden_spectrum(np.abs(frequency + k / DT), SIGMA[axis], TIMES[axis], AXES[axis])
        for k in range(-50, 51)
    ]
    expected = np.sum(aliases, axis=0)
    for low, high in ((0.15, 0.5), (0.5, 1.0), (1.0, 3.0), (3.0, 8.0), (8.0, 20.0)):
        band = (frequency >= low) & (frequency < high)
        assert power[band].mean() == pytest.approx(expected[band].mean(), rel=0.08)


@pytest.mark.parametrize("axis", AXES)
def test_spectrum_carries_the_intensity(axis):
    """∫ S df = σ², and S is the military one: Φ(Ω) dΩ with Ω = 2π f / V."""
    frequency = np.geomspace(1e-5, 1e5, 400_001)
    density = dryden_spectrum(frequency, 0.7, 0.9, axis)
    assert np.trapezoid(density, frequency) == pytest.approx(0.49, rel=1e-3)
    speed, length = 5.0, 4.5
    wave = 2 * np.pi * frequency / speed
    x = (length * wave) ** 2
    if axis == "along":
        military = 0.49 * 2 * length / np.pi / (1 + x)
    else:
        military = 0.49 * length / np.pi * (1 + 3 * x) / (1 + x) ** 2
    np.testing.assert_allclose(density, military * 2 * np.pi / speed, rtol=1e-9)
