"""`firmware-steps`: step responses of the plant's rate loop beside those of real firmware."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.output import check_writable, print_table, write_json
from lafr_mjx.types import GRAVITY, CommandLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.hil.simulator.flight_controllers import Betaflight
    from lafr_mjx.plant.vehicle import Vehicle

SECONDS = 0.5
"""Of each step, and of the flight before it under the command before."""


class Step(NamedTuple):
    """A step of the command; `column` of it, or 0 for the collective thrust."""

    before: tuple[float, ...]  # m/s², rad/s
    after: tuple[float, ...]
    column: int
    mean: bool = False  # of thrust over the first 0.1 s, instead of rise and overshoot


STEPS = {
    "roll 2 rad/s": Step((GRAVITY, 0, 0, 0), (GRAVITY, 2, 0, 0), 1),
    "roll 6 rad/s": Step((GRAVITY, 0, 0, 0), (GRAVITY, 6, 0, 0), 1),
    "yaw 2 rad/s": Step((GRAVITY, 0, 0, 0), (GRAVITY, 0, 0, 2), 3),
    "yaw 6 rad/s": Step((GRAVITY, 0, 0, 0), (GRAVITY, 0, 0, 6), 3),
    "thrust 9.81 → 20 m/s²": Step((GRAVITY, 0, 0, 0), (20.0, 0, 0, 0), 0),
    "roll 6 rad/s without thrust": Step((0, 0, 0, 0), (0, 6, 0, 0), 1),
    "roll 6 and yaw 6 at 2 m/s²": Step((2, 0, 0, 0), (2, 6, 0, 6), 0, mean=True),
}


class Response(NamedTuple):
    """What followed a step, after each time step."""

    time: np.ndarray  # s since the step; the first is 0
    rates: np.ndarray  # [N, 3] rad/s
    thrust: np.ndarray  # [N] m/s²

    def figures(self, step: Step) -> dict[str, float]:
        """Rise to 63 % [ms] and overshoot [%], or the mean thrust of the first 0.1 s [m/s²]."""
        if step.mean:
            early = self.time <= 0.1 + 1e-9
            mean = np.trapezoid(self.thrust[early], self.time[early]) / 0.1
            return {"mean_thrust_mps2": float(mean)}
        values = self.thrust if step.column == 0 else self.rates[:, step.column - 1]
        low, high = step.before[step.column], step.after[step.column]
        share = (values - low) / (high - low)
        level = 1.0 - math.exp(-1.0)
        first = int(np.argmax(share >= level))
        if first == 0:
            raise RunError(f"a step to {high:g} is never followed")
        part = (level - share[first - 1]) / (share[first] - share[first - 1])
        rise = self.time[first - 1] + part * (self.time[first] - self.time[first - 1])
        return {
            "rise_ms": float(1e3 * rise),
            "overshoot_percent": float(100.0 * max(share.max() - 1.0, 0.0)),
        }


@dataclass
class FirmwareSteps:
    """Step responses of the plant's own rate loop and of Betaflight, on the same body.

    python -m lafr_mjx.hil firmware-steps

    python -m lafr_mjx.hil firmware-steps --vehicle kingfisher --plot steps.png --json steps.json

    An ideal gyroscope, no drag of a moving link, a full battery. Each step begins in hover, or
    under the thrust that it names.
    """

    vehicle: str = "lafr192"
    """A shipped vehicle with gains of Betaflight (lafr192, kingfisher), or path of a profile."""
    firmware: Path | None = None
    """Betaflight's simulator build (SITL) to run; by default that of the package betaflight."""
    plot: Path | None = None
    """Draw the responses into this file (PNG)."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> None:
        """Fly all steps twice and print a table."""
        from lafr_mjx.hil.simulator.flight_controllers import Betaflight, check_flight_controller
        from lafr_mjx.plant.vehicle import load_vehicle

        check_writable(self.json)
        check_writable(self.plot, "--plot")
        if self.plot is not None and self.plot.suffix != ".png":
            raise InputError(f"--plot {self.plot}: must end in .png")
        vehicle = load_vehicle(self.vehicle)
        check_flight_controller("betaflight", vehicle, self.firmware)
        with Betaflight(_reaching(vehicle), self.firmware) as firmware:
            responses = {
                "plant": responses_of(vehicle),
                "betaflight": responses_of(vehicle, firmware),
            }
        figures = {
            name: {who: all_[name].figures(step) for who, all_ in responses.items()}
            for name, step in STEPS.items()
        }
        rows = [
            (name, *(_words(sides[who]) for who in responses)) for name, sides in figures.items()
        ]
        title = f"{vehicle.name}: 63 % rise in ms / overshoot in %, or mean thrust in m/s²"
        print_table(title, ("step", "our rate loop", "Betaflight"), rows)
        write_json(self.json, {"vehicle": vehicle.name, "steps": figures})
        if self.plot is not None:
            _draw(self.plot, vehicle.name, responses)
            print(f"Drawn in {self.plot}")


def responses_of(vehicle: Vehicle, firmware: Betaflight | None = None) -> dict[str, Response]:
    """All steps, under the plant's own rate loop or by real firmware."""
    body = _Body(vehicle, firmware)
    return {name: body.fly(step) for name, step in STEPS.items()}


