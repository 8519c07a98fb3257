"""Position, velocity and attitude: fit all models, test them open-loop, learning curves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import compile_timer
from lafr_mjx.fitting.fit_job import HORIZONS, QUANTITIES
from lafr_mjx.learner import methods
from lafr_mjx.model import (
    body,
    body_fit,
    fit_residual,
    identify,
    lag,
    open_loop,
    residual,
    selection,
    steps,
)
from lafr_mjx.model.residual import NO_LAG, Switches
from lafr_mjx.model.selection import Part
from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from lafr_mjx.fitting.fit_job import Job, Result, Split
    from lafr_mjx.fitting.fit_report import Console
    from lafr_mjx.logs.flight_log import FlightLog
    from lafr_mjx.model.data import Transitions
    from lafr_mjx.model.steps import Recording, Windows
    from lafr_mjx.plant.vehicle import Vehicle as VehicleProfile

STEPS = max(HORIZONS.values())
_CURVE_S = (2.0, 5.0, 10.0, 20.0, 40.0, 80.0)
_QUANTUM = 4096  # rows
_BLOCK_S = 1.0  # rows are resampled by the second: neighbours are alike

ONLINE = {"online": "default", "online_body": "body", "paper": "paper"}
"""Models of the online learner, and the inputs of their residuals."""

Model = tuple[Any, Any]
"""A step function of `open_loop` and its parameters."""


def record_of(log: FlightLog) -> Recording:
    """A log as the model takes it."""
    assert log.position is not None and log.velocity is not None and log.rotation is not None
    return steps.recording(log.position, log.velocity, log.rotation, log.command, log.usable)


def switches_for(commanded: bool, features: str = "default") -> Switches:
    """The online learner's switches for its inputs; measured inputs act at once."""
    given = methods.settings_of("ours", features).switches
    if not commanded:
        given = given._replace(learned_lag=(0.0, 0.0, 0.0), fixed_lag=NO_LAG)
    return jax.tree.map(jnp.float32, given)


