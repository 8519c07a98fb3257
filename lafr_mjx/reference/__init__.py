"""What is asked of the vehicle: a path in space, a clock that runs along it, and flatness."""
