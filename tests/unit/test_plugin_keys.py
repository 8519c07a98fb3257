"""A plugin's file is all there is to it: found, set, checked, changed, drawn and swept."""

import pickle
import sys

import pytest

from lafr_mjx.ablation import sweep
from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.errors import InputError
from lafr_mjx.plant import plugins, user_plugins
from lafr_mjx.plant.plugins import AirPlugin
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.scenario_params import conditions_for, params_for
from lafr_mjx.plant.settings import Setting, Settings, keys, shipped_keys
from lafr_mjx.plant.simulation import air_velocity
from lafr_mjx.plant.vec3 import Vec3
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.run_spec import RunSpec

SOURCE = '''
from flax import struct
from lafr_mjx.plant.plugins import AirPlugin, Setting
from lafr_mjx.plant.vec3 import Vec3

@struct.dataclass
class Lift(AirPlugin):
    """Rising air."""
    {shipped_as}
    scenario_keys = (
        Setting("{key}", at_most=800.0, parameter="strength", unit=0.01),
        Setting("{key}_steps", 1.0, at_most=9.0, change="jump"),
    )
    strength: float = 0.0

    def velocity(self, memory, point):
        return Vec3(0.0, 0.0, self.strength)
'''


@pytest.fixture(scope="module")
def vehicle():
    return load_vehicle("lafr192")


@pytest.fixture
def lift(tmp_path, monkeypatch):
    """A new file among the shipped plugins; nothing else is touched."""
    (tmp_path / "lift.py").write_text(
        SOURCE.format(shipped_as='shipped_as = "lift"', key="lift_cmps")
    )
    monkeypatch.setattr(plugins, "__path__", [*plugins.__path__, str(tmp_path)])
    plugins.shipped.cache_clear()
    yield
    sys.modules.pop("lafr_mjx.plant.plugins.lift", None)
    plugins.shipped.cache_clear()


def scenario(folder, text):
    file = folder / "mine.toml"
    file.write_text(text)
    return load_scenario(str(file))


def updraught(params):
    memories = {name: () for name in params.plugins} | {"gusts": (0.0,) * 5}
    return float(air_velocity(params, memories, Vec3.zero()).z)


def test_a_new_file_is_a_plugin_with_its_keys(lift, tmp_path, vehicle):
    assert plugins.Lift in plugins.shipped()
    assert list(shipped_keys())[-2:] == ["lift_cmps", "lift_cmps_steps"]
    assert updraught(params_for(vehicle, Settings())) == 0.0
    mine = scenario(tmp_path, 'base = "nominal"\nlift_cmps = 200\n')
    assert updraught(params_for(vehicle, mine.settings)) == 2.0


def test_its_limits_are_enforced(lift, tmp_path):
    with pytest.raises(InputError, match=r"mine\.toml: 'lift_cmps' is 801; .* >= 0 and <= 800"):
        scenario(tmp_path, "lift_cmps = 801")
    with pytest.raises(InputError, match=r"'lift_cmp'; did you mean 'lift_cmps'"):
        scenario(tmp_path, "lift_cmp = 1")
    with pytest.raises(InputError, match=r"over_s' is 2; .*lift_cmps_steps, which can only jump"):
        scenario(tmp_path, "[[change]]\nflight = 1\nover_s = 2\nlift_cmps_steps = 3")


def test_it_is_changed_drawn_and_swept(lift, tmp_path, vehicle):
    change = "[[change]]\nflight = 1\ntime_s = 1\nover_s = 2\nlift_cmps = 300\n"
    conditions = conditions_for(vehicle, scenario(tmp_path, change), 1)
    assert [updraught(p) for p in (conditions.before, conditions.after)] == [0.0, 3.0]
    ranges = scenario(tmp_path, "[randomise]\nlift_cmps = [100, 200]")
    drawn = {ranges.drawn(0, i).settings.lift_cmps for i in range(5)}
    assert len(drawn) == 5 and all(100.0 <= value <= 200.0 for value in drawn)
    (point,) = sweep.points([sweep.Sweep.parse("lift_cmps=400")])
    assert sweep.at("wind5", point).scenario.settings.lift_cmps == 400.0


@pytest.fixture
def own(tmp_path):
    """A user's file of the same kind."""
    file = tmp_path / "mine.py"
    file.write_text(SOURCE.format(shipped_as="", key="thermal_cmps"))
    return f"thermal={file}:Lift(strength=0.5)"


def test_a_users_plugin_has_keys_too(own, tmp_path, vehicle):
    before = AdaptationJob.build(RunSpec("figure8")).digests()
    (tmp_path / "mine.toml").write_text('base = "nominal"\nthermal_cmps = 200\n')
    spec = RunSpec("figure8", scenario=str(tmp_path / "mine.toml"), plugins=(own,))
    job, users = AdaptationJob.build(spec), user_plugins.build([own])
    assert updraught(params_for(vehicle, job.scenario.settings, (), users)) == 2.0
    assert job.scenario.settings.thermal_cmps_steps == 1.0  # not set: its default
    # Without the key the plugin is as it was given.
    assert updraught(params_for(vehicle, Settings(), (), users)) == 0.5
    assert "thermal_cmps" in sweep.sweepable()
    # A worker on another machine, and runs without the plugin, are not concerned.
    assert pickle.loads(pickle.dumps(job.scenario)) == job.scenario
    assert AdaptationJob.build(RunSpec("figure8")).digests() == before
    with pytest.raises(InputError, match="sets 'thermal_cmps', but the plugin"):
        params_for(vehicle, job.scenario.settings)


def test_a_shipped_class_of_the_users_stays_as_given(vehicle):
    wind = plugins.SteadyWind(Vec3(0.0, 0.0, 1.0))
    params = params_for(vehicle, Settings(wind_mps=(0.0, 0.0, 3.0)), (), {"wind": wind})
    assert updraught(params) == 1.0


def test_no_key_is_declared_twice():
    declared = [setting.key for kind in plugins.shipped() for setting in kind.scenario_keys]
    names = [kind.shipped_as for kind in plugins.shipped()]
    assert len(set(declared)) == len(declared) and len(set(names)) == len(names)
    with pytest.raises(InputError, match="Taken: the scenario key 'gust_mps' is taken"):
        type("Taken", (AirPlugin,), {"scenario_keys": (Setting("gust_mps"),)})


def test_settings_are_frozen_and_known():
    with pytest.raises(AttributeError, match="frozen"):
        Settings().gust_mps = 1.0
    with pytest.raises(TypeError, match="gusts_mps"):
        Settings(gusts_mps=1.0)
    with pytest.raises(AttributeError, match="gusts_mps"):
        _ = Settings().gusts_mps
    assert "wind_speed_mps" in keys() and "wind_speed_mps" not in vars(Settings())
