import time

import pytest


def has_ended(pid):
    """Whether a process that need not be our own child has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition, seconds=120.0, what="it"):
    """Wait until a condition holds; say what did not happen. The time is for what never comes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.005)
    pytest.fail(f"{what} did not happen within {seconds:g} s")
