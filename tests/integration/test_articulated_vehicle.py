"""A user's vehicle with a slung load: the general engine flies it, the fast one refuses."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.plant.engine import build_engine
from lafr_mjx.plant.rigid_body import Motion, Wrench
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.settings import Settings
from lafr_mjx.plant.vec3 import Vec3
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.resources import data_folder

MJCF = """
<mujoco>
  <worldbody>
    <body name="quad">
      <freejoint/>
      <inertial pos="0 0 0" mass="0.192" diaginertia="1.42e-4 1.65e-4 2.13e-4"/>
      <site name="thrust1" pos="0.041 -0.041 0"/>
      <site name="thrust2" pos="-0.041 0.041 0"/>
      <site name="thrust3" pos="-0.041 -0.041 0"/>
      <site name="thrust4" pos="0.041 0.041 0"/>
      <body name="camera" pos="0.03 0 0.01">
        <inertial pos="0 0 0" mass="0.01" diaginertia="1e-6 1e-6 1e-6"/>
      </body>
      <body name="cable" pos="0 0 -0.02">
        <joint name="swing_x" axis="1 0 0" damping="1e-5"/>
        <joint name="swing_y" axis="0 1 0" damping="1e-5"/>
        <inertial pos="0 0 -0.2" mass="0.03" diaginertia="1e-5 1e-5 1e-5"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def slung_vehicle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slung")
    (folder / "slung.xml").write_text(MJCF)
    profile = (data_folder("assets") / "lafr192.toml").read_text()
    profile = profile.replace('mjcf = "quad.xml"', 'mjcf = "slung.xml"')
    (folder / "slung.toml").write_text(profile)
    return load_vehicle(str(folder / "slung.toml"))


def test_mass_counts_the_load_and_the_frame_does_not(slung_vehicle):
    assert slung_vehicle.mass == pytest.approx(0.232)
    assert slung_vehicle.frame.mass == pytest.approx(0.202)
    assert not slung_vehicle.single_free_body


def test_fast_engine_refuses_a_vehicle_with_joints(slung_vehicle):
    with pytest.raises(InputError, match="one rigid body"):
        build_engine(slung_vehicle, "freebody")


def test_general_engine_moves_a_slung_load_as_c_mujoco_does(slung_vehicle):
    engine = build_engine(slung_vehicle, "mjx")
    params = params_for(slung_vehicle, Settings())
    force, torque = np.array([0.6, -0.4, 2.6]), np.array([2e-4, -1e-4, 5e-5])
    wrench = Wrench(Vec3.of(force), Vec3.of(torque))
    start = Motion.of(jnp.array([0.0, 0, 1.5, 0.5, 0, 0, 1, 0, 0, 0, 0.1, 0.2, 0.3]))

    @jax.jit
    def run(start):
        mass = engine.prepare(params.inertial)

        def step(physics, _):
            return engine.advance(mass, physics, wrench), None

        return jax.lax.scan(step, engine.physics(start), None, length=500)[0]

    physics = run(start)

    model = mujoco.MjModel.from_xml_string(MJCF)
    model.opt.timestep = engine.timestep
    data = mujoco.MjData(model)
    data.qpos[:7] = [0, 0, 1.5, 1, 0, 0, 0]
    data.qvel[:6] = [0.5, 0, 0, 0.1, 0.2, 0.3]
    rotation = np.zeros(9)
    for _ in range(500):
        mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
        data.qfrc_applied[:6] = np.concatenate([rotation.reshape(3, 3) @ force, torque])
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(physics.qpos[:3], data.qpos[:3], atol=1e-4)
    np.testing.assert_allclose(physics.qpos[7:], data.qpos[7:], atol=1e-3)
    assert np.abs(data.qpos[7:]).min() > 0.05  # the load really swings
