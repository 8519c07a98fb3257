"""Adapt a policy in wind, and plot how it speeds up."""

import matplotlib.pyplot as plt

import lafr_mjx as lm

run = lm.adapt("figure8", scenario="wind5", iterations=12, engine="freebody", out="runs/plotted")
table = run.table
fig, ax = plt.subplots()
ax.plot(table["flight_time_s"].cumsum(), table["peak_speed_mps"], "o-")
ax.set(xlabel="flown [s]", ylabel="peak speed [m/s]")
fig.savefig(run.path / "speed.png")
print(f"last lap {table['lap_time_s'][-1]:.2f} s; {run.path / 'speed.png'}")