def _reaching(vehicle: Vehicle) -> Vehicle:
    """With rates that reach all steps, whatever may be commanded in flight."""
    asked = np.max([np.abs(step.after) for step in STEPS.values()], axis=0)
    high = np.maximum(vehicle.limits.high, asked)
    return replace(vehicle, limits=CommandLimits(vehicle.limits.low, high))


class _Body:
    """A vehicle in the air, which may turn over."""

    def __init__(self, vehicle: Vehicle, firmware: Betaflight | None) -> None:
        import jax
        import jax.numpy as jnp
        from jax.flatten_util import ravel_pytree

        from lafr_mjx.plant import simulation
        from lafr_mjx.plant.engine import DEFAULT_TIMESTEP, build_engine
        from lafr_mjx.plant.rate_loop import Ctbr, control_rates
        from lafr_mjx.plant.scenario_params import params_for
        from lafr_mjx.plant.settings import Settings
        from lafr_mjx.plant.vec3 import Vec3, runtime_unit

        self._firmware = firmware
        self.timestep = dt = firmware.timestep if firmware else DEFAULT_TIMESTEP
        engine, params = build_engine(vehicle, "freebody", dt), params_for(vehicle, Settings())
        start = simulation.reset(engine, params, jax.random.key(0))
        # One flat array: calling a program with many is slow.
        parts = (start.physics, start.rotor_speed, start.rate_loop)
        self._start, unravel = ravel_pytree(parts)
        weight = vehicle.rotors.thrust_coefficient / vehicle.mass

        def moved(motion: Any, before: Any, loop: Any, targets: Any) -> tuple[Any, Any]:
            unit = runtime_unit(params.inertial.mass)
            speeds = params.rotors.turn(before, targets, jnp.float32(1.0), dt)
            turned = (before, speeds)
            wrench = simulation.total_wrench(params, start.memories, motion, turned, dt, unit)
            motion = engine.advance(engine.prepare(params.inertial), motion, wrench)
            thrust = weight * sum(speed * speed for speed in speeds)
            q = motion.attitude
            seen = jnp.stack([*motion.rates.array(), q.w, q.x, q.y, q.z, thrust])
            return ravel_pytree((motion, speeds, loop))[0], seen

        @jax.jit
        def move(state: Any, targets: Any) -> tuple[Any, Any]:
            motion, speeds, loop = unravel(state)
            return moved(motion, speeds, loop, tuple(targets))

        @jax.jit
        def own(state: Any, command: Any) -> tuple[Any, Any]:
            motion, speeds, loop = unravel(state)
            wanted = Ctbr(command[0], Vec3.of(command[1:]))
            loop, targets, _ = control_rates(params.controller, loop, wanted, motion.rates, dt)
            return moved(motion, speeds, loop, targets)

        self._move: Callable = move
        self._own: Callable = own

    def fly(self, step: Step) -> Response:
        """From rest in hover: under the command before for a while, then the step."""
        count = round(SECONDS / self.timestep)
        seen = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, GRAVITY]
        firmware, state, rows = self._firmware, self._start, []
        if firmware is not None:  # as new, with its motors on
            firmware.restart()
            for _ in range(count):
                firmware.turn(seen[:3], seen[3:7], (0.0,) * 4, True)
        for command in (step.before, step.after):
            rows = [seen]
            for _ in range(count):
                if firmware is None:
                    state, out = self._own(state, np.array(command, np.float32))
                else:
                    targets = firmware.turn(seen[:3], seen[3:7], command, True)
                    state, out = self._move(state, targets.astype(np.float32))
                seen = np.asarray(out).tolist()
                rows.append(seen)
        table = np.array(rows)
        return Response(self.timestep * np.arange(count + 1), table[:, :3], table[:, 7])


def _words(figures: dict[str, float]) -> str:
    if "mean_thrust_mps2" in figures:
        return f"{figures['mean_thrust_mps2']:.1f} m/s²"
    return f"{figures['rise_ms']:.0f} / {figures['overshoot_percent']:.0f}"


def _draw(path: Path, vehicle: str, responses: dict[str, dict[str, Response]]) -> None:
    from lafr_mjx.view.drawing import BLUE, GREY, ORANGE, drawn_figure

    colours = {"plant": (BLUE, "our rate loop"), "betaflight": (ORANGE, "Betaflight")}
    with drawn_figure(path, (9.0, 4.6)) as (figure, _):
        axes = figure.subplots(2, 4, sharex=True).ravel()
        for axis, (name, step) in zip(axes, STEPS.items(), strict=False):
            for who, (colour, label) in colours.items():
                response = responses[who][name]
                values = response.thrust if step.column == 0 else response.rates[:, step.column - 1]
                axis.plot(1e3 * response.time, values, color=colour, label=label, lw=1.2)
            axis.axhline(step.after[step.column], color=GREY, lw=0.8, ls="--")
            axis.set_title(name, fontsize=8.5)
            axis.set_ylabel("thrust [m/s²]" if step.column == 0 else "rate [rad/s]")
            axis.set_xlim(0.0, 250.0)
        for axis in axes[3:7]:
            axis.set_xlabel("time [ms]")
            axis.tick_params(labelbottom=True)
        axes[-1].axis("off")
        axes[-1].legend(*axes[0].get_legend_handles_labels(), loc="center")
        figure.suptitle(f"Steps of the command: {vehicle}", x=0.01, ha="left")
