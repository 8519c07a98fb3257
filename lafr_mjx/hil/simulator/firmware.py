"""Betaflight's own firmware in a process of ours: its rate loop and mixer, in lockstep.

Its simulator build ("SITL") is a program. It takes the vehicle's state (UDP 9003) and the sticks
(UDP 9004), gives motor outputs (UDP 9002), and has the firmware's command line at TCP 5761. Two
things are ours: it lives at an address of the loopback of its own, so that several can run, and its
clock is that of the simulation. `firmware_clock.c`, compiled with gcc and preloaded, sees to both.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MOTORS, _STATE, _STICKS, _CLI = 9002, 9003, 9004, 5761
_PRESSURE_PA = 101325.0

OUTPUTS = ((1, -1), (-1, 1), (1, 1), (-1, -1))
"""Signs of x and y of the motor that an output is for: front right, back left, front left, back
right. That is the order of its simulator interface; the firmware itself numbers them back right,
front right, back left, front left. The first two turn counter-clockwise seen from above."""

_BOOT_S = 2.0  # of its time, until it listens
_ANSWER_S = 0.01  # of its time, between two looks at what it answers
_HANGS_S = 60.0  # real: so long it may take for a step or an answer
_PROMPT = "\r\n# "


class Firmware(Closing):
    """A firmware process, set up and running; it goes on with `step` only."""

    def __init__(self, binary: Path, setup: Sequence[str]) -> None:
        """Start it, have it take these lines of its command line, and start it anew with them.

        Raises:
            InputError: it cannot be run, or refuses a line.
        """
        self._binary = binary
        self._folder = tempfile.TemporaryDirectory(prefix="lafr-mjx-firmware-")
        self._clock = _compiled(Path(self._folder.name))
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets = contextlib.ExitStack()
        try:
            self._start()
            self._configure(setup)
            self._start()
        except BaseException:
            self.close()
            raise

    def restart(self) -> None:
        """Switch it off and on: as new, with its settings."""
        self._start()

    def close(self) -> None:
        """End it."""
        self._end()
        self._folder.cleanup()

    def step(
        self,
        seconds: float,
        rates: Sequence[float],
        quaternion: Sequence[float],
        sticks: Sequence[float],
        arm: bool,
    ) -> np.ndarray:
        """Let it go on; its motor outputs [4], in the order of OUTPUTS, from 0 to 1.

        Args:
            seconds: for so long.
            rates: [3] rad/s, body axes x forward, y left, z up, as its gyroscope senses them.
            quaternion: [4] wxyz, attitude.
            sticks: [4] roll, pitch, yaw from -1 to 1 (positive as the rates), throttle from 0 to 1.
            arm: the switch.
        """
        now = 1e-9 * self._until
        # Body axes y and z are right and down on this wire. What has no part in a rate loop,
        # acceleration, speed and place, is that of a vehicle at rest.
        state = (rates[0], -rates[1], -rates[2], 0.0, 0.0, -GRAVITY, *quaternion, *(0.0,) * 6)
        self._send(_STATE, 0, struct.pack("<18d", now, *state, _PRESSURE_PA))
        roll, pitch, yaw, throttle = sticks
        pulses = (_pulse(roll), _pulse(pitch), _pulse(2.0 * throttle - 1.0), _pulse(-yaw))
        channels = (*pulses, _pulse(1.0 if arm else -1.0), *(_pulse(-1.0),) * 11)
        if channels != self._channels:
            self._send(_STICKS, 1, struct.pack("<d16H", now, *channels))
            self._channels = channels
        self._go_on(seconds)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._outputs = np.array(struct.unpack("<4f", self._motors.recv(64)))
        return self._outputs

    def command_line(self, lines: Iterable[str]) -> Iterator[str]:
        """Say lines to its command line, once until a restart; what it answers to each.

        It does not arm from then on.
        """
        with socket.create_connection((self.address, _CLI), timeout=_HANGS_S) as line:
            line.setblocking(False)
            line.sendall(b"#")
            self._answer(line)
            for text in lines:
                line.sendall(text.encode("ascii") + b"\n")
                yield self._answer(line).removeprefix(text).removesuffix(_PROMPT).strip()

    # ------------------------------------------------------------- its process

    def _start(self) -> None:
        self._end()
        self._motors = self._sockets.enter_context(_datagrams())
        self.address = _own_address(self._motors)
        self._motors.setblocking(False)
        self._out = self._sockets.enter_context(_datagrams())
        self._link, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sockets.enter_context(self._link)
        self._link.settimeout(_HANGS_S)
        self._until = 0
        self._taken = [0, 0]
        self._outputs = np.zeros(4)
        self._channels: tuple[int, ...] = ()
        environment = {
            "LD_PRELOAD": str(self._clock),
            "FIRMWARE_LINK": str(its.fileno()),
            "FIRMWARE_ADDRESS": self.address,
        }
        with its, self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    [str(self._binary), self.address], cwd=self._folder.name, env=environment,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    pass_fds=[its.fileno()], start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise InputError(f"{self._binary}: cannot be run: {error.strerror}") from error
        try:
            self._said()
        except RunError as error:
            raise InputError(
                f"{self._binary}: does not run by our clock: a SITL build of Betaflight, linked "
                f"dynamically for this machine, is needed ({error})"
            ) from error
        self._go_on(_BOOT_S)

    def _end(self) -> None:
        self._sockets.close()  # it ends with its link
        if self._process is not None:
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    @property
    def _log(self) -> Path:
        return Path(self._folder.name) / "log.txt"

    def _send(self, port: int, kind: int, data: bytes) -> None:
        self._out.sendto(data, (self.address, port))
        self._taken[kind] += 1

    def _go_on(self, seconds: float) -> None:
        """Grant it so much time; returns when it is over."""
        self._until += round(1e9 * seconds)
        with contextlib.suppress(OSError):  # the answer tells
            self._link.send(struct.pack("<q2Q", self._until, *self._taken))
        self._said()

    def _said(self) -> None:
        try:
            said = self._link.recv(8)
        except TimeoutError as error:
            raise RunError(f"the firmware hangs for {_HANGS_S:g} s") from error
        except OSError:
            said = b""
        if not said:
            words = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((word for word in reversed(words) if word.strip()), "without a word")
            raise RunError(f"the firmware has ended: {last}")

    # ------------------------------------------------------------- its settings

    def _configure(self, setup: Sequence[str]) -> None:
        said = self.command_line((*setup, "save"))
        for text, answer in zip(setup, said, strict=False):
            if "ERROR" in answer.upper():
                raise InputError(f"{self._binary}: refuses '{text}': {' '.join(answer.split())}")
        try:
            next(said)
        except RunError:  # it has written its settings, and ended to start anew with them
            if self._process is not None and self._process.wait(_HANGS_S) == 0:
                return
            raise
        raise InputError(f"{self._binary}: does not save its settings")

    def _answer(self, line: socket.socket) -> str:
        said, end = "", time.monotonic() + _HANGS_S
        while not said.endswith(_PROMPT):
            self._go_on(_ANSWER_S)
            with contextlib.suppress(BlockingIOError):
                said += line.recv(1 << 16).decode("ascii", "replace")
            if time.monotonic() > end:
                raise RunError(f"the firmware's command line does not answer: {said[-80:]!r}")
            time.sleep(0.0005)  # its own thread for this looks at the machine's time
        return said


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _own_address(motors: socket.socket) -> str:
    """An address of the loopback that no other firmware has: ours if we get its motors' port."""
    draw = random.SystemRandom()
    for _ in range(100):
        address = f"127.{draw.randint(1, 254)}.{draw.randint(0, 255)}.{draw.randint(1, 254)}"
        with contextlib.suppress(OSError):
            motors.bind((address, _MOTORS))
            return address
    raise RunError(f"UDP port {_MOTORS} of the loopback: cannot be bound")


def _pulse(share: float) -> int:
    """Width of a channel's pulse [µs], for a stick from -1 to 1."""
    return round(1500.0 + 500.0 * min(max(share, -1.0), 1.0))


def check_compiler() -> str:
    """The C compiler that our clock needs.

    Raises:
        InputError: there is none, with what to install.
    """
    compiler = os.environ.get("CC", "gcc")
    if shutil.which(compiler) is None:
        raise InputError(
            f"--flight-controller betaflight: needs the C compiler '{compiler}' "
            f"(Debian packages gcc and libc6-dev; another one in the variable CC)"
        )
    return compiler


def _compiled(folder: Path) -> Path:
    """The library to preload."""
    library, source = folder / "clock.so", Path(__file__).with_name("firmware_clock.c")
    command = [check_compiler(), "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
    done = subprocess.run([*command, "-ldl", "-pthread"], capture_output=True, check=False)
    if done.returncode:
        raise RunError(f"{source}: cannot be compiled: {done.stderr.decode(errors='replace')}")
    return library
