"""Replay of a log as the online learner would see it: refit each second, test on the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.fitting import state_models
from lafr_mjx.fitting.fit_job import HORIZONS, QUANTITIES
from lafr_mjx.model import body, body_fit, open_loop, steps
from lafr_mjx.model.body_sets import SHORT
from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from lafr_mjx.fitting.fit_job import Job, Result, Split
    from lafr_mjx.fitting.fit_report import Console
    from lafr_mjx.model.data import Transitions
    from lafr_mjx.model.steps import Recording

WINDOW_S = 24.0
"""What the learner remembers: three flights of 8 s."""

MODELS = ("nominal", "body", "online", "online_body")
"""What is replayed: `body` is solved anew each second, the online learner's models go on."""

_REPLAYED = MODELS[2:]
_RIDGE = 1e-2


def replay(job: Job, pairs: list[tuple[Split, Recording]], result: Result, show: Console) -> None:
    """Every log from its start to its end; figures over all of its seconds."""
    second, window = round(1.0 / SAMPLE_DT), round(WINDOW_S / SAMPLE_DT)
    sums: dict[str, list[np.ndarray]] = {name: [] for name in MODELS}
    moments: list[float] = []
    total = sum(len(record.usable) // second for _, record in pairs)
    with show.progress("replaying, a refit each second", total) as advance:
        for split, record in pairs:
            previous: Any = None
            for now in range(2 * second, len(record.usable) - second, second):
                advance()
                past = steps.transitions(record, max(now - window, 0), now)
                following = steps.windows(record, now, now + second + 1, state_models.STEPS)
                if past.usable.sum() < second or len(following.index) == 0:
                    continue
                models, previous = _refit(job, past, split.log.commanded, previous)
                for name, (step, parameters) in models.items():
                    sums[name].append(open_loop.squares(step, parameters, following))
                moments.append(now * SAMPLE_DT)
    result.replay = {"time_s": moments}
    for name, found in sums.items():
        if not found:
            continue
        ends = [squares[:, -1].mean(axis=-1) for squares in found]
        result.replay[name] = (np.sqrt(np.stack(ends)) * open_loop.UNITS).tolist()
        together = np.concatenate(found, axis=-1)
        for horizon, count in HORIZONS.items():
            mean = np.sqrt(together[:, count - 1].mean(axis=-1)) * open_loop.UNITS
            for quantity, value in zip(QUANTITIES, mean, strict=True):
                result.figures[f"replay_{name}_{horizon}_{quantity}"] = float(value)
    result.figures["replay_seconds"] = len(moments)
    result.figures["replay"] = result.replay
    show.replay(result)


def _refit(
    job: Job, past: Transitions, commanded: bool, previous: Any
) -> tuple[dict[str, state_models.Model], Any]:
    """The models after what is past; the networks go on from where they were."""
    weights = state_models.lag_for(past, commanded)
    given = body_fit.design(past, weights)
    linear = body_fit.solve(given, given.usable, SHORT, _RIDGE)
    in_body = body.create(np.random.default_rng(0), weights)._replace(
        linear=linear.astype(np.float32)
    )
    previous = previous or {}
    learned = {
        name: state_models.fit_online(past, commanded, features, job.seed, start=previous.get(name))
        for name, features in state_models.ONLINE.items()
        if name in _REPLAYED
    }
    nominal = body.create(np.random.default_rng(0))
    return {
        "nominal": (open_loop.body_step, nominal),
        "body": (open_loop.body_step, in_body),
        **learned,
    }, {name: parameters[0] for name, (_, parameters) in learned.items()}
