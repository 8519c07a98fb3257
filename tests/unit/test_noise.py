"""The plant's random numbers: the cipher, their distribution, and that streams do not meet."""

from __future__ import annotations

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.random import threefry_2x32

from lafr_mjx.plant import noise
from lafr_mjx.plant.noise import Draws, threefry

KEY = jnp.array([0x12345678, 0x9ABCDEF0], jnp.uint32)
MANY = 20_000
WORD = 2**32


def plain_threefry(key, counter, rounds):
    """Threefry-2x32 in whole numbers, from its definition (Salmon et al. 2011, section 3.3).

    Per round: x0 += x1; x1 = rotl(x1, R[i mod 8]) ^ x0. Before the first and after every
    fourth round the key schedule (k0, k1, k0 ^ k1 ^ C240) is injected, with the number of the
    injection added to the second word.
    """
    schedule = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    rotations = [13, 15, 26, 6, 17, 29, 16, 24]
    x, y = (counter[0] + schedule[0]) % WORD, (counter[1] + schedule[1]) % WORD
    for i in range(1, rounds + 1):
        r = rotations[(i - 1) % 8]
        x = (x + y) % WORD
        y = ((y << r) | (y >> (32 - r))) % WORD ^ x
        if i % 4 == 0:
            n = i // 4
            x = (x + schedule[n % 3]) % WORD
            y = (y + schedule[(n + 1) % 3] + n) % WORD
    return x, y


words = st.integers(0, WORD - 1)


def test_the_plain_cipher_is_threefry():
    """With 20 rounds it is what JAX calls threefry2x32."""
    rng = np.random.default_rng(0)
    for k0, k1, x0, x1 in rng.integers(0, WORD, (50, 4)).tolist():
        theirs = threefry_2x32(jnp.array([k0, k1], jnp.uint32), jnp.array([x0, x1], jnp.uint32))
        assert plain_threefry((k0, k1), (x0, x1), 20) == tuple(np.asarray(theirs).tolist())


@settings(deadline=None, max_examples=100)
@given(words, words, words, words)
def test_ours_is_the_cipher_with_13_rounds(k0, k1, x0, x1):
    got = threefry(*(jnp.uint32(w) for w in (k0, k1, x0, x1)))
    assert tuple(int(w) for w in got) == plain_threefry((k0, k1), (x0, x1), 13)


