"""How far is a flown lap from what is possible at all?"""

import lafr_mjx as lm

bound = lm.bounds("figure8", only=("uniform", "exact"), nodes=60)
run = lm.adapt("figure8", iterations=12, engine="freebody", out="runs/near-the-bound")
lap, best = run.table["lap_time_s"][-1], bound["ctbr_exact_path_s"]
print(f"flown {lap:.2f} s, ideal vehicle on the same path {best:.2f} s: {lap / best:.2f} times")
