"""The control process: 50 Hz, NumPy only."""
