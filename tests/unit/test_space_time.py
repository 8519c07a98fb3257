"""Plans of path and timing: against CasADi's optimum, their limits, and what the model says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from needs import require_module

from lafr_mjx import batching
from lafr_mjx.errors import InputError
from lafr_mjx.learner import methods, references
from lafr_mjx.learner import time_optimal_plan as plans
from lafr_mjx.learner.corridor import Corridor
from lafr_mjx.learner.improve import LearnerSettings
from lafr_mjx.learner.reference_fixed import Fixed
from lafr_mjx.learner.reference_space_time import SpaceTime
from lafr_mjx.learner.time_scaling import LastFlight, Pace
from lafr_mjx.model import residual
from lafr_mjx.model.residual import ACCELERATION_SCALE, Switches
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import derivatives, lap_s
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.tasks import load_task

VEHICLE = load_vehicle("lafr192")
NO_FORCE = jnp.zeros((plans.SAMPLES, 3))
TASKS = ("figure8", "shuttle", "dash", "inspection")


def limits(radius: float, share: float = 1.0) -> plans.Limits:
    high = jnp.asarray(VEHICLE.limits.high, jnp.float32)
    return plans.Limits(share * high[0], share * high[1:], jnp.full(256, radius))


@pytest.fixture(scope="module")
def fastest() -> Any:
    """The planner, compiled once for all tasks."""
    program = jax.jit(plans.fastest)

    def plan(name: str, radius: float = 0.2, share: float = 1.0, force: Any = NO_FORCE) -> Any:
        return program(batching.single(load_task(name).path), limits(radius, share), force)

    plan.program = program  # type: ignore[attr-defined]
    return plan


def motion(plan: Any, count: int = 1000) -> Any:
    """Reference at the plan's own pace, much finer than it was planned."""
    phases = lap_s(plan.path) * jnp.linspace(0.0, 1.0, count)
    return reference_state(plan.path, phases, jnp.full(count, lap_s(plan.path) / plan.seconds))


@pytest.mark.parametrize(("name", "radius"), [("figure8", 0.2), ("figure8", 0.05), ("dash", 0.2)])
def test_a_plan_is_as_fast_as_the_bound_and_never_faster(fastest, name, radius):
    require_module("casadi", "bounds")
    from lafr_mjx.time_optimal import ideal_vehicle, task_bounds, uniform_scaling
    from lafr_mjx.time_optimal.geometry import Tube

    task, ideal = load_task(name), ideal_vehicle.ideal_vehicle(VEHICLE)
    slow = 1.5 * uniform_scaling.uniform_ceiling(task.path, ideal)
    exact = task_bounds.exact_bound(task.path, ideal, "ctbr", 160, slow, 0.0)
    bound = task_bounds.free_bound(task.path, Tube(radius), ideal, "ctbr", 60, exact, 0.0)
    planned = float(fastest(name, radius).seconds)
    # Both are on grids: what lies between their points is worth a few tenths of a percent.
    assert 0.997 * bound.seconds < planned < 1.02 * bound.seconds


@pytest.mark.parametrize("name", TASKS)
def test_a_plan_keeps_the_vehicles_limits_between_its_samples(fastest, name):
    plan, task = fastest(name, 0.2, SpaceTime().share), load_task(name)
    flown = motion(plan)
    assert bool(plan.feasible)
    assert float(jnp.max(flown.thrust)) < VEHICLE.limits.high[0]
    assert float(jnp.max(jnp.abs(flown.rates))) < VEHICLE.limits.high[1]
    assert task.distance(np.asarray(flown.position)).max() < 0.202
    assert float(jnp.min(flown.position[:, 2])) > 0.3
    # It begins where laps are counted, or where the vehicle rests.
    ahead = (np.asarray(flown.position[0]) - task.start_position) @ task.start_normal
    assert abs(ahead) < 0.01
    if not task.periodic:
        np.testing.assert_allclose(flown.position[-1], task.goal_position, atol=1e-3)


