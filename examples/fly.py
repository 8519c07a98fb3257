"""Fly the figure-8 with the classical controller in still air and in wind."""

import lafr_mjx as lm

for scenario in ("nominal", "wind5"):
    figures = lm.fly("figure8", scenario=scenario, engine="freebody", time_scale=0.6)
    print(f"{scenario}: lap {figures['lap_time_s']:.2f} s, RMSE {figures['rmse_m']:.3f} m")
