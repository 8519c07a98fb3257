"""MAVLink over UDP: one port at which one autopilot is listened to, and answered."""

from __future__ import annotations

import math
import select
import socket
import threading
from typing import TYPE_CHECKING, Any

from pymavlink.dialects.v20 import common as mav

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lafr_mjx.hil.timing.flight_clock import FlightClock

_SILENT_S = 2.0  # an autopilot that was silent for so long may speak from another address
_INTRUDES_S = 1.0  # somebody else who commands it is told for so long
_COMMANDS = frozenset({"SET_ATTITUDE_TARGET", "SET_POSITION_TARGET_LOCAL_NED"})
_V1, _V2 = 0xFE, 0xFD
_Address = tuple[str, int]


class Link:
    """A socket, and a thread that reads it; `hear` gets each message of the autopilot's.

    Also counts messages, as a time in lockstep wants to know them.
    """

    complete = True  # who wants to be heard must have bound its port by then

    def __init__(
        self,
        host: str,
        ports: dict[int, int],
        system: int,
        clock: FlightClock,
        hear: Callable[[Any], None],
    ) -> None:
        self._sock, port = _bound(host, ports)
        component = ports[port]
        self.name = f"mavlink:{port}"
        self.received = self.sent = self.malformed = 0
        self._system, self._component, self._clock, self._hear = system, component, clock, hear
        self._packer = mav.MAVLink(None, system, component)
        self._reader = mav.MAVLink(None)
        self._peer: _Address | None = None
        self._heard = self._intruded = -math.inf
        self._intruder = ""
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._read, name="mavlink", daemon=True)
        self._thread.start()

    def send(self, message: Any) -> bool:
        """Send a message to the autopilot; whether it went out."""
        with self._lock:
            if self._peer is None:
                return False
            try:
                self._sock.sendto(message.pack(self._packer), self._peer)
            except OSError:
                return False
            self._packer.seq = (self._packer.seq + 1) % 256  # a receiver counts losses by it
            self.sent += 1
            return True

    @property
    def known(self) -> bool:
        """Whether it is known where the autopilot is."""
        return self._peer is not None

    def is_ours(self, system: int, component: int) -> bool:
        """Whether an answer is to us; 0 is to everybody."""
        return system in (0, self._system) and component in (0, self._component)

    @property
    def intruders(self) -> tuple[str, ...]:
        """Who else speaks as the autopilot, or commands it, where we can hear it."""
        lately = self._clock.now() - self._intruded < _INTRUDES_S
        return (self._intruder,) if lately else ()

    def frames_to(self, peer: str) -> int:
        """Datagrams that were sent."""
        return self.sent

    def frames_from(self, peer: str) -> int:
        """Datagrams that have come."""
        return self.received

    def keep_up(self) -> None:
        """There is no master to look at."""

    def close(self) -> None:
        """Leave."""
        self._closing.set()
        self._thread.join(2.0)
        self._sock.close()

    def _read(self) -> None:
        while not self._closing.is_set():
            if not select.select([self._sock], [], [], 0.2)[0]:
                continue
            try:
                data, address = self._sock.recvfrom(65_536)
            except OSError:  # of a datagram before it that nobody took
                continue
            for frame in _frames(data):
                self._take(frame, address)
            self.received += 1

    def _take(self, frame: bytes, address: _Address) -> None:
        try:
            message: Any = self._reader.decode(bytearray(frame))
        except Exception:  # a stranger's bytes may break the decoder in any way
            self.malformed += 1
            return
        kind, system = message.get_type(), message.get_srcSystem()
        component, now = message.get_srcComponent(), self._clock.now()
        if system == self._system and component == mav.MAV_COMP_ID_AUTOPILOT1:
            if self._peer != address and now - self._heard > _SILENT_S:
                self._peer = address
            if self._peer == address:
                self._heard = now
                try:
                    self._hear(message)
                except Exception:  # what no handler can take must not deafen us to the rest
                    self.malformed += 1
                return
            self._intruder = f"somebody at {address[0]}:{address[1]} who speaks as the autopilot"
            self._intruded = now
        elif kind in _COMMANDS or (system, component) == (self._system, self._component):
            self._intruder = f"system {system}, component {component}"
            self._intruded = now


def _bound(host: str, ports: Iterable[int]) -> tuple[socket.socket, int]:
    """A socket at the first port that is free, and that port."""
    why = ""
    for port in ports:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.bind((host, port))
        except OSError as error:
            sock.close()
            why = str(error.strerror)
            continue
        sock.setblocking(False)
        return sock, port
    places = ", ".join(f"{host}:{port}" for port in ports)
    raise InputError(f"UDP {places} cannot be listened at: {why} (a second one of these?)")


def _frames(data: bytes) -> Iterator[bytes]:
    """The frames of a datagram; what is no whole frame ends it, and is one to be refused."""
    while data:
        if data[0] == _V2 and len(data) >= 12:
            size = 12 + data[1] + (13 if data[2] & mav.MAVLINK_IFLAG_SIGNED else 0)
        elif data[0] == _V1 and len(data) >= 8:
            size = 8 + data[1]
        else:
            size = len(data)
        yield data[:size]
        data = data[size:]
