"""A flight as it happens, tick by tick, with wind and time scale in the user's hands."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import compilation_cache, so3
from lafr_mjx.adaptation.first_policy import stored_policy
from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.output import check_range
from lafr_mjx.plant import flight, simulation
from lafr_mjx.plant.engine import EngineName, build_engine
from lafr_mjx.plant.plant import Plant
from lafr_mjx.plant.plugins import SteadyWind
from lafr_mjx.plant.scenario import Scenario, load_scenario
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.vec3 import Vec3
from lafr_mjx.plant.vehicle import Vehicle, load_vehicle
from lafr_mjx.reference.path import derivatives
from lafr_mjx.tasks import Task, load_task
from lafr_mjx.types import CONTROL_DT
from lafr_mjx.view.course_shapes import gate_states
from lafr_mjx.view.player import BACKSPACE, DOWN, EIGHT, ENTER, SEVEN, SIX, SPACE, UP
from lafr_mjx.view.replay import Replay, replay_of
from lafr_mjx.view.shown_flight import SPIN_SHOWN, Moment

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.types import Rollout

LIVE_KEYS = (
    ("Space", "pause"),
    ("Down, Up", "slower, faster"),
    ("6, 7", "less wind, more wind"),
    ("8", "turn the wind"),
    ("Backspace", "from the start"),
    ("Enter", "follow or free camera"),
)

SCALES = (0.1, 4.0)  # smallest and largest time scale that the keys reach
MAX_WIND = 15.0  # m/s
_STEP = 0.93  # of the time scale, per key
_RESTART_S = 2.0  # after a crash or at the goal
_KEPT_S = 10.0  # of the trail


class LiveSetup(NamedTuple):
    """What flies, where, and how; made by `load_live`."""

    task: Task
    scenario: Scenario
    vehicle: Vehicle
    controller: Any
    title: str  # what steers
    time_scale: float
    engine: EngineName
    seed: int

    def fly(self) -> Replay:
        """One whole flight at once, to be shown afterwards."""
        plant = Plant(self.vehicle, self.scenario, fans=self.task.fans, engine=self.engine)
        clock, seconds = self.task.start_clock(self.time_scale), self.task.flight_s(self.time_scale)
        run = plant.start(self.seed)
        _, rollout = plant.fly(run, self.controller, self.task.path, clock, seconds)
        rollout = jax.device_get(rollout)
        return replay_of(rollout, self.task, self.vehicle, self.scenario, self.title)


def load_live(
    task: str,
    scenario: str | None,
    vehicle: str,
    policy: Path | None,
    time_scale: float | None,
    engine: EngineName,
    seed: int,
) -> LiveSetup:
    """Load and check what a live flight is made of."""
    loaded = load_vehicle(vehicle)
    flown = load_task(task, loaded.limits)
    weather = load_scenario(scenario or flown.scenario).drawn(seed)
    scale = flown.start_time_scale if time_scale is None else time_scale
    check_range("time-scale", scale, *SCALES)
    if policy is None:
        controller, title = geometric_controller(loaded.limits), "geometric controller"
    else:
        controller, title = stored_policy(str(policy), loaded.limits), policy.name
    return LiveSetup(flown, weather, loaded, controller, title, scale, engine, seed)


def _quaternion(rotation: Any) -> np.ndarray:
    return np.asarray(so3.matrix_to_quaternion(np.asarray(rotation, float)))


_tick = jax.jit(flight.fly_tick, static_argnames=("engine",))


class LiveFlight:
    """Flies in steps of 20 ms; keys change wind and time scale."""

    def __init__(self, setup: LiveSetup) -> None:
        compilation_cache.enable()
        self.setup = setup
        self.paused = self.follow = False
        self.time_scale = setup.time_scale
        settings = setup.scenario.settings
        self.wind = np.asarray(settings.wind_mps, float)
        self._fan_scale = settings.fan_scale
        self._engine = build_engine(setup.vehicle, setup.engine)
        self._params = params_for(setup.vehicle, settings, setup.task.fans)
        self.planned = None
        self._path = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), setup.task.path)
        self._controller = jax.tree.map(jnp.asarray, setup.controller)
        self._flights = 0
        self._trail: deque[tuple[float, np.ndarray, float]] = deque()
        self.restart()

    @property
    def crash(self) -> str:
        """Why it does not fly any more; empty while it flies."""
        code = int(self._seen.diagnostics.crash)
        return "" if code == simulation.FLYING else simulation.CRASH_NAMES[code]

    def restart(self) -> None:
        """In hover at the start of the path, with other noise than before."""
        key = jax.random.fold_in(jax.random.key(self.setup.seed), self._flights)
        self._flights += 1
        start = derivatives(self._path, jnp.float32(0.0))[0, :3]
        clock = jax.tree.map(
            lambda x: jnp.asarray(x, jnp.float32), self.setup.task.start_clock(self.time_scale)
        )
        state = simulation.reset(self._engine, self._params, key, start)
        memory = jax.tree.map(jnp.asarray, self._controller.start())
        self._now = flight.Now(state, memory, clock)
        self._trail.clear()
        self._blades = np.zeros(4)
        self._ended_at: float | None = None
        self.time = 0.0
        self._seen = jax.device_get(self._advance(still=True))

    def tick(self) -> None:
        """Let 20 ms pass."""
        if self.paused:
            return
        self._seen = jax.device_get(self._advance(still=False))
        self.time += CONTROL_DT
        turned = np.asarray(self.setup.vehicle.rotors.spin) * self._seen.diagnostics.rotor_speed
        self._blades = self._blades - SPIN_SHOWN * CONTROL_DT * turned
        speed = float(np.linalg.norm(self._seen.truth.velocity))
        self._trail.append((self.time, np.asarray(self._seen.truth.position, float), speed))
        while self._trail and self._trail[0][0] < self.time - _KEPT_S:
            self._trail.popleft()
        task = self.setup.task
        arrived = not task.periodic and float(self._seen.phase) >= task.lap_s
        if self._ended_at is None and (self.crash or arrived):
            self._ended_at = self.time
        if self._ended_at is not None and self.time > self._ended_at + _RESTART_S:
            self.restart()

    def moment(self) -> Moment:
        """What is shown now."""
        true, asked = self._seen.truth, self._seen.reference
        position = np.asarray(true.position, float)
        wanted = np.asarray(asked.position, float)
        return Moment(
            time=self.time,
            position=position,
            quaternion=_quaternion(true.rotation),
            reference_position=wanted,
            reference_quaternion=_quaternion(asked.rotation),
            speed=float(np.linalg.norm(true.velocity)),
            error=float(np.linalg.norm(position - wanted)),
            time_scale=self.time_scale,
            lap=float(self._seen.phase) / self.setup.task.lap_s,
            blade_angle=self._blades,
            wind=self.wind,
            fan_scale=self._fan_scale,
            gates=gate_states(self.setup.task.gates, self.trail(self.time, _KEPT_S)[0])[-1],
            event="crash" if self.crash else "",
        )

    def trail(self, time: float, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """Points [N, 3] and speeds [N] of the last seconds."""
        kept = [(p, v) for t, p, v in self._trail if t > time - seconds]
        if not kept:
            return np.asarray(self._seen.truth.position, float)[None], np.zeros(1)
        points, speeds = zip(*kept, strict=True)
        return np.stack(points), np.array(speeds)

    def on_key(self, key: int) -> None:
        """Do what a key asks for; other keys do nothing."""
        if key == SPACE:
            self.paused = not self.paused
        elif key in (UP, DOWN):
            factor = _STEP if key == UP else 1.0 / _STEP
            self.time_scale = float(np.clip(self.time_scale * factor, *SCALES))
        elif key in (SIX, SEVEN):
            strength = float(np.linalg.norm(self.wind))
            heading = self.wind / strength if strength > 1e-6 else np.array([1.0, 0.0, 0.0])
            strength = float(np.clip(strength + (1.0 if key == SEVEN else -1.0), 0.0, MAX_WIND))
            # A breath remains, so that the direction is not forgotten.
            self.wind = max(strength, 1e-3) * heading
        elif key == EIGHT:
            self.wind = np.asarray(so3.exp(np.array([0.0, 0.0, np.radians(30.0)]))) @ self.wind
        elif key == BACKSPACE:
            self.restart()
        elif key == ENTER:
            self.follow = not self.follow

    def _advance(self, *, still: bool) -> Rollout:
        wind = SteadyWind(Vec3(*(jnp.float32(x) for x in self.wind)))
        params = self._params.replace(plugins={**self._params.plugins, "wind": wind})
        now, seen = _tick(
            self._engine, params, self._now, self._controller, self._path,
            jnp.float32(self.time_scale), self._now.clock.elapsed,
        )  # fmt: skip
        if not still:
            self._now = now
        return seen
