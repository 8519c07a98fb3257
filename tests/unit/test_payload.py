"""A payload: MuJoCo's own arithmetic against ours."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from payload_model import payload_model

from lafr_mjx.plant.vehicle import add_point_mass, load_vehicle


def mass_properties(model):
    """Mass, inertia and centre of the root from MuJoCo's mass matrix, not from its inputs."""
    data = mujoco.MjData(model)
    data.qpos[:7] = [0, 0, 1, 1, 0, 0, 0]
    mujoco.mj_forward(model, data)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    mass = full[0, 0]
    # For a free joint the coupling block is -m hat(c), the last the inertia about the origin.
    coupling = full[:3, 3:6]
    centre = np.array([coupling[1, 2], coupling[2, 0], coupling[0, 1]]) / mass
    inertia = full[3:6, 3:6] - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return mass, inertia, centre


@pytest.mark.parametrize("name", ["lafr192", "kingfisher", "crazyflie"])
@pytest.mark.parametrize("position", [(0.0, 0.0, 0.0), (0.02, 0.0, 0.0), (-0.01, 0.015, -0.03)])
def test_payload_agrees_with_mujoco(name, position):
    vehicle = load_vehicle(name)
    payload = 0.06
    model = payload_model(vehicle, payload, position)
    assert (model.nq, model.nv) == (7, 6)
    mass, inertia, centre = mass_properties(model)
    expected = add_point_mass(
        vehicle.mass, vehicle.inertia, vehicle.centre_of_mass, payload, np.array(position)
    )
    assert mass == pytest.approx(expected[0], rel=1e-9)
    assert inertia == pytest.approx(expected[1], rel=1e-5, abs=1e-11)
    assert centre == pytest.approx(expected[2], abs=1e-9)
