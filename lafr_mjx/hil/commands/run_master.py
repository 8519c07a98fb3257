"""`master`: the small built-in ROS master."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass

from lafr_mjx.errors import InputError


@dataclass
class RunMaster:
    """Run the small built-in ROS master, where no `roscore` is installed.

    python -m lafr_mjx.hil master --port 11311
    """

    host: str = "127.0.0.1"
    """Address to listen on; by default this machine only."""
    port: int = 11311
    """Port to listen on."""

    def run(self) -> None:
        """Serve until stopped."""
        from lafr_mjx.hil.wire.addresses import check_host
        from lafr_mjx.hil.wire.ros_master import Master

        check_host(self.host)
        if not 0 <= self.port < 65536:
            raise InputError(f"--port {self.port}: must be from 0 to 65535")
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        with Master(self.host, self.port) as master:
            print(f"ROS master at {master.uri}", flush=True)
            stop.wait()
