"""The two ways a command can end badly, each with its exit status."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class InputError(Exception):
    """The user gave something that cannot be used (exit status 2).

    The message says what was given, where it came from and what is allowed.
    """


class RunError(Exception):
    """The input was fine, but the run failed (exit status 1)."""


def meant(given: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known one that was probably meant."""
    near = difflib.get_close_matches(given, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
