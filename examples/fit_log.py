"""Learn a model from recorded flights, and test it on what it has not seen."""

import lafr_mjx as lm

run = lm.adapt("figure8", scenario="wind5", iterations=4, engine="freebody", out="runs/to-fit")
figures = lm.fit(run.path, seeds=0, out="runs/fitted")
for name in ("nominal", "hybrid"):
    print(f"{name}: {figures[f'{name}_500ms_position_mm']:.1f} mm off after 0.5 s")
