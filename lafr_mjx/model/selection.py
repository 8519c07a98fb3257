"""Choice of features and regularisation by cross-validation inside the training part.

The training part is cut into blocks of time (or, with three logs or more, whole logs). Each
block is predicted open-loop over 0.5 s by a model that was fitted on the others. First the
rates choose their features by the attitude error, then the accelerations theirs by position
and velocity, then the network on top must earn its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx.model import body, body_fit, open_loop, steps
from lafr_mjx.model.body_sets import ACCELERATION, RATES, SCALE_BIAS, with_history
from lafr_mjx.model.fit_residual import FitSettings

if TYPE_CHECKING:
    from lafr_mjx.model.body import BodyResidual
    from lafr_mjx.model.data import Transitions
    from lafr_mjx.model.steps import Recording, Windows

HORIZON = 25
"""Steps of the prediction that the choice is made by: 0.5 s."""

RIDGES = (1e-6, 1e-3, 1e-2, 1e-1)
_FOLDS = 5
_PROGRAM = 40  # candidates that are predicted at once
_SHORTEST = 100  # samples of a block: windows of 0.5 s must fit in
_MOST_WINDOWS = 500  # of all blocks together


class Part(NamedTuple):
    """A stretch of a recording: samples [start, stop)."""

    record: Recording
    start: int
    stop: int


class Candidate(NamedTuple):
    """A set of features with its regularisation."""

    name: str
    mask: np.ndarray
    ridge: float


class Fold(NamedTuple):
    """A block that is left out: which rows remain, and the windows to predict."""

    used: np.ndarray  # [N] bool
    windows: Windows


class Choice(NamedTuple):
    """What cross-validation chose, with its score for each candidate."""

    rates: Candidate
    acceleration: Candidate
    network: bool
    scores: dict[str, list[float]]  # name -> cross-validated mm, cm/s, ° at 0.5 s


def rows_of(parts: list[Part]) -> Transitions:
    """All rows of the training part."""
    return steps.join([steps.transitions(p.record, p.start, p.stop) for p in parts])


def folds_of(parts: list[Part]) -> list[Fold]:
    """Blocks of time, or whole logs if there are three or more."""
    sizes = [max(p.stop - p.start - 2 * steps.STRIDE, 0) for p in parts]
    owner = np.repeat(np.arange(len(parts)), sizes)
    sample = np.concatenate(
        [np.arange(p.start + steps.STRIDE, p.start + steps.STRIDE + n)
         for p, n in zip(parts, sizes, strict=True)]
    )  # fmt: skip
    total = sum(p.stop - p.start for p in parts)
    every = max(5, total // _MOST_WINDOWS)
    longest = max(p.stop - p.start for p in parts)
    count = int(np.clip(longest // _SHORTEST, 2, _FOLDS))
    blocks: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
    if len(parts) >= 3:
        blocks = [[] for _ in range(min(_FOLDS, len(parts)))]
        for i, p in enumerate(parts):
            blocks[i % len(blocks)].append((i, p.start, p.stop))
    else:
        for i, p in enumerate(parts):
            edges = np.linspace(p.start, p.stop, count + 1).astype(int)
            for k in range(count):
                blocks[k].append((i, int(edges[k]), int(edges[k + 1])))
    found = []
    for block in blocks:
        used = np.ones(len(owner), bool)
        given = []
        for i, start, stop in block:
            near = (sample >= start - steps.REACH) & (sample < stop + steps.REACH)
            used &= ~((owner == i) & near)
            given.append(steps.windows(parts[i].record, start, stop, HORIZON, every))
        joined = steps.join(given)
        if len(joined.index):
            found.append(Fold(used, joined))
    return found


def _root_mean(squares: list[np.ndarray]) -> np.ndarray:
    """Errors [..., 3] (mm, cm/s, °) at the horizon, of squares [..., 3, steps, W] of all folds."""
    ends = np.concatenate([found[..., -1, :] for found in squares], axis=-1)
    return np.sqrt(ends.mean(axis=-1)) * open_loop.UNITS


def _scores(
    models: list[list[np.ndarray]], folds: list[Fold], template: BodyResidual
) -> np.ndarray:
    """Cross-validated errors [candidates, 3]; `models[k]` are the coefficients for fold k."""
    found = []
    for coefficients, fold in zip(models, folds, strict=True):
        # Both lists of candidates are filled up to one length, for one compiled program.
        count = len(coefficients)
        many = -(-count // 8) * 8 if count > _PROGRAM else _PROGRAM
        coefficients = coefficients + coefficients[-1:] * (many - count)
        stacked = jax.tree.map(
            lambda leaf, many=many: jnp.broadcast_to(leaf, (many, *np.shape(leaf))), template
        )._replace(linear=jnp.asarray(np.stack(coefficients), jnp.float32))
        squares = open_loop.squares(open_loop.body_step, stacked, fold.windows, many=True)
        found.append(squares[:count])
    return _root_mean(found)


def candidates(sets: dict[str, np.ndarray]) -> list[Candidate]:
    """Every set, alone and with the last commands, with every regularisation."""
    past = {f"{name} + past commands": with_history(mask) for name, mask in sets.items()}
    return [
        Candidate(name, mask, ridge) for name, mask in (sets | past).items() for ridge in RIDGES
    ]


def choose(
    parts: list[Part], weights: np.ndarray, *, seed: int = 0, network: bool = True
) -> Choice:
    """Choose features and regularisation for this training part."""
    rows = rows_of(parts)
    given = body_fit.design(rows, weights)
    folds = folds_of(parts)
    if len(folds) < 2:  # too short or too torn to choose: what generalises from little
        cautious = (Candidate("cross rates", RATES["cross rates"], 1e-2),
                    Candidate("linear", ACCELERATION["linear"], 1e-2))  # fmt: skip
        return Choice(*cautious, False, {})
    template = body.create(np.random.default_rng(seed), weights)
    sums = [body_fit.moments(given, fold.used & given.usable) for fold in folds]
    scores: dict[str, list[float]] = {}

    def coefficients(candidate: Candidate) -> list[np.ndarray]:
        return [
            body_fit.solve_moments(s, given.variance, candidate.mask, candidate.ridge) for s in sums
        ]

    def compare(
        list_of: list[Candidate], fixed: list[np.ndarray], columns: list[int], kind: str
    ) -> int:
        solved = [coefficients(c) for c in list_of]
        models = [[solved[i][k] + fixed[k] for i in range(len(list_of))] for k in range(len(sums))]
        found = _scores(models, folds, template)
        for candidate, row in zip(list_of, found, strict=True):
            scores[f"{kind}: {candidate.name}, ridge {candidate.ridge:g}"] = row.tolist()
        return int(np.argmin(np.log(found[:, columns]).sum(axis=1)))

    nominal_a = coefficients(Candidate("", ACCELERATION["drag"], 1e-3))
    rates = candidates(RATES)
    best_rates = rates[compare(rates, nominal_a, [2], "rates")]
    fixed = coefficients(best_rates)
    accelerations = candidates(ACCELERATION)
    best = accelerations[compare(accelerations, fixed, [0, 1], "acceleration")]
    linear = np.array(scores[f"acceleration: {best.name}, ridge {best.ridge:g}"])
    both = [a + b for a, b in zip(coefficients(best), fixed, strict=True)]
    if network:
        with_network = _network_score(rows, folds, both, template, seed)
        scores["network on top"] = with_network.tolist()
        network = bool(np.log(with_network).sum() < np.log(linear).sum())
    return Choice(best_rates, best, network, scores)


def _network_score(
    rows: Transitions,
    folds: list[Fold],
    linear: list[np.ndarray],
    template: BodyResidual,
    seed: int,
) -> np.ndarray:
    found = []
    clean = body_fit.without_gaps(rows)
    for k, (fold, coefficients) in enumerate(zip(folds, linear, strict=True)):
        start = template._replace(linear=jnp.asarray(coefficients, jnp.float32))
        some = clean._replace(usable=clean.usable & fold.used)
        fitted = network_on_top(start, some, seed + k)
        found.append(open_loop.squares(open_loop.body_step, fitted, fold.windows))
    return _root_mean(found)


def network_on_top(start: BodyResidual, rows: Transitions, seed: int) -> BodyResidual:
    """The network fitted with the online learner's settings."""
    settings = jax.tree.map(jnp.float32, FitSettings())
    device_rows: Any = jax.tree.map(jnp.asarray, steps.filled(rows))
    return body_fit.fit_network(start, settings, device_rows, jax.random.key(seed))