def test_one_program_plans_every_task_also_side_by_side(fastest):
    alone = [fastest(name) for name in TASKS]
    assert fastest.program._cache_size() == 1
    paths = jax.tree.map(
        lambda *leaves: jnp.stack(leaves),
        *[batching.single(load_task(name).path) for name in TASKS],
    )
    together = jax.vmap(plans.fastest, in_axes=(0, None, None))(paths, limits(0.2), NO_FORCE)
    np.testing.assert_allclose(together.seconds, [p.seconds for p in alone], rtol=2e-3)


def test_what_acts_on_the_vehicle_is_planned_with(fastest):
    calm = fastest("figure8")
    down = fastest("figure8", force=jnp.tile(jnp.array([0.0, 0.0, -4.0]), (plans.SAMPLES, 1)))
    assert down.seconds > 1.02 * calm.seconds
    impossible = fastest(
        "figure8", force=jnp.tile(jnp.array([0.0, 0.0, -20.0]), (plans.SAMPLES, 1))
    )
    assert not bool(impossible.feasible)


def test_the_duration_can_be_differentiated(fastest):
    path = batching.single(load_task("figure8").path)

    @jax.jit
    def seconds(thrust: jax.Array) -> jax.Array:
        return plans.fastest(path, limits(0.2)._replace(thrust=thrust), NO_FORCE).seconds

    slope = jax.jit(jax.jacfwd(seconds))(jnp.float32(20.0))
    difference = float(seconds(jnp.float32(21.0)) - seconds(jnp.float32(19.0))) / 2.0
    assert difference < -0.02
    assert float(slope) == pytest.approx(difference, rel=0.05)


def known(planner: Any, name: str = "figure8", push: Any = (0.0, 0.0, 0.0)) -> references.Known:
    """After a flight at time scale 0.3, with a model that knows of a constant push."""
    task = load_task(name)

    class Push:
        def __call__(self, state: Any, effective: Any, commands: Any, switches: Any) -> Any:
            away = jnp.broadcast_to(jnp.array(push) / ACCELERATION_SCALE, state.position.shape)
            return away, jnp.zeros_like(state.position)

    jax.tree_util.register_static(Push)
    return references.Known(
        task=batching.single(task.path),
        room=jnp.asarray(task.room(), jnp.float32),
        flown=batching.single(planner.start(task.path)),
        last=LastFlight(Pace(0.3, 0.1, 0.1), 0.1, 0.35, 1.0, 2.0),
        ensemble=residual.Residual(Push(), jnp.zeros((2, 3, residual.COMMANDS))),
        switches=Switches(),
        limits=VEHICLE.limits,
    )


@pytest.mark.parametrize("name", TASKS)
def test_the_first_reference_is_the_tasks_path(name):
    task = load_task(name)
    phases = np.linspace(0.0, task.lap_s, 777)
    wanted = np.asarray(derivatives(task.path, phases))[:, :2]
    first = SpaceTime().start(task.path)
    np.testing.assert_allclose(np.asarray(derivatives(first, phases))[:, :2], wanted, atol=0.02)
    plan, path = batching.single((first, task.path))
    corridor = Corridor.around(plan, path, task.room(), 0.35)
    assert float(jnp.max(corridor.beside.deviation)) < 2e-3
    assert Fixed().start(task.path) is task.path


def test_a_plan_stays_in_the_room_of_the_task():
    planner, task = SpaceTime(), load_task("inspection")
    path, _ = jax.jit(partial(references.planned, planner))(known(planner, "inspection"))
    assert float(lap_s(path)) == pytest.approx(task.lap_s, rel=1e-6)
    positions = np.asarray(derivatives(path, np.linspace(0.0, task.lap_s, 2000)))[:, 0, :3]
    widest = task.room().max() - float(planner.tracking)
    assert task.distance(positions).max() <= widest + 2e-3
    for landmark in task.landmarks:
        nearest = np.linalg.norm(positions - landmark, axis=1).min()
        assert nearest < task.landmark_radius_m - float(planner.tracking) + 0.02


