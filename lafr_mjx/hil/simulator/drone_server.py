"""The software drone: 100 cycles a second, of its clock, behind the topics of `agiros`.

Its clock is the real one, or it keeps a time in lockstep with who commands it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import lafr_mjx.hil.wire.ros_messages as m
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.simulator.drone_node import DroneNode
from lafr_mjx.hil.simulator.injected import parse
from lafr_mjx.hil.simulator.pilot import CYCLE_S
from lafr_mjx.hil.simulator.time_keeper import RealTime, TimeKeeper

if TYPE_CHECKING:
    from lafr_mjx.hil.simulator.pilot import Estimate
    from lafr_mjx.hil.simulator.simulated_drone import Drone, Report

_CALLS = ("start", "land", "off", "force_hover", "trigger_guard")
_BATTERY_CYCLES = 10
_ORPHAN_S = 60.0  # a drone whose starter has gone stays so long: it may still have to be landed
_MOST_BEHIND = 50  # cycles; after a longer stall the vehicle does not catch up


class Server:
    """Ties a drone to its topics."""

    def __init__(
        self,
        drone: Drone,
        quad: str,
        master: str,
        host: str,
        clock: RealTime | TimeKeeper,
        parent: int = 0,
    ) -> None:
        self.drone = drone
        self._parent = parent or os.getppid()
        self._world = clock
        self.late_cycles = 0
        self._quad = quad
        self._node = DroneNode(f"/{quad}/pilot", master, host)
        if isinstance(clock, TimeKeeper):
            clock.node = self._node
        self._start, self._epoch = self._world.now(), 0.0
        self._sequence = 0
        self._said = ("", False, False, "")
        self._advertise()

    def _topic(self, name: str) -> str:
        return f"/{self._quad}/agiros_pilot/{name}"

    def _advertise(self) -> None:
        node = self._node
        for name, kind in (
            ("state", "agiros_msgs/QuadState"),
            ("odometry", "nav_msgs/Odometry"),
            ("telemetry", "agiros_msgs/Telemetry"),
            ("mpc_command", "agiros_msgs/Command"),
        ):
            node.advertise(self._topic(name), kind)
        node.advertise(f"/mocap/{self._quad}/pose", "geometry_msgs/PoseStamped")
        node.advertise(f"/{self._quad}/mavros/battery", "sensor_msgs/BatteryState")
        node.advertise(f"/{self._quad}/sim/truth", "nav_msgs/Odometry")

        def feedthrough(message: Any) -> None:
            rates = message.bodyrates
            command = (message.collective_thrust, rates.x, rates.y, rates.z)
            if not message.is_single_rotor_thrust:
                self.drone.feedthrough(self._now(), command)

        def call(name: str) -> None:
            self.drone.call(self._now(), name)

        def go_to(message: Any) -> None:
            point = message.pose.position
            self.drone.call(self._now(), "go_to_pose", (point.x, point.y, point.z))

        def inject(message: Any) -> None:
            with contextlib.suppress(InputError):
                self.drone.injector.add(parse(message.data, self._now()))
                print(f"fault {message.data}", flush=True)

        node.subscribe(self._topic("feedthrough_command"), "agiros_msgs/Command", feedthrough)
        node.subscribe(
            self._topic("enable"),
            "std_msgs/Bool",
            lambda message: self.drone.call(self._now(), "enable", message.data),
        )
        for name in _CALLS:
            node.subscribe(self._topic(name), "std_msgs/Empty", lambda _, name=name: call(name))
        node.subscribe(self._topic("go_to_pose"), "geometry_msgs/PoseStamped", go_to)
        node.subscribe(f"/{self._quad}/sim/fault", "std_msgs/String", inject)

    def _now(self) -> float:
        """Seconds since the start."""
        return self._world.now() - self._start

    async def run(self, seconds: float) -> None:
        """Serve for so long, or until SIGINT or SIGTERM."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        serving = asyncio.ensure_future(self._node.serve())
        world = self._world
        if isinstance(world, TimeKeeper):
            await world.begin(stop)
        else:
            # The vehicle's clock: wall time at the start, steady from then on.
            self._epoch = time.time() - time.monotonic()
        self._start = world.now()
        cycle, orphan_since = 0, None
        while not stop.is_set() and self._now() < seconds and not serving.done():
            cycle += 1
            if isinstance(world, TimeKeeper):
                await world.go_to(self._start + cycle * CYCLE_S, stop)
            else:
                await self._in_real_time(cycle * CYCLE_S)
            report = self.drone.cycle(cycle * CYCLE_S)
            gone = self.drone.injector.on("unsubscribe", cycle * CYCLE_S)
            self._node.leave(self._topic("feedthrough_command"), gone)
            self._publish(cycle, report)
            self._tell(cycle * CYCLE_S)
            if isinstance(world, TimeKeeper):
                await world.round(stop)
            if self.drone.pilot.died:
                break
            if os.getppid() != self._parent:
                orphan_since = time.monotonic() if orphan_since is None else orphan_since
                if time.monotonic() - orphan_since > _ORPHAN_S:
                    break
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await serving

    async def _in_real_time(self, moment: float) -> None:
        """Serve the wire until the vehicle's time has come."""
        wait = moment - self._now()
        if -wait > _MOST_BEHIND * CYCLE_S:
            self._start -= wait  # the world stood still with us
        self.late_cycles += -wait > CYCLE_S
        await asyncio.sleep(max(0.0, wait))

    def _tell(self, now: float) -> None:
        pilot = self.drone.pilot
        flies = "feedthrough" if pilot.feeding else pilot.mode
        said = (flies, pilot.armed, pilot.guard, self.drone.crashed + pilot.died)
        if said != self._said:
            self._said = said
            words = [flies, "armed" if pilot.armed else "disarmed"]
            words += ["guard"] if pilot.guard else []
            words += [f"PILOT DIED: {pilot.died}"] if pilot.died else []
            words += [f"CRASHED: {self.drone.crashed}"] if self.drone.crashed else []
            print(f"{now:8.2f} s  {', '.join(words)}", flush=True)

    def _publish(self, cycle: int, report: Report) -> None:
        node, self._sequence = self._node, self._sequence + 1
        stamp = self._epoch + self._start + report.time
        if report.mocap is not None:
            node.publish(
                f"/mocap/{self._quad}/pose",
                m.pose_stamped(
                    report.mocap.position,
                    report.mocap.quaternion,
                    self._epoch + self._start + report.mocap.stamp,
                    self._sequence,
                ),
            )
        if report.state is not None:
            state = self._quad_state(report.state, report, stamp)
            node.publish(self._topic("state"), state)
            node.publish(self._topic("odometry"), self._odometry(report.state, stamp))
            node.publish(self._topic("mpc_command"), self._command(report, stamp))
            node.publish(self._topic("telemetry"), self._telemetry(report, state, stamp))
        if report.battery is not None and cycle % _BATTERY_CYCLES == 0:
            node.publish(f"/{self._quad}/mavros/battery", _battery(report.battery, stamp))
        truth = report.truth
        node.publish(f"/{self._quad}/sim/truth", self._odometry_of(truth, stamp))

    def _quad_state(self, state: Estimate, report: Report, stamp: float) -> Any:
        zero = [m.vector((0.0, 0.0, 0.0)) for _ in range(4)]
        return m.message_class("agiros_msgs/QuadState")(
            m.header(stamp, self._sequence),
            report.time,
            m.pose(state.position, state.quaternion),
            m.twist(state.velocity, state.rates),
            m.twist((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
            *zero,
            np.asarray(report.rotor_speed, float),
        )

    def _odometry(self, state: Estimate, stamp: float) -> Any:
        return self._odometry_of(np.concatenate([*state]), stamp)

    def _odometry_of(self, motion: np.ndarray, stamp: float) -> Any:
        blank = np.zeros(36)
        return m.message_class("nav_msgs/Odometry")(
            m.header(stamp, self._sequence),
            self._quad,
            m.message_class("geometry_msgs/PoseWithCovariance")(
                m.pose(motion[:3], motion[6:10]), blank
            ),
            m.message_class("geometry_msgs/TwistWithCovariance")(
                m.twist(motion[3:6], motion[10:13]), blank
            ),
        )

    def _command(self, report: Report, stamp: float) -> Any:
        return m.message_class("agiros_msgs/Command")(
            m.header(stamp, self._sequence),
            report.time,
            False,
            float(report.command[0]),
            m.vector(report.command[1:]),
            np.zeros(4),
        )

    def _telemetry(self, report: Report, state: Any, stamp: float) -> Any:
        return m.message_class("agiros_msgs/Telemetry")(
            m.header(stamp, self._sequence),
            report.time,
            m.text(report.bridge),
            m.boolean(report.armed),
            m.boolean(report.guard),
            report.references,
            0.0,
            0.0,
            state,
            float(report.voltage),
        )


def _battery(voltage: float, stamp: float) -> Any:
    kind = m.message_class("sensor_msgs/BatteryState")
    unknown = float("nan")
    return kind(
        m.header(stamp), float(voltage), *(unknown,) * 6, 0, 0, 0, True,
        np.zeros(0, np.float32), np.zeros(0, np.float32), "", "",
    )  # fmt: skip


def serve(
    drone: Drone,
    quad: str,
    master: str,
    host: str,
    seconds: float,
    clock: RealTime | TimeKeeper,
    parent: int = 0,
) -> None:
    """Run by this clock; returns how many cycles were late through standard error.

    Args:
        drone: the vehicle.
        quad: its name in the topics.
        master: address of the ROS master.
        host: address to listen at.
        seconds: for so long, by the clock.
        clock: of its world.
        parent: who started it, if known; it does not outlive that process by long.
    """
    server = Server(drone, quad, master, host, clock, parent)
    pace = ", in lockstep" if isinstance(clock, TimeKeeper) else ""
    # A vehicle does not stop because somebody compiles; a cycle takes a tenth of its time.
    with contextlib.suppress(OSError):
        for thread in () if pace else os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(5))
    print(f"software drone '{quad}' at {master}, 100 Hz{pace}", flush=True)
    asyncio.run(server.run(seconds))
    print(f"software drone: {server.late_cycles} late cycles", file=sys.stderr, flush=True)
    if drone.pilot.died:
        raise RunError(f"the pilot's process has ended: {drone.pilot.died}")