def fit_choice(
    choice: Choice,
    rows: Transitions,
    weights: np.ndarray,
    seed: int,
    counts: np.ndarray | None = None,
    given: body_fit.Design | None = None,
) -> BodyResidual:
    """Fit the chosen model to rows; `counts` [N] says how often each row counts."""
    template = body.create(np.random.default_rng(seed), weights)
    given = body_fit.design(rows, weights) if given is None else given
    counts = np.ones(len(given.usable), int) if counts is None else counts
    sums = body_fit.moments(given, np.repeat(np.arange(len(counts)), counts * given.usable))
    linear = sum(
        body_fit.solve_moments(sums, given.variance, candidate.mask, candidate.ridge)
        for candidate in (choice.rates, choice.acceleration)
    )
    fitted = template._replace(linear=np.asarray(linear, np.float32))
    if not choice.network:
        return fitted
    clean = body_fit.without_gaps(rows)
    return network_on_top(fitted, clean._replace(usable=clean.usable * counts), seed)


def fit_scale_bias(rows: Transitions, weights: np.ndarray) -> BodyResidual:
    """The nominal model with a gain and an offset on thrust and on each rate."""
    given = body_fit.design(rows, weights)
    linear = body_fit.solve(given, given.usable, SCALE_BIAS, 1e-6)
    template = body.create(np.random.default_rng(0), weights)
    return template._replace(linear=linear.astype(np.float32))
