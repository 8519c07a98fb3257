"""The two ways a command can end badly, each with its exit status."""


class InputError(Exception):
    """The user gave something that cannot be used (exit status 2).

    The message says what was given, where it came from and what is allowed.
    """


class RunError(Exception):
    """The input was fine, but the run failed (exit status 1)."""
