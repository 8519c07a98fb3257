"""Which transport: ROS 1 itself, or a rosbridge; the address says it."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from urllib.parse import urlsplit

from lafr_mjx.errors import InputError
from lafr_mjx.hil import rpc
from lafr_mjx.hil.bridge import Bridge, check_bridge
from lafr_mjx.hil.flight_clock import REAL_TIME, FlightClock, check_pace
from lafr_mjx.hil.node import Node, check_master


def is_bridge(uri: str) -> bool:
    """Whether an address is that of a rosbridge."""
    return uri.startswith(("ws://", "wss://"))


def check_address(uri: str) -> None:
    """Refuse what is neither the address of a ROS master nor of a rosbridge."""
    (check_bridge if is_bridge(uri) else check_master)(uri)


def check_reachable(uri: str) -> None:
    """Refuse an address where nobody answers."""
    check_address(uri)
    try:
        if is_bridge(uri):
            parts = urlsplit(uri)
            socket.create_connection((parts.hostname, parts.port or 0), timeout=2.0).close()
        else:
            rpc.call(uri, "getPid", "/lafr_mjx", timeout=2.0)
    except (rpc.RpcError, OSError) as error:
        what = "rosbridge" if is_bridge(uri) else "ROS master"
        raise InputError(f"--master '{uri}': no {what} answers there ({error})") from error


def check_host(host: str) -> None:
    """Refuse what this machine cannot listen on."""
    try:
        if re.fullmatch(r"[0-9.]+", host):
            ipaddress.IPv4Address(host)  # or it would be asked for as a name
        socket.create_server((host, 0)).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"--host '{host}': must be an address or a name of this machine, e.g. 127.0.0.1 "
            f"({getattr(error, 'strerror', None) or error})"
        ) from error


def own_name(role: str) -> str:
    """Name of a node that no other process has.

    Of two nodes with one name a master knows the later one only: a second emergency stop would
    silence the first, and a second commander would not be seen.
    """
    return f"/lafr_mjx_{role}_{os.getpid()}_{secrets.token_hex(3)}"


def open_node(name: str, master: str, host: str, clock: FlightClock = REAL_TIME) -> Node | Bridge:
    """Our presence on the wire; not started yet."""
    if is_bridge(master):
        check_pace(clock.slow, clock.source is not REAL_TIME.source, bridge=True)
        return Bridge(name, master)
    return Node(name, master, host, clock=clock)
