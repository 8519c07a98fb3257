"""A vehicle with a payload as MuJoCo itself compiles it, to compare our arithmetic with."""

import mujoco
from dm_control import mjcf


def payload_model(vehicle, mass=0.0, position=(0.0, 0.0, 0.0)):
    root = mjcf.from_path(str(vehicle.mjcf_path))
    if mass > 0.0:
        # A body without joints is welded to its parent, and MuJoCo adds its mass there.
        body = root.find("body", vehicle.body_name)
        assert body is not None
        payload = body.add("body", pos=position)
        payload.add("inertial", pos=[0.0, 0.0, 0.0], mass=mass, diaginertia=[1e-12] * 3)
    return mujoco.MjModel.from_xml_string(root.to_xml_string(), root.get_assets())
