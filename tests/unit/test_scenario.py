"""Scenarios: what ships loads, what is wrong is named, what is drawn stays in its range."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.commands.certify import Certify
from lafr_mjx.commands.fly import Fly
from lafr_mjx.errors import InputError
from lafr_mjx.hil.commands.fly_drone import Fly as HilFly
from lafr_mjx.hil.operator import drone_flights
from lafr_mjx.plant.scenario import Settings, load_scenario
from lafr_mjx.plant.scenario_params import conditions_for, params_for
from lafr_mjx.plant.vehicle import load_vehicle

SHIPPED = (
    "battery", "combined", "fan", "nominal", "payload", "payload-midway", "propeller",
    "randomised",
    "randomised-noisy", "still", "wind-midway", "wind5",
)  # fmt: skip


@pytest.fixture(scope="module")
def vehicle():
    return load_vehicle("lafr192")


def written(folder, text, name="mine.toml"):
    file = folder / name
    file.write_text(text)
    return str(file)


# ---------------------------------------------------------------- what ships


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_load_and_give_finite_parameters(name, vehicle):
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description
    for flight in (0, 6, 7):
        conditions = conditions_for(vehicle, scenario, flight)
        for params in (conditions.before, conditions.after):
            assert float(params.inertial.mass) > 0.0
            assert all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves(params))


def test_still_lists_every_setting_with_its_default():
    assert load_scenario("still").settings == Settings()


def test_stated_conditions():
    nominal, wind = load_scenario("nominal").settings, load_scenario("wind5").settings
    assert (nominal.command_delay_ms, nominal.sensing_delay_ms) == (20.0, 10.0)
    assert (nominal.position_noise_m, nominal.velocity_noise_mps) == (0.001, 0.02)
    assert nominal.attitude_noise_rad == 0.002
    assert np.linalg.norm(wind.wind_mps) == pytest.approx(5.0)
    assert np.array(wind.wind_mps) / 5.0 == pytest.approx([0.8, 0.6, 0.0])
    assert wind.gust_mps == 0.5
    combined = load_scenario("combined").settings
    assert (combined.payload_kg, combined.payload_position_m) == (0.06, (0.02, 0.0, 0.0))
    assert combined.rotor_scale == (0.80, 0.90, 0.85, 0.90)
    assert combined.drag_scale == 1.0  # from its base


def test_changes_in_a_run():
    scenario = load_scenario("payload-midway")
    for flight, payload in ((0, 0.0), (5, 0.0), (6, 0.06), (7, 0.06), (100, 0.06)):
        before, after, start, _ = scenario.settings_for(flight)
        assert before.payload_kg == after.payload_kg == payload
        assert start == float("inf")
    wind = load_scenario("wind-midway")
    before, after, start, over = wind.settings_for(6)
    assert (before.wind_mps, after.wind_mps) == ((0.0, 0.0, 0.0), (4.0, 3.0, 0.0))
    assert (start, over) == (2.0, 3.0)
    assert wind.settings_for(7)[0].wind_mps == (4.0, 3.0, 0.0)


# ---------------------------------------------------------------- a user's files


def test_a_users_file_on_a_shipped_base_and_on_another_file(tmp_path):
    written(tmp_path, 'base = "wind5"\npayload_kg = 0.03\n', "mine.toml")
    mine = load_scenario(written(tmp_path, 'base = "mine.toml"\ngust_mps = 1.0\n', "other.toml"))
    assert mine.settings.payload_kg == 0.03
    assert mine.settings.gust_mps == 1.0
    assert mine.settings.wind_mps == (4.0, 3.0, 0.0)


def test_two_changes_at_one_moment_do_not_depend_on_their_order(tmp_path):
    """A jump and a ramp that start together: the ramp starts from after the jump."""
    jump = "[[change]]\nflight = 2\npayload_kg = 0.05\n"
    ramp = "[[change]]\nflight = 2\nover_s = 3.0\ngust_mps = 1.0\n"
    for text in (jump + ramp, ramp + jump):
        scenario = load_scenario(written(tmp_path, text))
        before, after, start, over = scenario.settings_for(2)
        assert (before.payload_kg, after.payload_kg) == (0.05, 0.05)
        assert (before.gust_mps, after.gust_mps) == (0.0, 1.0)
        assert (start, over) == (0.0, 3.0)


BAD = {
    "unknown key": ("payload_g = 60", "payload_g"),
    "unknown key in a change": ("[[change]]\nflight = 1\nwind = [1, 0, 0]", r"change\[0\]\.wind"),
    "unknown key in ranges": ("[randomise]\nmass = [0.8, 1.2]", r"randomise\.mass"),
    "wrong type": ('payload_kg = "60 g"', "payload_kg"),
    "a boolean": ("gust_mps = true", "gust_mps"),
    "not a number": ("drag_scale = nan", "drag_scale"),
    "infinite": ("wind_mps = [inf, 0.0, 0.0]", "wind_mps"),
    "a number for a vector": ("wind_mps = 5.0", "wind_mps"),
    "a short vector": ("rotor_scale = [1.0, 1.0, 1.0]", "rotor_scale"),
    "out of range below": ("command_delay_ms = -1", "command_delay_ms"),
    "out of range above": ("command_delay_ms = 101", "command_delay_ms"),
    "no mass": ("mass_scale = 0.0", "mass_scale"),
    "dead rotor": ("rotor_scale = [0.0, 1.0, 1.0, 1.0]", "rotor_scale"),
    "probability": ("command_loss = 1.5", "command_loss"),
    "charge": ("battery_charge = 2", "battery_charge"),
    "delay and jitter": ("command_delay_ms = 80\ncommand_jitter_ms = 30", "command_jitter_ms"),
    "sensing delay": ("sensing_delay_ms = 50\nsensing_jitter_ms = 20", "sensing_jitter_ms"),
    "delay by a change": (
        "command_jitter_ms = 50\n[[change]]\nflight = 1\ncommand_delay_ms = 60",
        "command_delay_ms",
    ),
    "delay by two changes": (
        "[[change]]\nflight = 1\ncommand_delay_ms = 60\n"
        "[[change]]\nflight = 2\ncommand_jitter_ms = 50",
        "command_delay_ms",
    ),
    "delay by a draw": (
        "command_jitter_ms = 50\n[randomise]\ncommand_delay_ms = [0.0, 60.0]",
        "command_delay_ms",
    ),
    "change without settings": ("[[change]]\nflight = 3", r"change\[0\]"),
    "change without a flight": ("[[change]]\npayload_kg = 0.1", "flight"),
    "a fractional flight": ("[[change]]\nflight = 1.5\npayload_kg = 0.1", "flight"),
    "ramped payload": ("[[change]]\nflight = 1\nover_s = 2\npayload_kg = 0.1", "over_s"),
    "changed charge": ("[[change]]\nflight = 1\nbattery_charge = 0.5", "battery_charge"),
    "two ramps in a flight": (
        "[[change]]\nflight = 1\nover_s = 2\ngust_mps = 1\n"
        "[[change]]\nflight = 1\ntime_s = 3\ndrag_scale = 1",
        "change",
    ),
    "reversed range": ("[randomise]\nmass_scale = [1.3, 0.8]", r"randomise\.mass_scale"),
    "range out of range": ("[randomise]\nwind_speed_mps = [0, 99]", r"randomise\.wind_speed_mps"),
    "range of one": ("[randomise]\nmass_scale = [1.0]", r"randomise\.mass_scale"),
    "base of the wrong type": ("base = 3", "base"),
    "table for a list": ("[change]\nflight = 1", "change"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_file_and_key(tmp_path, case):
    text, key = BAD[case]
    file = written(tmp_path, text)
    with pytest.raises(InputError, match=key) as caught:
        load_scenario(file)
    message = str(caught.value)
    assert file in message
    assert "\n" not in message


def test_unknown_names(tmp_path):
    with pytest.raises(InputError, match=r"unknown scenario 'windy'.*wind5"):
        load_scenario("windy")
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        load_scenario(str(tmp_path / "nowhere.toml"))
    with pytest.raises(InputError, match="unknown scenario 'nothing'"):
        load_scenario(written(tmp_path, 'base = "nothing"'))


def test_a_file_without_a_base_is_said_to_be_ideal(tmp_path):
    alone = load_scenario(written(tmp_path, "gust_mps = 1.0", "alone.toml"))
    assert "alone.toml has no 'base'" in alone.note and alone.settings.command_delay_ms == 0.0
    assert load_scenario(written(tmp_path, 'base = "alone.toml"')).note == alone.note
    assert not load_scenario("still").note and not load_scenario("wind5").note


def test_each_command_says_once_that_a_file_without_a_base_is_ideal(tmp_path, monkeypatch, capsys):
    alone = written(tmp_path, "gust_mps = 1.0", "alone.toml")
    own: Any = {"scenario": alone, "engine": "freebody"}
    many: Any = {"scenarios": (alone,), "sweep": ("delay_ms=0,40",), "seeds": (0, 1)}
    told: list[str] = []
    Fly(**own).fly(told.append)
    assert told[0] == load_scenario(alone).note
    monkeypatch.setattr(AdaptationJob, "work", lambda job, folder, report: 1 / 0)
    monkeypatch.setattr(Ablate, "_work", lambda *arguments: 1 / 0)
    monkeypatch.setattr(drone_flights, "fly_fixed", lambda *arguments: 1 / 0)
    for command in (
        Adapt(**own, out=tmp_path / "adapt"),
        Ablate(**many, out=tmp_path / "ablate"),
        Certify(**many, plants=1, out=tmp_path / "certify"),
        HilFly(scenario=alone, fixed=True, out=tmp_path / "hil"),
    ):
        with pytest.raises(ZeroDivisionError):
            command.run()
        shown = " ".join(capsys.readouterr().out.split())
        assert shown.count("has no 'base'") == 1, command


def test_a_circle_of_bases_is_named(tmp_path):
    written(tmp_path, 'base = "b.toml"', "a.toml")
    file = written(tmp_path, 'base = "a.toml"', "b.toml")
    with pytest.raises(InputError, match=r"'base'.*circle"):
        load_scenario(file)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"payload_kg = ", b"[" * 3000])
def test_what_is_no_toml(tmp_path, content):
    file = tmp_path / "mine.toml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"mine\.toml"):
        load_scenario(str(file))


# ---------------------------------------------------------------- random plants


def test_draws_stay_in_their_ranges_and_fill_them():
    scenario = load_scenario("randomised")
    assert scenario.randomised
    drawn = [scenario.drawn(3, i).settings for i in range(400)]
    for key in ("mass_scale", "rotor_scale", "drag_scale", "command_delay_ms", "noise_scale"):
        low, high = scenario.ranges[key]
        values = np.array([getattr(s, key) for s in drawn]).ravel()
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high >= values.max() > high - 0.05 * (high - low)
    wind = np.array([s.wind_mps for s in drawn])
    speed = np.linalg.norm(wind, axis=1)
    assert speed.max() <= 5.0
    assert np.all(wind[:, 2] == 0.0)
    assert np.abs(wind[:, :2].mean(axis=0)).max() < 4 * 5.0 / np.sqrt(6 * 400)  # any direction
    # A factor is as likely to halve as to double.
    drag = np.array([s.drag_scale for s in drawn])
    assert np.mean(drag < 1.0) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(400))
    # Each rotor for itself.
    rotors = np.array([s.rotor_scale for s in drawn])
    assert np.abs(np.corrcoef(rotors.T) - np.eye(4)).max() < 4 / np.sqrt(400)
    # What has no range stays as the base says.
    assert {s.gust_mps for s in drawn} == {0.0}


def test_a_plant_is_known_by_seed_and_index():
    scenario = load_scenario("randomised")
    one = scenario.drawn(5, 2)
    assert one == scenario.drawn(5, 2)
    assert one.settings != scenario.drawn(5, 3).settings
    assert one.settings != scenario.drawn(6, 2).settings
    assert (one.name, one.randomised) == ("randomised-5-2", False)
    assert one.drawn(9) == one  # nothing left to draw
    # Not by how many are drawn, nor by the order of the file.
    turned = dataclasses.replace(scenario, ranges=dict(reversed(scenario.ranges.items())))
    assert turned.drawn(5, 2).settings == one.settings
    assert [scenario.drawn(5, i).settings for i in range(5)][2] == one.settings


def test_without_ranges_there_is_one_plant_only():
    scenario = load_scenario("nominal")
    assert scenario.drawn(5, 0) == scenario
    with pytest.raises(InputError, match=r"plant 3 of the scenario 'nominal'.*plant 0"):
        scenario.drawn(5, 3)


def test_settings_reach_the_plant(vehicle):
    settings = Settings(
        mass_scale=1.2, payload_kg=0.05, payload_position_m=(0.01, 0.0, 0.0),
        rotor_scale=(0.8, 1.0, 0.9, 1.0), drag_scale=2.0, command_delay_ms=23.0,
        command_jitter_ms=4.0, command_loss=0.1, sensing_delay_ms=12.0, noise_scale=2.0,
        position_noise_m=0.001, wind_mps=(3.0, 4.0, 0.0), gust_mps=0.7,
        battery_strength=0.5, battery_charge=0.9,
    )  # fmt: skip
    params = params_for(vehicle, settings)
    plugins: dict[str, Any] = dict(params.plugins)
    assert float(params.inertial.mass) == pytest.approx(1.2 * vehicle.mass + 0.05)
    assert float(params.inertial.centre.x) == pytest.approx(0.05 * 0.01 / (1.2 * 0.192 + 0.05))
    ratio = np.array(params.rotors.thrust_coefficient) / vehicle.rotors.thrust_coefficient
    assert ratio == pytest.approx([0.8, 1.0, 0.9, 1.0])
    # The flight controller keeps believing in the profile.
    assert float(params.controller.mass) == pytest.approx(vehicle.mass)
    still = params_for(vehicle, Settings())
    assert jax.tree.all(
        jax.tree.map(np.array_equal, params.controller.mixer, still.controller.mixer)
    )
    delay = plugins["command_delay"]
    assert [float(x) for x in (delay.delay, delay.jitter, delay.loss)] == pytest.approx(
        [0.023, 0.004, 0.1]
    )
    assert float(plugins["latency"].delay) == pytest.approx(0.012)
    assert float(plugins["noise"].position) == pytest.approx(0.002)
    assert np.asarray(plugins["wind"].wind.array()) == pytest.approx([3.0, 4.0, 0.0])
    assert np.asarray(plugins["gusts"].along.array()) == pytest.approx([0.6, 0.8, 0.0])
    assert np.asarray(plugins["gusts"].intensity.array()) == pytest.approx([0.7] * 3)
    # Rotor drag at hover speed, per unit mass, times the scale.
    total = 4.0 * vehicle.hover_speed * np.asarray(plugins["rotor_drag"].coefficient.array())
    assert total == pytest.approx(2.0 * vehicle.mass * np.array([0.3, 0.3, 0.15]), rel=1e-5)
    assert float(plugins["body_drag"].coefficient) == pytest.approx(2.0 * 0.02 * vehicle.mass)
    assert float(plugins["battery"].strength) == 0.5
    assert float(plugins["battery"].capacity) == pytest.approx(450 * 3.6)
