"""Addresses and names on the wire: what this machine can listen on, and whom it can reach."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket

from lafr_mjx.errors import InputError
from lafr_mjx.hil.wire import rpc
from lafr_mjx.hil.wire.node import check_master


def check_reachable(uri: str) -> None:
    """Refuse an address where no ROS master answers."""
    check_master(uri)
    try:
        rpc.call(uri, "getPid", "/lafr_mjx", timeout=2.0)
    except rpc.RpcError as error:
        raise InputError(f"--master '{uri}': no ROS master answers there ({error})") from error


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
