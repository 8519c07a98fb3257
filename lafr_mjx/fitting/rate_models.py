"""Body rates of a log: how well commands predict them, without and with command history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.model import rate_response
from lafr_mjx.model.rate_response import RatePart

if TYPE_CHECKING:
    from lafr_mjx.fitting.fit_job import Result, Split
    from lafr_mjx.fitting.fit_report import Console


def work(splits: list[Split], result: Result, show: Console) -> None:
    """Fit the rate models and test them on the same rows."""
    train = [_part(s, s.train) for s in splits if s.train and s.log.rates is not None]
    test = [_part(s, s.test) for s in splits if s.test and s.log.rates is not None]
    if not train or not test:
        return
    with show.busy("rates against their commands ..."):
        memoryless = rate_response.fit(train, taps=(1,))
        history = rate_response.fit(train)
        models = {"nominal": None, "memoryless": memoryless, "hybrid": history}
        squares = {name: rate_response.errors(model, test) for name, model in models.items()}
    metrics = {name: rate_response.roll_pitch_dps(s) for name, s in squares.items()}
    yaw = {name: float(np.degrees(np.sqrt(np.mean(s[:, 2])))) for name, s in squares.items()}
    for name in metrics:
        result.figures[f"{name}_rates_dps"] = metrics[name]
        result.figures[f"{name}_yaw_rate_dps"] = yaw[name]
    result.figures["rates_taps"] = history.taps
    result.figures["rates_ridge"] = history.ridge
    result.figures["rates_train_samples"] = sum(p.stop - p.start for p in train)
    result.figures["rates_test_samples"] = len(squares["hybrid"])
    show.rates(result.figures)


def _part(split: Split, part: tuple[int, int]) -> RatePart:
    log = split.log
    rates = np.asarray(log.rates)
    good = log.usable & np.isfinite(log.command[:, 1:]).all(-1) & np.isfinite(rates).all(-1)
    return RatePart(np.nan_to_num(log.command[:, 1:]), np.nan_to_num(rates), good, *part)
