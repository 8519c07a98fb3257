"""Commands that run flights and measurements: what `lafr-mjx` calls."""