def test_draws_are_addressed_by_key_moment_stream_and_number():
    """Number n of a stream is word n mod 2 of the counter (moment, stream + n div 2)."""
    stream = zlib.crc32(b"gusts") & ~0xFF
    got = Draws.of(KEY, 77, "gusts").uniform(5)
    for n, value in enumerate(got):
        word = plain_threefry((0x12345678, 0x9ABCDEF0), (77, stream + n // 2), 13)[n % 2]
        assert float(value) == pytest.approx(((word >> 9) + 0.5) / 2**23, abs=1e-12)


def drawn(kind, name="a", count=4, key=KEY, moments=MANY):
    draws = Draws.of(key, jnp.arange(moments), name)
    return np.array(getattr(draws, kind)(count), float)


def test_uniform_moments():
    """Mean 1/2, variance 1/12; 4 σ of their estimates over 80 000 draws."""
    values = drawn("uniform")
    n = values.size
    assert values.min() > 0.0
    assert values.max() < 1.0
    assert values.mean() == pytest.approx(0.5, abs=4 / np.sqrt(12 * n))
    assert values.var() == pytest.approx(1 / 12, abs=4 / np.sqrt(180 * n))
    # χ² of 64 equal bins: 63 ± √126.
    counts = np.histogram(values, 64, (0.0, 1.0))[0]
    chi2 = np.sum((counts - n / 64) ** 2) / (n / 64)
    assert chi2 == pytest.approx(63, abs=4 * np.sqrt(126))


def test_uniform_never_gives_an_end():
    """The extreme words: float32 must not round to 0 or 1 (erf⁻¹ would be infinite)."""
    ends = (jnp.array([0, WORD - 1], jnp.uint32) >> np.uint32(9)).astype(jnp.float32)
    values = (ends + 0.5) * 2.0**-23
    assert float(values[0]) > 0.0
    assert float(values[1]) < 1.0
    assert np.isfinite(np.asarray(jax.lax.erf_inv(2.0 * values - 1.0))).all()


def test_normal_moments():
    values = drawn("normal")
    n = values.size
    assert values.mean() == pytest.approx(0.0, abs=4 / np.sqrt(n))
    assert values.var() == pytest.approx(1.0, abs=4 * np.sqrt(2 / n))
    assert np.mean(values**3) == pytest.approx(0.0, abs=4 * np.sqrt(15 / n))
    assert np.mean(values**4) == pytest.approx(3.0, abs=4 * np.sqrt(96 / n))
    tail = np.mean(np.abs(values) > 2.5758)
    assert tail == pytest.approx(0.01, abs=4 * np.sqrt(0.01 / n))


def test_independence():
    """Numbers of a draw, streams, moments, keys: all correlations within 4.5 σ (many pairs)."""
    other = KEY + jnp.array([0, 1], jnp.uint32)
    rows = np.concatenate(
        [
            drawn("normal", "a", 6),
            drawn("normal", "b", 3),
            drawn("normal", "wind", 3),
            drawn("normal", "a", 3, other),
            np.roll(drawn("normal", "a", 3), 1, axis=1),  # the moment before
            np.roll(drawn("normal", "a", 3), 3, axis=1),
            np.abs(drawn("normal", "a", 2)),  # and not only linearly
            np.abs(drawn("normal", "b", 2)),
        ]
    )
    correlation = np.corrcoef(rows)
    # |x| and x of the same draw are uncorrelated by symmetry, so the identity is expected.
    assert np.abs(correlation - np.eye(len(rows))).max() < 4.5 / np.sqrt(MANY)


def test_determinism_and_prefixes():
    """Asking again, or for more, gives the same numbers; other addresses give others."""
    draws = Draws.of(KEY, 5, "a")
    np.testing.assert_array_equal(draws.uniform(3), draws.uniform(3))
    np.testing.assert_array_equal(draws.uniform(3), draws.uniform(8)[:3])
    first = float(draws.uniform(1)[0])
    others = [
        Draws.of(KEY, 6, "a"),
        Draws.of(KEY, 5, "b"),
        Draws.of(KEY + np.uint32(1), 5, "a"),
    ]
    assert all(float(other.uniform(1)[0]) != first for other in others)


def test_a_batch_draws_what_single_runs_draw():
    keys = jax.random.key_data(jax.random.split(jax.random.key(3), 16))
    batch = jax.jit(jax.vmap(lambda k: jnp.stack(Draws.of(k, 9, "x").uniform(3))))(keys)
    single = [np.array(Draws.of(k, 9, "x").uniform(3)) for k in keys]
    np.testing.assert_array_equal(np.asarray(batch), np.array(single, np.float32))


def test_key_for_jax_random():
    draws = Draws.of(KEY, 5, "a")
    one = jax.random.poisson(draws.jax_key(), 3.0, (5000,))
    assert float(one.mean()) == pytest.approx(3.0, abs=4 * np.sqrt(3 / 5000))
    same = jax.random.poisson(Draws.of(KEY, 5, "a").jax_key(), 3.0, (5000,))
    np.testing.assert_array_equal(np.asarray(one), np.asarray(same))
    other = jax.random.key_data(Draws.of(KEY, 6, "a").jax_key())
    assert not np.array_equal(jax.random.key_data(draws.jax_key()), other)


def test_shipped_plugins_have_streams_of_their_own():
    from lafr_mjx.plant.plugins import shipped

    names = [*(kind.shipped_as for kind in shipped()), "fan2", "fan3"]
    streams = {Draws.of(KEY, 0, name).stream for name in names}
    assert len(streams) == len(names)
    assert all(stream % noise._NUMBERS == 0 for stream in streams)
