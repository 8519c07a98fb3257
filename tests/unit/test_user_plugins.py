"""A user's own plugins as text: what a configuration names can be built again."""

import pytest
from flax import struct
from plugin_source import SOURCE

from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.commands.fly import Fly
from lafr_mjx.errors import InputError
from lafr_mjx.plant import user_plugins
from lafr_mjx.plant.plugins import AirPlugin
from lafr_mjx.plant.vec3 import Vec3


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def build(text):
    return user_plugins.build([text])


def test_a_plugin_of_a_file(file):
    plugins = build(f"draught={file}:Draught(velocity_mps=[1.0, 0, 2], share=0.5)")
    plugin = plugins["draught"]
    assert isinstance(plugin, AirPlugin)
    assert plugin.velocity((), Vec3.zero()) == Vec3(0.5, 0.0, 1.0)


def test_a_plugin_of_a_module_without_parameters():
    assert set(build("fan=lafr_mjx.plant.plugins.fan:FanJet")) == {"fan"}


def test_text_and_plugin_are_the_same(file):
    plugin = build(f"a={file}:Draught(velocity_mps=[1.0, 0.0, 2.0], share=0.25)")["a"]
    text = user_plugins.text_of("b", plugin)
    (again,) = user_plugins.build([text]).values()
    assert text.startswith(f"b={file}:Draught(") and again == plugin
    assert user_plugins.texts_of({"b": plugin}) == (text,)
    assert user_plugins.texts_of([text]) == (text,)


def test_a_relative_file_is_remembered_by_its_full_path(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert user_plugins.located("x=mine.py:Draught(share=1)") == f"x={file}:Draught(share=1)"
    installed = "x=lafr_mjx.plant.plugins.fan:FanJet"
    assert user_plugins.located(installed) == installed


@struct.dataclass
class Strange(AirPlugin):
    what: object = None


@pytest.mark.parametrize("plugins", ["text", [Strange()], Strange(), {"a": Strange}, {"a": 3}])
def test_what_is_no_plugin_is_refused(plugins):
    with pytest.raises(InputError):
        user_plugins.texts_of(plugins)


def test_what_cannot_be_written_down_is_refused():
    with pytest.raises(InputError, match="'what' is no number"):
        user_plugins.text_of("strange", Strange(object()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be NAME=FILE.py:CLASS"),
        ("Draught(share=1)", "must be NAME=FILE.py:CLASS"),
        ("x=FILE:Draught(speed=1)", "its parameters are velocity_mps, share"),
        ("x=FILE:Draught(velocity_mps=[1, 2])", "three numbers"),
        ("x=FILE:Nothing", "has no class 'Nothing'"),
        ("x=FILE:NoPlugin", "'NoPlugin' is no plugin"),
    ],
)
def test_bad_text_is_one_clear_line(file, text, message):
    with pytest.raises(InputError, match=message) as caught:
        build(text.replace("FILE", str(file)))
    assert "\n" not in str(caught.value)


def test_a_name_given_twice(file):
    with pytest.raises(InputError, match="given twice"):
        user_plugins.build([f"x={file}:Draught", f"x={file}:Draught"])


OWN_CODE = """
import jax.numpy as jnp
from flax import struct
from lafr_mjx.plant.plugins import AirPlugin
from lafr_mjx.plant.vec3 import Vec3

@struct.dataclass
class Faulty(AirPlugin):
    speed: float = 1.0

    def BODY
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "velocity(self, memory, point): return self.sped",
            r"AttributeError: .*mine\.py, line 11, in velocity\)",
        ),
        ("velocity(self, memory, point): return 1 / 0", r"ZeroDivision.*line 11, in velocity\)"),
        ("velocity(self, memory): return Vec3.zero()", r"mine\.py:Faulty.*TypeError: .*positional"),
        (
            "velocity(self, memory, point): return None",
            r"mine\.py:Faulty.*fails: .*; see lm\.AirPlugin$",
        ),
        (
            "init(self, draws): raise ValueError('no\\nsuch')",
            r"ValueError: no \(.*, in init\)$",
        ),
        ("__post_init__(self): raise ValueError('off')", r"ValueError: off \(.*in __post_init__\)"),
        (
            "velocity(self, memory, point): return Vec3.zero()\n"
            "    def init(self, draws): return jnp.zeros(2)\n"
            "    def update(self, memory, draws, dt): return jnp.zeros((3, 2))",
            "TypeError: scan body function carry",
        ),
    ],
)
def test_a_fault_in_the_users_own_code_is_one_line(tmp_path, body, told):
    file = tmp_path / "mine.py"
    file.write_text(OWN_CODE.replace("BODY", body))
    with pytest.raises(InputError, match=told) as caught:
        build(f"x={file}:Faulty(speed=2.0)")
    assert "\n" not in str(caught.value) and "Faulty" in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_fault_in_the_users_own_code_leaves_no_folder(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(OWN_CODE.replace("BODY", "velocity(self, memory, point): return self.sped"))
    for command in (Adapt, Fly, Ablate):
        out = {} if command is Fly else {"out": tmp_path / "out"}
        with pytest.raises(InputError, match="line 11, in velocity"):
            command(plugins=(f"x={file}:Faulty",), **out).run()
    assert not (tmp_path / "out").exists()
