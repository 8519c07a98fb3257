"""Safety: limits, trips, the state machine, ways down, the emergency stop."""