def fit_online(
    rows: Transitions,
    commanded: bool,
    features: str,
    seed: int,
    counts: np.ndarray | None = None,
    start: Any = None,
) -> Model:
    """The online learner's residual, fitted as it does after a flight; goes on from `start`."""
    switches = switches_for(commanded, features)
    counts = np.ones(len(rows.usable), int) if counts is None else counts
    given = start
    if given is None:
        given = residual.create(np.random.default_rng([seed, 10]), features)
    drawn = np.repeat(np.arange(len(counts)), counts * np.asarray(rows.usable))
    # Repeated to one of few lengths, so that compiled programs are found again.
    index = np.resize(drawn, -(-len(drawn) // _QUANTUM) * _QUANTUM)
    weighted = jax.tree.map(lambda leaf: np.asarray(leaf)[index], rows)
    settings = jax.tree.map(jnp.float32, fit_residual.FitSettings())
    fitted, _ = fit_residual.fit(
        jax.tree.map(jnp.asarray, given), switches, settings,
        jax.tree.map(jnp.asarray, weighted), jax.random.key(seed),
    )  # fmt: skip
    return open_loop.online_step, (fitted, switches)


def lag_for(rows: Transitions, commanded: bool) -> np.ndarray:
    """How commands act: learned from the rows, or at once if they were measured."""
    return lag.estimate(rows) if commanded else NO_LAG


def work(job: Job, splits: list[Split], result: Result, show: Console) -> None:
    """Everything about position, velocity and attitude."""
    commanded = splits[0].log.commanded
    records = [record_of(s.log) for s in splits]
    pairs = list(zip(splits, records, strict=True))
    parts = [Part(r, *s.train) for s, r in pairs if s.train]
    test = steps.join([steps.windows(r, *s.test, STEPS) for s, r in pairs if s.test])
    if len(test.index) < 5:
        from lafr_mjx.errors import InputError

        names = ", ".join(str(s.log.raw.path) for s in splits if s.test)
        raise InputError(
            f"{names}: {len(test.index)} windows of 0.5 s without gaps to test on; 5 are needed"
        )
    begun = time.monotonic()
    with compile_timer.CompileTimer() as timer:
        models = _fit_all(job, parts, commanded, result, show)
    result.figures["fit_s"] = time.monotonic() - begun - timer.seconds
    result.figures["fit_compile_s"] = timer.seconds
    show.note(
        f"{result.figures['train_s']:.0f} s of log: features chosen and {job.seeds + 1} times 4 "
        f"models fitted in {result.figures['fit_s']:.1f} s, without {timer.seconds:.1f} s of "
        "compiling"
    )
    with show.busy("testing ..."):
        for name, several in models.items():
            _test(name, several, test, result)
    result.figures["windows"] = len(test.index)
    show.errors(result)
    with show.busy("learning curve ..."):
        _learning_curve(parts, commanded, test, result)
    show.curve(result)
    if job.online:
        from lafr_mjx.fitting import online_replay

        online_replay.replay(job, pairs, result, show)
    with show.busy("estimating delay, mass and drag ..."):
        estimate(job, splits, result)
    show.estimates(result)
    _for_plots(models, splits, records, test, result)


def _fit_all(
    job: Job, parts: list[Part], commanded: bool, result: Result, show: Console
) -> dict[str, list[Model]]:
    """Every model: first the one of all training rows, then one for each resampling."""
    rows = selection.rows_of(parts)
    weights = lag_for(rows, commanded)
    with show.busy("choosing features by cross-validation ..."):
        choice = selection.choose(parts, weights, seed=job.seed)
    result.choice = choice
    result.figures |= {
        "rates_features": choice.rates.name,
        "rates_feature_ridge": choice.rates.ridge,
        "acceleration_features": choice.acceleration.name,
        "acceleration_ridge": choice.acceleration.ridge,
        "network_on_top": choice.network,
        "lag_weights": weights.tolist() if commanded else None,
    }
    show.choice(choice)
    given = body_fit.design(rows, weights)
    counts = [_resampled(len(rows.usable), job.seed, i) for i in range(job.seeds + 1)]
    models: dict[str, list[Model]] = {
        "nominal": [(open_loop.body_step, body.create(np.random.default_rng(0)))],
        "scale_bias": [(open_loop.body_step, selection.fit_scale_bias(rows, NO_LAG))],
        "hybrid": [], **{name: [] for name in ONLINE},
    }  # fmt: skip
    for i, count in enumerate(counts):
        with show.busy(f"fitting ({i + 1} of {len(counts)}) ..."):
            seed = job.seed + i
            fitted = selection.fit_choice(choice, rows, weights, seed, count, given)
            models["hybrid"].append((open_loop.body_step, fitted))
            for name, features in ONLINE.items():
                models[name].append(fit_online(rows, commanded, features, seed, count))
    result.hybrid = models["hybrid"][0][1]
    return models


def _resampled(count: int, seed: int, number: int) -> np.ndarray:
    """How often each row counts: once at first, then seconds drawn with replacement."""
    if number == 0:
        return np.ones(count, int)
    block = round(_BLOCK_S / SAMPLE_DT)
    blocks = -(-count // block)
    drawn = np.random.default_rng([seed, number]).integers(0, blocks, blocks)
    times = np.bincount(drawn, minlength=blocks)
    return np.repeat(times, block)[:count]


def _test(name: str, several: list[Model], test: Windows, result: Result) -> None:
    found = [open_loop.errors(step, parameters, test) for step, parameters in several]
    result.errors[name] = found[0]
    for horizon, count in HORIZONS.items():
        table = np.stack([errors[count - 1] for errors in found])
        for i, quantity in enumerate(QUANTITIES):
            result.figures[f"{name}_{horizon}_{quantity}"] = float(table[0, i])
            if len(table) > 2:
                spread = float(np.std(table[1:, i], ddof=1))
                result.figures[f"{name}_{horizon}_{quantity}_spread"] = spread


def _learning_curve(parts: list[Part], commanded: bool, test: Windows, result: Result) -> None:
    """Test errors of models that saw only the first seconds of the training part."""
    total = sum(p.stop - p.start for p in parts) * SAMPLE_DT
    result.curve = {"hybrid": [], "online": [], "online_body": []}
    for seconds in (*(s for s in _CURVE_S if s < 0.9 * total), total):
        some = _first(parts, seconds)
        rows = selection.rows_of(some)
        if rows.usable.sum() < 100:
            continue
        weights = lag_for(rows, commanded)
        if seconds == total:
            found = {name: result.errors[name] for name in result.curve}
        else:
            choice = selection.choose(some, weights, network=False)
            fitted = selection.fit_choice(choice, rows, weights, 0)
            found = {"hybrid": open_loop.errors(open_loop.body_step, fitted, test)}
            for name in ("online", "online_body"):
                model = fit_online(rows, commanded, ONLINE[name], 0)
                found[name] = open_loop.errors(*model, test)
        for name, errors in found.items():
            result.curve[name].append((seconds, errors[-1].tolist()))
    result.figures["learning_curve"] = result.curve


def _first(parts: list[Part], seconds: float) -> list[Part]:
    left = round(seconds / SAMPLE_DT)
    some = []
    for part in parts:
        size = min(part.stop - part.start, left)
        if size > 4 * steps.STRIDE:
            some.append(Part(part.record, part.start, part.start + size))
            left -= size
    return some


def identified(logs: list[FlightLog], vehicle: VehicleProfile) -> identify.Identified | None:
    """Delay, mass offset and drag, relative to a vehicle's profile."""
    thrust = logs[0].raw.thrust
    commanded = thrust is not None and thrust.held
    known = identify.Vehicle(
        mass=logs[0].raw.mass or vehicle.mass,
        motor_lag=vehicle.rotors.time_constant if commanded else 0.0,
        rotor_drag=np.asarray(vehicle.drag.rotor, float),
        body_drag=float(vehicle.drag.body),
    )
    return identify.identify([flight_of(log) for log in logs], known, search_delay=commanded)


def estimate(job: Job, splits: list[Split], result: Result) -> None:
    """Delay, mass offset and drag from all that the logs hold; no test depends on it."""
    found = identified([s.log for s in splits], job.vehicle)
    result.identified = found
    if found is None:
        return
    metrics = {
        "delay_ms": None if found.delay_s is None else found.delay_s.scaled(1e3),
        "mass_scale": found.mass_scale,
        "mass_offset_kg": found.mass_offset_kg,
        "drag_scale": found.drag_scale,
        **{f"drag_{axis}_per_s": e for axis, e in zip("xyz", found.drag_per_s, strict=True)},
        **{f"wind_{axis}_mps": e for axis, e in zip("xy", found.wind_mps, strict=True)},
    }
    for name, value in metrics.items():
        result.figures[name] = None if value is None else value.value
        result.figures[f"{name}_interval"] = None if value is None else [value.low, value.high]
    result.figures["nominal_mass_kg"] = splits[0].log.raw.mass or job.vehicle.mass


def flight_of(log: FlightLog) -> identify.Flight:
    """A log as the estimator takes it."""
    thrust = log.raw.thrust
    assert thrust is not None and log.velocity is not None and log.rotation is not None
    good = np.isfinite(thrust.values[:, 0])
    usable = log.usable & np.isfinite(log.velocity).all(-1)
    return identify.Flight(
        time=log.start + log.time,
        velocity=np.where(usable[:, None], log.velocity, 0.0),
        rotation=log.rotation,
        usable=usable,
        thrust_time=thrust.time[good],
        thrust=thrust.values[good, 0],
        held=thrust.held,
    )


def _for_plots(
    models: dict[str, list[Model]],
    splits: list[Split],
    records: list[Recording],
    test: Windows,
    result: Result,
) -> None:
    """A stretch of predictions beside what was measured, and residuals against speed."""
    number = next(i for i, s in enumerate(splits) if s.test)
    start, stop = splits[number].test or (0, 0)
    stop = min(stop, start + round(10.0 / SAMPLE_DT))
    stretch = steps.windows(records[number], start, stop, STEPS, every=2)
    if len(stretch.index):
        result.predicted = {
            "time": splits[number].log.time[stretch.index] + STEPS * 0.02,
            "measured": jax.tree.map(lambda leaf: leaf[:, -1], stretch.truth),
            **{
                name: open_loop.predict(*models[name][0], stretch) for name in ("nominal", "hybrid")
            },
        }
    result.residual = {
        "speed": np.linalg.norm(test.start.velocity, axis=-1),
        **{
            name: np.sqrt(open_loop.squares(*models[name][0], test)[1, 4])
            for name in ("nominal", "hybrid")
        },
    }
