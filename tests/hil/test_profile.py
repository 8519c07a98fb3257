# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Profiles: the shipped ones are good, and each kind of nonsense is named."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.errors import InputError
from lafr_mjx.hil.operator.operator_steps import checklist
from lafr_mjx.hil.safety.drone_profile import check_vehicle, load_profile
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.resources import data_folder

SHIPPED = ["sim", "agilicious192", "kingfisher"]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles(name):
    profile = load_profile(name)
    check_vehicle(profile, load_vehicle(profile.vehicle))
    assert profile.simulated == (name == "sim")
    assert load_profile(f"{name}.toml").path == profile.path
    assert profile.pilot.topic("state") == f"/{profile.pilot.quad}/agiros_pilot/state"
    assert profile.pilot.topic("mocap") == f"/mocap/{profile.pilot.quad}/pose"
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
        ("mocap_lost_s = 0.2", "mocap_lost_s = 0.1\nmocap_stale_s = 0.1", "TOML"),
        ("mocap_lost_s = 0.2", "mocap_lost_s = 0.05", ">= 0.1"),
        ("mocap_stale_s = 0.06", "mocap_stale_s = 0.1", None),
        ("battery_s = 2.0", "", "limits.battery_s"),
        ("battery_s = 2.0", "battery_s = 0.1", ">= 0.5"),
        ("voltage_most_v = 17.2", "voltage_most_v = 14.8", "above 'voltage_preflight_v'"),
        ("voltage_most_v = 17.2", "", "limits.voltage_most_v"),
        ("guard = true", "guard = 1", "pilot.guard"),
        ("guard = true", "", "pilot.guard"),
        ("guard = true", "guard = false", None),
        ("blind_s = 2.85", "blind_s = 0.5", ">= 2.4"),
        ("blind_s = 2.85", "", "ladder.blind_s"),
        ("rest_s = 3.0", "rest_s = -1.0", "ladder.rest_s"),
        ("rest_s = 3.0", "", "ladder.rest_s"),
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


@settings(deadline=None)
@given(st.tuples(st.floats(-20, 20), st.floats(-20, 20), st.floats(-1, 10)))
def test_the_guard_is_called_well_inside_of_its_box_only(position):
    pilot = load_profile("sim").pilot
    to_sides = min(np.min(position - pilot.guard_low), np.min(pilot.guard_high - position))
    if pilot.guards(position):
        assert to_sides >= 0.1 - 1e-9
    else:
        assert to_sides <= 0.1 + 1e-9
    assert not dataclasses.replace(pilot, guard=False).guards(position)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_hover_anywhere_within_the_fence_can_be_guarded(name):
    profile = load_profile(name)
    for corner in (profile.fence.low + 0.01, profile.fence.high - 0.01):
        assert profile.pilot.guards(corner)
    for odd in (np.nan, np.inf):
        assert not profile.pilot.guards((0.0, 0.0, odd))


def test_the_checklist_has_the_figures_of_the_profile():
    profile = load_profile("kingfisher")
    lines = checklist(profile)
    assert not any("<" in line or ">" in line for line in lines)
    for told in ("/mocap/kingfisher/pose", "/kingfisher/mavros/battery", "[13.0, 8.0, 5.0]"):
        assert sum(told in line for line in lines) == 1, told
    pilot = dataclasses.replace(profile.pilot, guard=False)
    assert any(
        "has no guard" in line for line in checklist(dataclasses.replace(profile, pilot=pilot))
    )


def test_unknown_drone_names_the_shipped_ones():
    with pytest.raises(InputError, match="agilicious192, kingfisher, mavlink, sim"):
        load_profile("hummingbird")
