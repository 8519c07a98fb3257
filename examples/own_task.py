"""A course of your own, through points in space."""

from pathlib import Path

import lafr_mjx as lm

Path("triangle.toml").write_text("""
description = "Around three poles"
[path]
kind = "waypoints"
periodic = true
lap_s = 8.0
points = [[2.0, 0.0, 1.5], [-1.0, 1.7, 2.2], [-1.0, -1.7, 1.0]]
""")
print(f"no faster than {lm.bounds('triangle.toml', only=('uniform',))['uniform_ceiling_s']:.2f} s")
run = lm.adapt("triangle.toml", iterations=12, engine="freebody", out="runs/triangle")
print(f"flown in {run.table['lap_time_s'][-1]:.2f} s")
