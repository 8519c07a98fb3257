"""Which transport: ROS 1 itself, or a rosbridge; the address says it."""

from __future__ import annotations

from lafr_mjx.hil.bridge import Bridge, check_bridge
from lafr_mjx.hil.node import Node, check_master


def is_bridge(uri: str) -> bool:
    """Whether an address is that of a rosbridge."""
    return uri.startswith(("ws://", "wss://"))


def check_address(uri: str) -> None:
    """Refuse what is neither the address of a ROS master nor of a rosbridge."""
    (check_bridge if is_bridge(uri) else check_master)(uri)


def open_node(name: str, master: str, host: str) -> Node | Bridge:
    """Our presence on the wire; not started yet."""
    return Bridge(name, master) if is_bridge(master) else Node(name, master, host)
