"""MJCF variants: MuJoCo's own arithmetic against ours, names, props, export."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.plant.variants import compile_model, vehicle_variant
from lafr_mjx.plant.vehicle import add_point_mass, load_vehicle


@pytest.fixture(scope="module")
def vehicle():
    return load_vehicle("lafr192")


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
    root = vehicle_variant(vehicle, payload_mass=payload, payload_position=position)
    model = compile_model(root)
    assert (model.nq, model.nv) == (7, 6)
    mass, inertia, centre = mass_properties(model)
    expected = add_point_mass(
        vehicle.mass, vehicle.inertia, vehicle.centre_of_mass, payload, np.array(position)
    )
    assert mass == pytest.approx(expected[0], rel=1e-9)
    assert inertia == pytest.approx(expected[1], rel=1e-5, abs=1e-11)
    assert centre == pytest.approx(expected[2], abs=1e-9)


def test_plain_variant_is_the_vehicle(vehicle):
    model = compile_model(vehicle_variant(vehicle))
    original = mujoco.MjModel.from_xml_path(str(vehicle.mjcf_path))
    assert model.ngeom == original.ngeom
    assert model.body_mass == pytest.approx(original.body_mass)
    assert model.geom_size == pytest.approx(original.geom_size)
    assert model.opt.jacobian == mujoco.mjtJacobian.mjJAC_SPARSE
    assert model.key("hover").qpos == pytest.approx([0, 0, 1.5, 1, 0, 0, 0])


def test_cut_propellers_are_drawn_smaller(vehicle):
    scale = (0.80, 0.90, 0.85, 1.0)
    whole = compile_model(vehicle_variant(vehicle))
    cut = compile_model(vehicle_variant(vehicle, propeller_scale=scale))
    for i, factor in enumerate(scale, start=1):
        disc, blade = f"prop{i}", f"blade{i}"
        assert cut.geom(disc).size[0] == pytest.approx(factor * whole.geom(disc).size[0])
        assert cut.geom(disc).size[1] == whole.geom(disc).size[1]
        assert cut.geom(blade).size[0] == pytest.approx(factor * whole.geom(blade).size[0])
        assert cut.geom(blade).size[1:] == pytest.approx(whole.geom(blade).size[1:])
    assert cut.body("quad").mass == pytest.approx(vehicle.mass)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"payload_mass": -0.1}, "payload_mass is -0.1"),
        ({"payload_mass": float("nan")}, "payload_mass is nan"),
        ({"payload_position": (0, 0)}, "payload_position"),
        ({"propeller_scale": (1, 1, 1)}, "propeller_scale"),
        ({"propeller_scale": (1, 1, 1, 0)}, "propeller_scale"),
    ],
)
def test_bad_arguments_are_named(vehicle, arguments, expected):
    with pytest.raises(InputError, match=expected):
        vehicle_variant(vehicle, **arguments)
