# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Profiles: the shipped ones are good, and each kind of nonsense is named."""

import numpy as np
import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.hil.profile import check_vehicle, load_profile
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.resources import data_folder

SHIPPED = ["sim", "agilicious192", "kingfisher"]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles(name):
    profile = load_profile(name)
    check_vehicle(profile, load_vehicle(profile.vehicle))
    assert profile.simulated == (name == "sim")
    assert load_profile(f"{name}.toml").path == profile.path
    assert profile.topic("state") == f"/{profile.quad}/agiros_pilot/state"
    assert profile.topic("mocap") == f"/mocap/{profile.quad}/pose"
    assert np.all(profile.fence.low > profile.pilot.guard_low)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("quad = ", "squad = ", "quad"),
        ('quad = "sim"', 'quad = "../sim"', "letters"),
        ('quad = "sim"', "quad = 3", "string"),
        ("speed_mps = 12.0", "speed_mps = -1.0", "limits.speed_mps"),
        ("speed_mps = 12.0", "speed_mps = 1e308", "<= 30"),
        ("speed_mps = 12.0", "speed_mps = nan", "limits.speed_mps"),
        ("speed_mps = 12.0", "", "missing"),
        ("speed_mps = 12.0", "speed_mps = 12.0\nspeed_mps = 13.0", "not valid TOML"),
        ("speed_mps = 12.0", "speed_mps = 12.0\nspeed_kmh = 3.0", "unknown key"),
        ("rates_max_radps = [6.0, 6.0, 6.0]", "rates_max_radps = [344, 344, 344]", "<= 50"),
        ("thrust_max_mps2 = 25.0", "thrust_max_mps2 = 9.0", "thrust_max_mps2"),
        ("thrust_max_mps2 = 25.0", "thrust_max_mps2 = 26.0", "takes"),
        ("state_age_s = 0.05", "state_age_s = 0.06", "<= 0.05"),
        ("mocap_lost_s = 0.5", "mocap_lost_s = 0.1\nmocap_stale_s = 0.1", "TOML"),
        ("mocap_stale_s = 0.06", "mocap_stale_s = 0.1", None),
        ("tracking_baseline_m = 0.9", "tracking_baseline_m = 0.5", "above 'tracking_slow_m'"),
        ("hover_wait_s = 0.14", "hover_wait_s = 0.11", "time-out"),
        ("low_m = [-8.5, -4.5, 0.6]", "low_m = [-9.0, -4.5, 0.6]", "guard box"),
        ("high_m = [8.5, 4.5, 4.5]", "high_m = [8.5, 4.5, 0.5]", "above"),
        ("altitude_max_m = 4.5", "altitude_max_m = 4.6", "altitude"),
        ("hover_height_m = 1.0", "hover_height_m = 0.5", "hover_height_m"),
        ("voltage_land_v = 13.4", "voltage_land_v = 3.4", "voltage"),
        ("stable_s = 0.5", "stable_s = 0.1", ">= 0.5"),
    ],
)
def test_nonsense_is_named(tmp_path, old, new, told):
    text = (data_folder("hil") / "sim.toml").read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "drone.toml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def load():
        profile = load_profile(str(file))
        check_vehicle(profile, load_vehicle(profile.vehicle))

    if told is None:
        load()
        return
    with pytest.raises(InputError) as caught:
        load()
    assert told in str(caught.value)
    assert "drone.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_drone_names_the_shipped_ones():
    with pytest.raises(InputError, match="agilicious192, kingfisher, sim"):
        load_profile("hummingbird")
