import time

import pytest


def wait_for(condition, seconds=5.0, what="it"):
    """Wait until a condition holds; say what did not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.005)
    pytest.fail(f"{what} did not happen within {seconds:g} s")
