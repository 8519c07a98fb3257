"""What the tests of run folders write, and how they compare it."""

from __future__ import annotations

import jax
import numpy as np

from lafr_mjx.types import Reference, Rollout, State

CONFIG = {
    "task": "figure8",
    "seed": 3,
    "iterations": 12,
    "guarded": True,
    "rates": [6.0, 6.0, 1e-7],
    'text with = and "quotes"': "lines\nof\ttext, é, 🚁, \x7f, \\",
    "ats": {"error_threshold": 0.1 + 0.2, "trust": {"low": 0.03, "names": ["a", "b"]}},
    "empty": {},
}


def rollout(ticks=20, seed=0, diagnostics=None, fallback=True):
    rng = np.random.default_rng(seed)

    def row(*shape, scale=1):
        return rng.normal(size=(scale * ticks, *shape)).astype(np.float32)

    def state(scale=1):
        return State(*(row(*s, scale=scale) for s in ((3,), (3,), (3, 3), (3,))))

    flags = rng.random(ticks) > 0.5
    return Rollout(
        time=0.02 * np.arange(ticks), valid=~flags, sensed=state(), stamp=row(), command=row(4),
        reference=Reference(row(3), row(3), row(3), row(3), row(3, 3), row(3), row()),
        phase=row(), phase_rate=row(), time_scale=row(), truth=state(), crashed=flags,
        sample_time=row(scale=2), sample=state(2), sample_received=rng.random(2 * ticks) > 0.1,
        diagnostics=diagnostics, fallback=rng.random(ticks) > 0.5 if fallback else None,
    )  # fmt: skip


def same_bits(a, b):
    a, b = jax.tree.leaves(a), jax.tree.leaves(b)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype and x.shape == y.shape
        assert x.tobytes() == y.tobytes()