def test_the_last_reference_is_kept_where_nothing_can_be_flown():
    planner = SpaceTime()
    plan = jax.jit(partial(references.planned, planner))
    heavy, light = known(planner, push=(0.0, 0.0, -8.0)), known(planner)
    tight = heavy._replace(limits=VEHICLE.limits._replace(high=np.array([16.0, 6, 6, 6])))
    np.testing.assert_array_equal(plan(tight).path.coefficients, tight.flown.coefficients)
    assert not np.allclose(plan(light).path.coefficients, light.flown.coefficients, atol=0.05)


class Scaled(NamedTuple):
    """The task's path, larger or smaller."""

    size: Any

    def start(self, task: Any) -> Any:
        return task

    def plan(self, known: Any) -> Any:
        return known.task._replace(coefficients=self.size * known.task.coefficients)


@pytest.mark.parametrize(("size", "refused"), [(1.0, 0), (1.02, 0), (1.5, 2), (np.nan, 1)])
def test_a_plan_that_leaves_the_room_or_is_not_finite_is_not_flown(size, refused):
    asked = known(Scaled(size))
    path, why = references.planned(Scaled(size), asked)
    assert int(why) == refused
    wanted = asked.flown.coefficients * (1.0 if refused else size)
    np.testing.assert_allclose(path.coefficients, wanted, rtol=1e-6)


def test_settings_are_leaves():
    one = LearnerSettings(reference=SpaceTime(corridor=0.1))
    assert len(jax.tree.leaves(one)) == len(jax.tree.leaves(LearnerSettings())) + 3


@pytest.mark.parametrize("name", TASKS)
def test_the_usual_settings_suit_the_shipped_tasks(name):
    SpaceTime().check(load_task(name))


def test_the_corridor_is_an_option_of_a_run():
    spec = RunSpec(reference="space-time", corridor=0.1)
    assert methods.settings_for(spec).reference == SpaceTime(corridor=0.1)
    assert methods.settings_for(RunSpec(reference="space-time")).reference == SpaceTime()
    with pytest.raises(InputError, match=r"--corridor 0.1: the reference 'fixed' has none"):
        methods.settings_for(RunSpec(reference="fixed", corridor=0.1))
    with pytest.raises(InputError, match=r"--corridor -1.0: must be a number of 0 or more"):
        RunSpec(corridor=-1.0).check()
    with pytest.raises(InputError, match=r"corridor = 0.5: .* at most 0.2 on the task 'figure8'"):
        SpaceTime(corridor=0.5).check(load_task("figure8"))


def test_the_usual_settings_suit_a_narrow_task():
    narrow = replace(load_task("figure8"), error_threshold_m=0.1)
    SpaceTime().check(narrow)
    with pytest.raises(InputError, match=r"corridor = 0.05: .* at most 0.02 on the task"):
        SpaceTime(corridor=0.05).check(narrow)


def test_no_corridor_is_the_tasks_path():
    planner = SpaceTime(corridor=0.0)
    there = known(planner)
    plan = jax.jit(partial(references.planned, planner))(there)
    np.testing.assert_array_equal(plan.path.coefficients, there.flown.coefficients)


def test_a_plan_through_gates_does_not_turn_over():
    task, planner = load_task("race"), SpaceTime()
    plan = jax.jit(partial(references.planned, planner))(known(planner, "race"))
    assert not bool(plan.refused)
    fast = jax.jit(plans.fastest)
    free = plans.Limits(VEHICLE.limits.high[0], VEHICLE.limits.high[1:], task.room())
    motion = fast(batching.single(task.path), batching.single(free), NO_FORCE)
    # The bound through the gates is 2.69 s: with room beside them only, and free to turn over.
    assert 2.69 < float(motion.seconds) < 1.1 * 2.69
    phases = np.linspace(0.0, task.lap_s, 3000)
    rate = np.full_like(phases, task.lap_s / float(motion.seconds))
    asked = reference_state(jax.device_get(motion.path), phases, rate)
    assert np.min(asked.rotation[..., 2, 2]) > np.cos(np.radians(90.0))
    positions = np.asarray(asked.position)
    for gate in task.gates:
        along = (positions - gate.position) @ gate.normal
        crossed = np.flatnonzero((along[:-1] < 0.0) & (along[1:] >= 0.0))
        away = np.linalg.norm(positions[crossed] - gate.position, axis=1)
        assert away.min() < gate.radius
