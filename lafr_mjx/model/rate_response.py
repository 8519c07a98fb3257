"""How measured body rates follow commanded ones: a linear model with command history.

For logs without an attitude. Each measured rate is a sum over the last commands of all three
axes, by ridge regression; how many commands and how much ridge is chosen by cross-validation
inside the training part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TAPS = (1, 5, 10, 15, 20)
"""Numbers of past commands that are tried, at 100 Hz."""

_RIDGES = (1e-4, 1e-2, 1e-1)
_FOLDS = 5


class RatePart(NamedTuple):
    """A stretch of a log for training or testing."""

    command: np.ndarray  # [N, 3] rad/s, mean over the 10 ms from each sample on
    rates: np.ndarray  # [N, 3] rad/s, measured at each sample
    usable: np.ndarray  # [N] bool
    start: int  # samples [start, stop) belong to this part
    stop: int


class RateModel(NamedTuple):
    """ω_k = b + Σ_j W_j u_{k-j}."""

    taps: int
    ridge: float
    weights: np.ndarray  # [1 + 3 taps, 3]


def _rows(part: RatePart, taps: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and targets of the usable samples of a part.

    At the start of a usable stretch its first command stands for those before it.
    """
    index = np.arange(part.start, part.stop)
    index = index[part.usable[index]]
    begins = part.usable & ~np.concatenate([[False], part.usable[:-1]])
    stretch = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    back = np.maximum(index[:, None] - np.arange(taps), stretch[index][:, None])
    past = part.command[back].reshape(len(index), 3 * taps)
    return np.hstack([np.ones((len(index), 1)), past]), part.rates[index]


def _solve(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    spread = np.var(x, axis=0) + 1e-9
    spread[0] = 0.0
    return np.linalg.solve(x.T @ x + ridge * len(x) * np.diag(spread), x.T @ y)


def fit(parts: list[RatePart], taps: tuple[int, ...] = TAPS) -> RateModel:
    """The model with the number of past commands and the ridge that cross-validate best."""
    best: tuple[float, int, float] | None = None
    for count in taps:
        data = [_rows(part, count) for part in parts]
        for ridge in _RIDGES:
            total, number = 0.0, 0
            for fold in range(_FOLDS):
                kept, held = [], []
                for x, y in data:
                    edges = np.linspace(0, len(x), _FOLDS + 1).astype(int)
                    inside = np.zeros(len(x), bool)
                    inside[edges[fold] : edges[fold + 1]] = True
                    # Rows next to the block share commands with it.
                    near = np.convolve(inside, np.ones(2 * count + 1), mode="same") > 0.0
                    kept.append((x[~near], y[~near]))
                    held.append((x[inside], y[inside]))
                xs, ys = (np.concatenate(a) for a in zip(*kept, strict=True))
                if len(xs) < 4 * xs.shape[1]:
                    total = np.inf
                    break
                weights = _solve(xs, ys, ridge)
                for x, y in held:
                    total += float(np.sum((y - x @ weights)[:, :2] ** 2))
                    number += len(x)
            score = total / max(number, 1)
            if best is None or score < best[0]:
                best = (score, count, ridge)
    assert best is not None
    x, y = (np.concatenate(a) for a in zip(*(_rows(p, best[1]) for p in parts), strict=True))
    return RateModel(best[1], best[2], _solve(x, y, best[2]))


def errors(model: RateModel | None, parts: list[RatePart]) -> np.ndarray:
    """Squared errors [N, 3] (rad/s)² of a model, or of the nominal one (None)."""
    found = []
    for part in parts:
        features, measured = _rows(part, 1 if model is None else model.taps)
        predicted = features[:, 1:] if model is None else features @ model.weights
        found.append((measured - predicted) ** 2)
    return np.concatenate(found)


def roll_pitch_dps(squares: np.ndarray) -> float:
    """Root mean square of the roll and pitch error's length [°/s]."""
    return float(np.degrees(np.sqrt(np.mean(np.sum(squares[:, :2], axis=1)))))
