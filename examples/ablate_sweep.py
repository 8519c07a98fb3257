"""How much do a residual and anchors help, the later the commands arrive?"""

import lafr_mjx as lm

results = lm.ablate(
    "figure8", methods=["ours", "baseline"], scenarios=["nominal"], seeds=range(3),
    iterations=12, sweep={"command_delay_ms": [0, 40]}, engine="freebody", out="runs/delays",
)  # fmt: skip
for run in results:
    last = run.iterations[-1]
    print(run.method, run.sweep, f"{last['peak_speed_mps']:.2f} m/s, RMSE {last['rmse_m']:.3f} m")
