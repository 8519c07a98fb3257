"""LAFR-MJX: learn agile quadrotor flight while flying.

Importing this package is cheap and pulls in no JAX, so that the 50 Hz control process of a
drone can use it. The rooms load what they need when they are imported.
"""

__version__ = "0.3.0"
