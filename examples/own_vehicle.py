"""A vehicle of your own: a profile and an MJCF, here those of the documentation."""

import lafr_mjx as lm

profile = "docs/examples/sparrow.toml"
vehicle = lm.load_vehicle(profile)
print(f"{vehicle.name}: {1e3 * vehicle.mass:.0f} g, at most {vehicle.limits.high[0]:.0f} m/s²")
figures = lm.fly("figure8", vehicle=profile, engine="freebody")
print(f"RMSE {figures['rmse_m']:.3f} m at {figures['peak_speed_mps']:.1f} m/s")
