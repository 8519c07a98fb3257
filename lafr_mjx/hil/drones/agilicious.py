"""Agilicious: topics of its pilot (`agiros`, ROS 1) as plain values, commands and calls to it."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx import so3
from lafr_mjx.hil.drones.drone_protocol import Call, Heard, Seen
from lafr_mjx.hil.timing.clock_map import ClockMap
from lafr_mjx.hil.timing.flight_clock import REAL_TIME, FlightClock
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.hil.wire.addresses import own_name
from lafr_mjx.hil.wire.fast_messages import command_bytes
from lafr_mjx.hil.wire.node import LOOPBACK, Node
from lafr_mjx.types import State

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.agilicious_pilot import AgiliciousPilot
    from lafr_mjx.hil.wire.subscriber import Received

_EMPTY = "std_msgs/Empty"
CALLS = {
    Call.ARM: ("enable", "std_msgs/Bool"),
    Call.TAKE_OFF: ("start", _EMPTY),
    Call.HOVER: ("force_hover", _EMPTY),
    Call.LAND: ("land", _EMPTY),
    Call.GUARD: ("trigger_guard", _EMPTY),
    Call.OFF: ("off", _EMPTY),
}
"""The pilot's topics that are called, not streamed."""

_HEARD = {
    "state": "agiros_msgs/QuadState",
    "telemetry": "agiros_msgs/Telemetry",
    "mocap": "geometry_msgs/PoseStamped",
    "battery": "sensor_msgs/BatteryState",
    "mpc_command": "agiros_msgs/Command",
}
_WATCHED = {
    "telemetry": "agiros_msgs/Telemetry",
    "mocap": "geometry_msgs/PoseStamped",
    "feedthrough_command": "agiros_msgs/Command",
}
_DEBUG = "debug"  # part of the name of a bridge that goes to no motor
_Three = tuple[float, float, float]
_UNIT = 0.01  # how far a quaternion's length may be from 1
_FAR_M = 1e4
_RESET_S = 1.0  # after so long without a message, an older stamp is taken again


