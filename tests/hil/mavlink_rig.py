# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""A session with the tests' own autopilot, which is in a process of its own, in lockstep."""

import contextlib
import socket
from pathlib import Path

from lockstep_rig import drone_log

from lafr_mjx.hil.operator.session import Session
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.resources import data_folder

PEER = str(Path(__file__).with_name("mavlink_peer.py"))


def free_ports(count):
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket(type=socket.SOCK_DGRAM)) for _ in range(count)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]


def profile_of(folder, autopilot="px4", simulated=True):
    """The shipped profile for this autopilot, at ports that are free."""
    port, *stop_ports = free_ports(3)
    text = (data_folder("hil") / "mavlink.toml").read_text(encoding="utf-8")
    for old, new in (
        ('autopilot = "px4"', f'autopilot = "{autopilot}"'),
        ("port = 14540", f"port = {port}"),
        ("stop_ports = [14550, 14551]", f"stop_ports = {stop_ports}"),
        ("simulated = false", f"simulated = {str(simulated).lower()}"),
    ):
        assert old in text
        text = text.replace(old, new)
    file = folder / "mavlink.toml"
    file.write_text(text, encoding="utf-8")
    return load_profile(str(file))


class MavlinkSession(Session):
    """What is wrong with the autopilot is said by `fault`, from then on."""

    def __init__(self, folder, autopilot="px4", *, parameters=(), kind=PEER):
        profile = profile_of(folder, autopilot)
        self._faults = folder / "faults.txt"
        words = [word for text in parameters for word in ("--param", text)]
        command = (kind, str(profile.path), "--faults", str(self._faults), *words)
        super().__init__(profile, folder, drone=command)

    def fault(self, *kinds):
        """The moment."""
        self._faults.write_text(" ".join(kinds))
        self.note(f"fault of the autopilot: {' '.join(kinds) or 'none'}")
        return self.clock.now()

    def modes(self):
        """Modes of the autopilot, one after the other, and whether it was armed."""
        return [tuple(words[:2]) for _, words in drone_log(self)]
