"""Vehicle profiles: what ships is right, what is wrong is named."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.plant.vehicle import add_point_mass, load_vehicle
from lafr_mjx.resources import data_folder
from lafr_mjx.types import GRAVITY

ASSETS = data_folder("assets")
SHIPPED = ("crazyflie", "kingfisher", "lafr192")


@pytest.fixture
def own(tmp_path):
    """A user's copy of the 192 g vehicle, to be broken; returns a function that edits it."""
    for name in ("lafr192.toml", "quad.xml"):
        shutil.copy(ASSETS / name, tmp_path / name)

    def edit(name, pattern, replacement):
        path = tmp_path / name
        text, count = re.subn(pattern, replacement, path.read_text(), flags=re.MULTILINE)
        assert count > 0, f"{pattern!r} is not in {name}"
        path.write_text(text)
        return str(tmp_path / "lafr192.toml")

    return edit


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_vehicle_hovers(name):
    vehicle = load_vehicle(name)
    rotors = vehicle.rotors
    assert rotors.speed_min < vehicle.hover_speed < rotors.speed_max
    assert vehicle.limits.low[0] < GRAVITY < vehicle.limits.high[0]
    lift = 4 * rotors.thrust_coefficient * vehicle.hover_speed**2
    assert lift == pytest.approx(vehicle.mass * GRAVITY)
    # Wrench of four equal rotors: no torque, so hover needs no trim.
    assert np.cross(vehicle.rotor_positions, [0, 0, lift / 4]).sum(axis=0) == pytest.approx(0)
    assert rotors.spin.sum() == 0
    assert vehicle.single_free_body


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rotor_order(name):
    signs = np.sign(load_vehicle(name).rotor_positions[:, :2])
    assert signs.tolist() == [[1, -1], [-1, 1], [-1, -1], [1, 1]]


def test_figures_of_the_192_g_vehicle():
    vehicle = load_vehicle("lafr192")
    assert vehicle.mass == pytest.approx(0.192)
    assert vehicle.inertia == pytest.approx(np.diag([1.42e-4, 1.65e-4, 2.13e-4]))
    assert vehicle.centre_of_mass == pytest.approx(np.zeros(3))
    assert np.abs(vehicle.rotor_positions[:, :2]) == pytest.approx(np.full((4, 2), 0.041))
    assert vehicle.limits.high.tolist() == [25, 6, 6, 6]
    assert vehicle.limits.low.tolist() == [0, -6, -6, -6]


@pytest.mark.parametrize(("name", "ratio"), [("lafr192", 0.00804), ("kingfisher", 0.022)])
def test_yaw_torque_has_the_sign_of_the_agilicious_pilot(name, ratio):
    """More thrust front right and back left turns the nose to the right: torque against body z."""
    rotors = load_vehicle(name).rotors
    assert (rotors.torque_per_thrust * rotors.spin).tolist() == [-ratio, -ratio, ratio, ratio]


@pytest.mark.parametrize("name", ["quad", "kingfisher", "crazyflie", "scene"])
def test_mjcf_is_one_free_body_in_hover(name):
    model = mujoco.MjModel.from_xml_path(str(ASSETS / f"{name}.xml"))
    assert (model.nq, model.nv) == (7, 6)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("hover").id)
    mujoco.mj_forward(model, data)
    assert data.body("quad").xpos[2] == 1.5
    assert data.ncon == 0
    for i in range(1, 5):
        assert model.geom(f"prop{i}").contype == model.geom(f"blade{i}").contype == 0
        assert data.geom(f"prop{i}").xpos[:2] == pytest.approx(data.site(f"thrust{i}").xpos[:2])


def test_scene_floor_stops_the_fall_and_props_move():
    model = mujoco.MjModel.from_xml_path(str(ASSETS / "scene.xml"))
    data = mujoco.MjData(model)
    data.qpos[2] = 0.1
    mujoco.mj_step(model, data, 1000)
    assert 0.0 < data.qpos[2] < 0.05
    assert data.ncon > 0
    data.mocap_pos[model.body("fan1").mocapid[0]] = [1, 2, 3]
    mujoco.mj_forward(model, data)
    assert data.body("fan1").xpos.tolist() == [1, 2, 3]
    assert model.camera("track").id != model.camera("overview").id


def test_a_profile_of_version_0_2_still_loads():
    """Without rotor inertia, slow loop and authority: none, the same loop, full."""
    vehicle = load_vehicle(str(ASSETS.parent / "docs" / "examples" / "sparrow.toml"))
    assert vehicle.rotors.inertia == 0.0
    assert vehicle.rate_loop.slow is vehicle.rate_loop.gains
    assert vehicle.rate_loop.gains.idle_authority == 1.0