class Agilicious:
    """An Agilicious drone over ROS 1: a `Drone`."""

    def __init__(
        self,
        pilot: AgiliciousPilot,
        master: str,
        host: str = LOOPBACK,
        name: str | None = None,
        clock: FlightClock = REAL_TIME,
    ) -> None:
        self.arrival = threading.Event()
        self._pilot = pilot
        self.clock = clock
        self._clock = ClockMap()
        self._wall = ClockMap()
        self._mocap_clock = ClockMap()
        self._sequence = 0
        self._tape: list[tuple[str, str, float, float, bytes]] = []
        self.node = node = Node(name or own_name("control"), master, host, clock=clock)
        readers = {
            "state": _StateReader(clock), "telemetry": None, "mocap": PoseReader(clock),
            "battery": None, "mpc_command": None,
        }  # fmt: skip
        self._heard = {
            key: node.subscribe(
                pilot.topic(key),
                kind,
                readers[key],
                self.arrival if key == "state" else None,
                idle_s=math.inf if clock.lockstep else 3.0,
            )
            for key, kind in _HEARD.items()
        }
        self._command = node.advertise(pilot.topic("feedthrough_command"), "agiros_msgs/Command")
        self._calls = {
            call: node.advertise(pilot.topic(name), kind) for call, (name, kind) in CALLS.items()
        }
        self._sinks = (self._command, *self._calls.values())
        self._command_topic = pilot.topic("feedthrough_command")
        self._seen_state = self._seen_mocap = -1
        self._pilots: frozenset[str] = frozenset()  # names
        node.start()

    def heard(self) -> Heard:
        """What is known now."""
        node, heard = self.node, self._heard
        state, mocap = heard["state"].latest, heard["mocap"].latest
        telemetry, battery = heard["telemetry"].latest, heard["battery"].latest
        own = heard["mpc_command"].latest
        if state is not None and state.number != self._seen_state:
            self._seen_state = state.number
            stamp = state.message.stamp
            self._clock = self._clock.seen(state.receipt, stamp)
            self._wall = self._wall.seen(state.wall, stamp)
        if mocap is not None and mocap.number != self._seen_mocap:
            self._seen_mocap = mocap.number
            self._mocap_clock = self._mocap_clock.seen(mocap.receipt, mocap.message.stamp)
        needed = (heard["state"], heard["mocap"], heard["telemetry"])
        publishing = node.publishing.get(self._command_topic, ())
        # Others may listen in to one topic or the other: the pilot listens to all of them.
        self._pilots = frozenset.intersection(*(sink.listeners for sink in self._sinks))
        subscribed = bool(self._pilots)
        return Heard(
            state=state.message.state if state else None,
            state_stamp=state.message.stamp + self._clock.offset if state else -math.inf,
            state_receipt=_receipt(state),
            mocap_position=mocap.message.position if mocap else None,
            # A message that was on its way for long is as old as one that came long ago.
            mocap_receipt=mocap.message.stamp + self._mocap_clock.offset if mocap else -math.inf,
            mocap_number=mocap.number if mocap else -1,
            telemetry_receipt=_receipt(telemetry),
            armed=telemetry is not None and motors_armed(telemetry.message),
            guard=bool(telemetry.message.guard_triggered.data) if telemetry else False,
            references=int(telemetry.message.num_references_in_queue) if telemetry else 0,
            # Never the telemetry's: without a battery's topic that says 15.5 V for ever.
            voltage=float(battery.message.voltage) if battery else math.nan,
            battery_receipt=_receipt(battery),
            own_command=_command_of(own.message) if own else None,
            own_number=own.number if own else -1,
            clock_skew=self._clock.skew,
            wall_skew=self._wall.offset if state else math.nan,
            subscribed=subscribed,
            connected=subscribed and all(s.connected and s.latest for s in needed),
            master_seen=node.master_seen,
            intruders=tuple(name for name in publishing if name != node.name),
        )

    def send(self, command: np.ndarray, expires: float) -> bool:
        """Send a command [4] unless it is late."""
        self._sequence += 1
        wall = self.clock.wall()
        body = command_bytes(self._sequence, wall, tuple(float(value) for value in command))
        now = self.clock.now()
        if now > expires:
            return False
        left = self._command.publish(body, expires) > 0
        sent = left and bool(self._command.taken_by & self._pilots)
        if sent:
            self._note("feedthrough_command", "agiros_msgs/Command", now, wall, body)
        return sent

    def call(self, call: Call) -> None:
        """Make a call."""
        name, kind = CALLS[call]
        body = _body(kind)
        self._calls[call].publish(body)
        self._note(name, kind, self.clock.now(), self.clock.wall(), body)

    def drain(self) -> list[tuple[str, str, float, float, bytes]]:
        """Raw messages since the last call, ours included."""
        tape, self._tape = self._tape, []
        for subscriber in self._heard.values():
            tape += [
                (subscriber.topic, subscriber.kind.name, raw.receipt, raw.wall, raw.data)
                for raw in subscriber.drain()
            ]
        return tape

    def counts(self) -> dict[str, dict[str, int]]:
        """What was received, dropped and refused, by topic."""
        return {key: vars(subscriber.counters) for key, subscriber in self._heard.items()}

    def join(self, role: str) -> None:
        """Take part in the flight's time."""
        self.clock.join(role, self.node)

    def close(self) -> None:
        """Leave."""
        self.node.close()

    def _note(self, name: str, kind: str, now: float, wall: float, body: bytes) -> None:
        if len(self._tape) < 1000:
            self._tape.append((self._pilot.topic(name), kind, now, wall, body))


class WatchedAgilicious:
    """The same for the emergency stop, on a connection of its own: a `Watched`."""

    def __init__(
        self,
        pilot: AgiliciousPilot,
        master: str,
        host: str = LOOPBACK,
        clock: FlightClock = REAL_TIME,
    ) -> None:
        self.clock = clock
        self.node = node = Node(own_name("stop"), master, host, clock=clock)
        self._calls = {
            call: node.advertise(pilot.topic(CALLS[call][0]), _EMPTY)
            for call in (Call.GUARD, Call.HOVER, Call.LAND, Call.OFF)
        }
        idle = math.inf if clock.lockstep else 3.0
        self._heard = {
            name: node.subscribe(
                pilot.topic(name), kind, PoseReader(clock) if name == "mocap" else None,
                idle_s=idle,
            )
            for name, kind in _WATCHED.items()
        }  # fmt: skip
        node.start()

    @property
    def reaches(self) -> bool:
        """Whether the pilot listens."""
        return all(topic.subscribers for topic in self._calls.values())

    @property
    def sends(self) -> bool:
        """A call goes to who listens."""
        return self.reaches

    @property
    def connected(self) -> bool:
        """Whether the pilot listens, and it and motion capture are heard."""
        return self.reaches and all(self._heard[name].latest for name in ("telemetry", "mocap"))

    def seen(self) -> Seen:
        """What is known now."""
        telemetry, mocap, stream = (self._heard[name].latest for name in _WATCHED)
        return Seen(
            position=tuple(mocap.message.position.tolist()) if mocap else None,
            mocap_number=mocap.number if mocap else -1,
            mocap_receipt=_receipt(mocap),
            telemetry_receipt=_receipt(telemetry),
            armed=telemetry is not None and motors_armed(telemetry.message),
            guarded=telemetry is not None and bool(telemetry.message.guard_triggered.data),
            stream_receipt=_receipt(stream),
        )

    def call(self, call: Call) -> None:
        """Make a call."""
        self._calls[call].publish(_body(_EMPTY))

    def join(self, role: str) -> None:
        """Take part in the flight's time."""
        self.clock.join(role, self.node)

    def close(self) -> None:
        """Leave."""
        self.node.close()


