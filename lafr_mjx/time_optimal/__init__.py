"""Time-optimal bounds: how fast a task can be flown at all, without delay and drag."""
