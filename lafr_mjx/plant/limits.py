"""Limits that the plant's buffers set, for those who check input without loading JAX."""

COMMANDS_KEPT = 6
SAMPLES_KEPT = 8

MAX_COMMAND_DELAY = 0.10
"""Longest delay of a command [s] that the buffer holds at 50 Hz."""

MAX_SENSING_DELAY = 0.06
"""Longest latency of a sample [s] that the buffer holds at 100 Hz."""
