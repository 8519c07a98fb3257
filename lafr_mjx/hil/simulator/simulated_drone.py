"""The whole software drone but its wire: plant, motion capture, estimator, pilot, bridge.

It runs in cycles of 10 ms. Time is given from outside, so that it flies in real time behind the
wire and on a simulated clock in tests.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from lafr_mjx.hil.simulator.estimator import Estimator
from lafr_mjx.hil.simulator.injected import Injector
from lafr_mjx.hil.simulator.pilot import CYCLE_S, Bridge, Estimate, Pilot, Settings

if TYPE_CHECKING:
    from lafr_mjx.hil.simulator.physics import Moment

_SUBSTEPS = 5
_NO_BATTERY_V = 15.5  # what the pilot's telemetry says for ever without a battery's topic
_HARD_MPS = 2.0  # a touch-down above this breaks something
_UPRIGHT = 0.5


class Plant(Protocol):
    """What the drone needs of the physics."""

    rotor_scale: np.ndarray
    armed: bool  # what the bridge asks of the flight controller

    def step(self, commands: np.ndarray) -> Moment:
        """Go on by 10 ms."""
        ...


class Pose(NamedTuple):
    """A sample of motion capture."""

    stamp: float
    position: np.ndarray
    quaternion: np.ndarray


class Report(NamedTuple):
    """What the vehicle says after a cycle; None where nothing is sent."""

    time: float  # s, of the vehicle's own clock
    state: Estimate | None
    mocap: Pose | None
    bridge: str  # which bridge is active
    armed: bool  # as that bridge says
    guard: bool
    references: int
    voltage: float  # as the telemetry says
    battery: float | None  # V, on the battery's own topic
    command: np.ndarray  # [4] of the pilot's own controller
    rotor_speed: np.ndarray
    truth: np.ndarray  # [13], for tests and logs only


class Drone:
    """One vehicle; `cycle` once for each 10 ms."""

    def __init__(
        self,
        plant: Plant,
        settings: Settings = Settings(),
        command_delay_s: float = 0.02,
        sensing_delay_s: float = 0.01,
        injector: Injector | None = None,
    ) -> None:
        self.plant = plant
        self.pilot = Pilot(settings)
        self.bridge = Bridge()
        self.injector = injector or Injector()
        self.crashed = ""  # why, if it has
        self._command_delay = command_delay_s
        self._sensing_cycles = max(0, round(sensing_delay_s / CYCLE_S))
        self._line: deque[tuple[float, np.ndarray]] = deque()  # commands on their way
        self._in_force = np.zeros(4)
        self._samples: deque[np.ndarray] = deque(maxlen=self._sensing_cycles + 1)
        self._estimator = Estimator(self._sensing_cycles * CYCLE_S)
        self._frozen: np.ndarray | None = None
        self._late: deque[tuple[float, Any, Any]] = deque()
        self._said: deque[tuple[float, Estimate | None]] = deque(maxlen=4)
        self._cycles = 0

    def feedthrough(self, now: float, command: Any) -> None:
        """A command from the wire, stamped on receipt."""
        if not self.injector.on("link-loss", now):
            self.pilot.feedthrough(now, command)

    def call(self, now: float, name: str, value: Any = None) -> None:
        """One of the pilot's other topics."""
        if self.injector.on("link-loss", now):
            return
        pilot = self.pilot
        if name == "enable":
            if not self.crashed:
                pilot.enable(bool(value))
        elif name == "go_to_pose":
            pilot.go_to(value)
        elif name in ("start", "force_hover", "land", "off", "trigger_guard"):
            getattr(pilot, name)()
        else:
            raise ValueError(f"the pilot has no call {name!r}")
        if name == "off" or (name == "enable" and not value):
            self._line.clear()
            self._in_force = np.zeros(4)
            self.bridge.reset()

    def cycle(self, now: float) -> Report:
        """The 10 ms up to now: physics, sensing, pilot."""
        injector = self.injector
        weak = injector.value("motor-weak", now)
        self.plant.rotor_scale[0] = 1.0 if weak is None else weak
        self.plant.armed = self.pilot.armed and not self.bridge.locked
        moment = self.plant.step(self._commands(now))
        self._look_for_crash(moment)
        pose = self._motion_capture(now, moment)
        estimate = self._estimated(moment, pose)
        if injector.on("guard", now):
            self.pilot.trigger_guard()
        command = None
        if not injector.on("pilot-hang", now) and not self.pilot.died:
            command = self.pilot.cycle(now, estimate, None if pose is None else pose.position)
        if command is not None:
            self._send(now, command)
        if self.bridge.locked or self.crashed:
            self.pilot.off()
        self._cycles += 1
        return self._report(now, moment, estimate, pose)

    # ------------------------------------------------------------- commands

    def _send(self, now: float, command: np.ndarray) -> None:
        self.bridge.heard(now)
        self._line.append((now + self._command_delay, np.array(command, float)))

    def _commands(self, now: float) -> np.ndarray:
        """The command in force in each physics step of the last 10 ms."""
        commands = np.zeros((_SUBSTEPS, 4))
        flying = self.pilot.armed and self.bridge.alive(now, self.pilot.armed)
        for k in range(_SUBSTEPS):
            moment = now - CYCLE_S + (k + 0.5) * CYCLE_S / _SUBSTEPS
            while self._line and self._line[0][0] <= moment:
                self._in_force = self._line.popleft()[1]
            if flying:
                commands[k] = self._in_force
        return commands

    def _look_for_crash(self, moment: Moment) -> None:
        if self.crashed:
            return
        if not np.isfinite(moment.truth).all():
            self.crashed = "not finite"
        elif moment.impact > _HARD_MPS:
            self.crashed = f"hit the ground at {moment.impact:.1f} m/s"
        elif moment.impact > 0.1 and moment.impact_upright < _UPRIGHT:
            self.crashed = "hit the ground tilted"

    # ------------------------------------------------------------- sensing

    def _motion_capture(self, now: float, moment: Moment) -> Pose | None:
        self._samples.append(moment.sensed)
        sample = self._samples[0]
        if self.injector.on("mocap-drop", now):
            return None
        if self.injector.on("mocap-freeze", now):
            self._frozen = sample if self._frozen is None else self._frozen
            sample = self._frozen
        else:
            self._frozen = None
        pose = Pose(now - self._sensing_cycles * CYCLE_S, sample[:3].copy(), sample[6:10].copy())
        jump = self.injector.value("mocap-jump", now)
        if jump is not None:
            pose.position[0] += jump
        return pose

    def _estimated(self, moment: Moment, pose: Pose | None) -> Estimate:
        if pose is None:
            return self._estimator.go_on() or _estimate(moment.sensed)
        if self._frozen is not None:
            return self._estimator.stand_still(self._frozen)
        return self._estimator.update(np.concatenate([pose.position, self._samples[0][3:]]))

    # ------------------------------------------------------------- what is said

    def _report(self, now: float, moment: Moment, estimate: Estimate, pose: Pose | None) -> Report:
        injector = self.injector
        state: Estimate | None = estimate
        if injector.on("nan", now):
            state = estimate._replace(position=np.full(3, np.nan))
        offset = injector.value("outside", now)
        if offset is not None:
            state = estimate._replace(position=estimate.position + np.array([0.0, offset, 0.0]))
        tilt = injector.value("tilt", now)
        if tilt is not None:
            half = np.radians(tilt) / 2.0
            state = estimate._replace(quaternion=np.array([np.cos(half), np.sin(half), 0.0, 0.0]))
        silent = injector.on("telemetry-stop", now) or injector.on("link-loss", now)
        if silent or self.bridge.locked or self.pilot.died:
            state = None
        if injector.on("link-loss", now):
            pose = None
        clock = injector.value("clock-jump", now) or 0.0
        latency = injector.value("latency", now)
        stamp = now + clock
        self._said.append((stamp, state))
        if injector.on("reorder", now) and self._cycles % 2 and len(self._said) > 1:
            # By turns the last one again, and one that is older still.
            stamp, state = self._said[-2 if self._cycles % 4 == 1 else 0]
        if latency is not None or self._late:
            self._late.append((now + (latency or 0.0), (stamp, state), pose))
            state, pose = None, None
            while self._late and self._late[0][0] <= now:
                _, (stamp, state), pose = self._late.popleft()
        voltage = injector.value("voltage", now)
        voltage = moment.voltage if voltage is None else voltage
        fed = not injector.on("battery-stop", now)
        pilot = self.pilot
        return Report(
            time=stamp,
            state=state,
            mocap=pose,
            bridge="debug" if pilot.debug else "sbus",
            armed=pilot.armed or pilot.debug,
            guard=pilot.guard,
            references=pilot.references,
            voltage=voltage if fed else _NO_BATTERY_V,
            battery=voltage if fed and not injector.on("link-loss", now) else None,
            command=pilot.own.copy(),
            rotor_speed=moment.rotor_speed,
            truth=moment.truth,
        )


def _estimate(sample: np.ndarray) -> Estimate:
    return Estimate(sample[:3], sample[3:6], sample[6:10], sample[10:13])