BAD_PROFILES = {
    "unknown key": (r"^speed_min_radps", "speed_minimum_radps", "speed_minimum|speed_min_radps"),
    "wrong type": (r"^time_constant_s = .*", 'time_constant_s = "fast"', "rotors.time_constant_s"),
    "not finite": (r"^time_constant_s = .*", "time_constant_s = nan", "rotors.time_constant_s"),
    "firmware's number": (r"^p_roll = .*", "p_roll = 4.5", "betaflight.p_roll"),
    "firmware's word": (r"^iterm_relax = .*", 'iterm_relax = "a b"', "betaflight.iterm_relax"),
    "negative": (r"^capacity_mah = .*", "capacity_mah = -1", "battery.capacity_mah"),
    "speeds": (r"^speed_min_radps = .*", "speed_min_radps = 4400", "rotors.speed_min_radps"),
    "idle lifts": (r"^speed_min_radps = .*", "speed_min_radps = 1600", "rotors.speed_min_radps"),
    "weak rotors": (r"^thrust_max_n = .*", "thrust_max_n = 0.4", "rotors.thrust_max_n"),
    "slow rotors": (r"^speed_max_radps = .*", "speed_max_radps = 1500", "rotors.speed_max_radps"),
    "below gravity": (r"^thrust_max_mps2 = .*", "thrust_max_mps2 = 9.0", "limits.thrust_max_mps2"),
    "out of reach": (r"^thrust_max_mps2 = .*", "thrust_max_mps2 = 80", "limits.thrust_max_mps2"),
    "no descent": (r"^thrust_min_mps2 = .*", "thrust_min_mps2 = 12", "limits.thrust_min_mps2"),
    "degrees": (r"^rates_max_radps = .*", "rates_max_radps = [344, 344, 344]", "degrees for rad"),
    "two rates": (r"^rates_max_radps = .*", "rates_max_radps = [6, 6]", "limits.rates_max_radps"),
    "spin sum": (r"^spin = .*", "spin = [1, 1, 1, -1]", "rotors.spin"),
    "spin size": (r"^spin = .*", "spin = [2, 1, -1, -2]", "rotors.spin"),
    "spin layout": (r"^spin = .*", "spin = [1, -1, 1, -1]", "rotors.spin"),
    "empty above full": (r"^voltage_empty_v = .*", "voltage_empty_v = 17", "voltage_empty_v"),
    "weak battery": (r"^resistance_ohm = .*", "resistance_ohm = 2", "battery.resistance_ohm"),
    "absolute mjcf": (r"^mjcf = .*", 'mjcf = "/etc/passwd"', "mjcf"),
    "leaving mjcf": (r"^mjcf = .*", 'mjcf = "../quad.xml"', "may not leave"),
    "no mjcf": (r"^mjcf = .*", 'mjcf = "nothing.xml"', "nothing.xml"),
    "folder as mjcf": (r"^mjcf = .*", 'mjcf = "."', "mjcf"),
    "odd mjcf": (r"^mjcf = .*", r'mjcf = "a\\u0000b"', "mjcf"),
    "not mjcf": (r"^mjcf = .*", 'mjcf = "lafr192.toml"', "MuJoCo cannot use"),
    "no limits": (r"^\[limits\]", "[limit]", "limits"),
}


SECOND_FREE_BODY = '<body name="b"><freejoint/><geom size="1"/></body></worldbody>'
STRANGER = '<body name="b"><joint name="swing"/><geom size="1"/></body></worldbody>'
BAD_MJCF = {
    "no mass": (r'mass="0.192"', 'mass="0"', "mass"),
    "negative mass": (r'mass="0.192"', 'mass="-1"', "mass"),
    "inertia": (r'diaginertia="[^"]*"', 'diaginertia="1e-4 1e-4 3e-4"', "inertia"),
    "fixed": (r'<freejoint name="root"/>|^    <key .*$', "", "0 free joints"),
    "two free bodies": (r"</worldbody>", SECOND_FREE_BODY, "2 free joints"),
    "joint elsewhere": (r"</worldbody>", STRANGER, "'swing'"),
    "missing site": (r'name="thrust3"', 'name="thrust5"', "thrust3"),
    "tilted rotor": (r'name="thrust2"', 'name="thrust2" euler="5 0 0"', "thrust2"),
    "no name": (r'<body name="quad"', "<body", "no name"),
    "rotors in a row": (r'pos="(-?0.041) -?0.041 0"', r'pos="\1 0 0"', "rotors.spin"),
    "not XML": (r"</mujoco>", "</mujoc", "MuJoCo cannot use"),
}