def _body(kind: str) -> bytes:
    return m.encode(kind, m.empty() if kind == _EMPTY else m.boolean(True))


def motors_armed(telemetry: Any) -> bool:
    """Whether a bridge to the motors is armed; after `disable` a debug bridge says so of itself."""
    debug = _DEBUG in telemetry.bridge_type.data.lower()
    return bool(telemetry.bridge_armed.data) and not debug


def _command_of(message: Any) -> np.ndarray | None:
    """Thrust and body rates; None if it says something else."""
    command = (message.collective_thrust, *_values(message.bodyrates))
    if message.is_single_rotor_thrust or not all(map(math.isfinite, command)):
        return None
    return np.array(command)


class StampedState(NamedTuple):
    """A good state with the vehicle's stamp."""

    state: State
    stamp: float  # s, vehicle's clock


class StampedPosition(NamedTuple):
    """A good position with its stamp."""

    position: np.ndarray  # [3] m
    stamp: float  # s, clock of the motion capture


class _InOrder:
    """Refuses messages that are no newer than the last one."""

    def __init__(self, clock: FlightClock = REAL_TIME) -> None:
        self._clock = clock
        self._stamp = -math.inf
        self._receipt = -math.inf

    def check(self, header: Any) -> float:
        stamp, now = m.seconds(header.stamp), self._clock.now()
        if stamp <= self._stamp and now - self._receipt < _RESET_S:
            raise m.OutdatedError(f"stamp {stamp} after {self._stamp}")
        self._stamp, self._receipt = stamp, now
        return stamp


class _StateReader(_InOrder):
    """`agiros_msgs/QuadState` to a state; refuses what no vehicle can be."""

    def __call__(self, message: Any) -> StampedState:
        pose, twist = message.pose, message.velocity
        position, quaternion = _pose(pose)
        velocity, rates = _values(twist.linear), _values(twist.angular)
        if not all(map(math.isfinite, (*velocity, *rates))):
            raise m.MalformedError("a velocity that is not finite")
        stamp = self.check(message.header)
        rotation = so3.quaternion_to_matrix(np.array(quaternion))
        state = State(np.array(position), np.array(velocity), rotation, np.array(rates))
        return StampedState(state, stamp)


class PoseReader(_InOrder):
    """`geometry_msgs/PoseStamped` to a position; refuses what no vehicle can be."""

    def __call__(self, message: Any) -> StampedPosition:
        """The position, or an error that says what is wrong with it."""
        position, _ = _pose(message.pose)
        return StampedPosition(np.array(position), self.check(message.header))


def _pose(pose: Any) -> tuple[_Three, tuple[float, ...]]:
    """Position and unit quaternion wxyz of a pose that can be.

    Plain numbers: on so few, each operation on arrays would take longer than all of them here.
    """
    position, turn = _values(pose.position), pose.orientation
    quaternion = (turn.w, turn.x, turn.y, turn.z)
    # Written so that a NaN is refused.
    if not all(abs(value) < _FAR_M for value in position):
        raise m.MalformedError(f"a position of {np.array(position)}")
    length = math.hypot(*quaternion)
    if not abs(length - 1.0) <= _UNIT:
        raise m.MalformedError(f"a quaternion of length {length}")
    return position, tuple(value / length for value in quaternion)


def _values(vector: Any) -> _Three:
    return vector.x, vector.y, vector.z


def _receipt(received: Received | None) -> float:
    return received.receipt if received is not None else -math.inf
