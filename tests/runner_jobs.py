"""Jobs for the tests of the runner; in a module of their own, which other processes can import."""

from __future__ import annotations

import time

from lafr_mjx.errors import RunError
from lafr_mjx.runner.job import Job

FLIGHT = {"lap_time_s": 2.5, "peak_speed_mps": 3.0, "rmse_m": 0.1, "crashed": False}


def job(name, flights=2, shared="drone"):
    """By its name it flies, fails, or never ends."""
    return Job(name, flights, fly, (name, flights), shared)


def fly(name, flights, shared, flown):
    if name.startswith("lost"):
        raise RunError("out of battery")
    if name.startswith("odd"):
        raise ValueError("first line\nno such thing")
    while name.startswith("endless"):
        time.sleep(0.1)
    for _ in range(flights):
        flown(1)
    return {f"{name} by {shared}": [FLIGHT] * flights}