BAD = [("lafr192.toml", *case) for case in BAD_PROFILES.values()]
BAD += [("quad.xml", *case) for case in BAD_MJCF.values()]


@pytest.mark.parametrize(
    ("name", "pattern", "replacement", "expected"), BAD, ids=[*BAD_PROFILES, *BAD_MJCF]
)
def test_what_is_wrong_is_named(own, name, pattern, replacement, expected):
    with pytest.raises(InputError, match=expected) as caught:
        load_vehicle(own(name, pattern, replacement))
    assert name in str(caught.value) or "lafr192.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_inertia_is_checked_even_if_mujoco_does_not(own):
    own("quad.xml", r"<compiler ", '<compiler boundinertia="0" ')
    path = own("quad.xml", r'diaginertia="[^"]*"', 'fullinertia="1e-4 1e-4 1e-4 9e-5 9e-5 -9e-5"')
    with pytest.raises(InputError, match=r"quad\.xml.*inertia"):
        load_vehicle(path)


def test_huge_mjcf_is_refused(own, tmp_path):
    path = own("lafr192.toml", "lafr192", "big")
    with (tmp_path / "quad.xml").open("r+b") as file:
        file.truncate(20_000_001)  # sparse: costs no disk
    with pytest.raises(InputError, match=r"quad\.xml.*20000001 bytes"):
        load_vehicle(path)


def test_unknown_names_say_what_ships():
    with pytest.raises(InputError, match="crazyflie, kingfisher, lafr192"):
        load_vehicle("boeing")
    with pytest.raises(InputError, match="does not exist"):
        load_vehicle("./boeing.toml")


def test_slung_load_is_allowed(own):
    load = (
        '<body name="load" pos="0 0 -0.3"><joint type="ball" pos="0 0 0.3"/>'
        '<geom type="sphere" size="0.02" mass="0.05"/></body><site name="imu"'
    )
    vehicle = load_vehicle(own("quad.xml", r'<site name="imu"', load))
    assert not vehicle.single_free_body
    assert vehicle.mass == pytest.approx(0.242)
    assert vehicle.centre_of_mass == pytest.approx([0, 0, -0.3 * 0.05 / 0.242])


def test_turned_inertial_frame(own):
    """Principal axes that are not the body's give a full matrix."""
    turned = 'quat="0.9238795 0 0 0.3826834" diaginertia="1e-4 2e-4 2.5e-4"'
    vehicle = load_vehicle(own("quad.xml", r'diaginertia="[^"]*"', turned))
    expected = [[1.5e-4, -5e-5, 0], [-5e-5, 1.5e-4, 0], [0, 0, 2.5e-4]]
    assert vehicle.inertia == pytest.approx(np.array(expected), abs=1e-10)


def test_point_mass_batched_and_in_jax():
    rng = np.random.default_rng(0)
    vehicle = load_vehicle("lafr192")
    masses, places = rng.uniform(0, 0.1, 5), rng.normal(0, 0.03, (5, 3))
    body = (vehicle.mass, vehicle.inertia, vehicle.centre_of_mass)
    total, inertia, centre = add_point_mass(*body, masses, places)
    batched = jax.vmap(lambda m, p: add_point_mass(*body, m, p))
    for ours, theirs in zip((total, inertia, centre), batched(masses, places), strict=True):
        assert isinstance(ours, np.ndarray)
        assert np.asarray(theirs) == pytest.approx(ours, rel=1e-5, abs=1e-9)
    # Against the definition: the body as a cloud of points with its mass and inertia.
    one = np.trace(vehicle.inertia) / 2
    second_moment = one * np.eye(3) - vehicle.inertia
    about_origin = second_moment + masses[0] * np.outer(places[0], places[0])
    about_centre = about_origin - total[0] * np.outer(centre[0], centre[0])
    expected = np.trace(about_centre) * np.eye(3) - about_centre
    assert inertia[0] == pytest.approx(expected, rel=1e-9)


def test_no_payload_changes_nothing():
    vehicle = load_vehicle("crazyflie")
    body = (vehicle.mass, jnp.asarray(vehicle.inertia), vehicle.centre_of_mass)
    total, inertia, centre = add_point_mass(*body, 0.0, jnp.ones(3))
    assert float(total) == pytest.approx(vehicle.mass)
    assert np.asarray(inertia) == pytest.approx(vehicle.inertia, rel=1e-6)
    assert np.asarray(centre) == pytest.approx(vehicle.centre_of_mass)


def test_loading_a_vehicle_needs_no_jax():
    code = (
        "import sys; from lafr_mjx.plant.vehicle import load_vehicle; load_vehicle('lafr192'); "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
