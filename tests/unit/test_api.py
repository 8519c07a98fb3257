"""The public names, and a run as an object."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from needs import require_module
from report_runs import write_run

import lafr_mjx as lm
from lafr_mjx import cli
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.commands.certify import Certify
from lafr_mjx.errors import InputError

SPEC = lm.RunSpec("figure8", "wind5", iterations=3, engine="freebody")


def test_importing_is_cheap_and_every_name_is_there():
    code = "import sys, lafr_mjx; print(sorted({'jax', 'tyro', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    for name in lm.__all__:
        assert getattr(lm, name) is not None
    assert set(lm.__all__) <= set(dir(lm))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lm.nothing  # type: ignore[attr-defined]


def test_the_reference_covers_exactly_the_public_names():
    pages = Path(lm.__file__).parents[1] / "docs" / "api"
    told = [n for p in pages.glob("*.md") for n in re.findall(r"^::: (.*)$", p.read_text(), re.M)]
    assert sorted(told) == sorted(f"lafr_mjx.{name}" for name in lm.__all__)


def test_examples_need_public_names_only():
    examples = list((Path(lm.__file__).parents[1] / "examples").glob("*.py"))
    assert examples
    deep = [path.name for path in examples
            if re.search(r"^\s*(from|import) lafr_mjx\.", path.read_text(), re.M)]  # fmt: skip
    assert deep == []
    require_module("gymnasium", "gym")
    assert lm.envs.gym.ID and lm.envs.QuadrotorEnvironment and lm.envs.action_of
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lm.envs.nothing  # type: ignore[attr-defined]


def test_a_drone_is_flown_from_a_script_by_the_words_of_the_command():
    assert all(getattr(lm.hil, name) is not None for name in lm.hil.__all__)
    assert {"vehicle", "fault", "real_time"} <= set(inspect.signature(lm.hil.fly).parameters)
    with pytest.raises(InputError, match="there is no option 'vehicel'; did you mean 'vehicle'"):
        lm.hil.fly("figure8", vehicel="sim")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lm.hil.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "option"),
    [("fly", "json"), ("adapt", "json"), ("ablate", "json"), ("fit", "json"), ("bounds", "json"),
     ("certify", "against"), ("watch", "strobe"), ("make_report", "bounds"),
     ("check_claims", "json"), ("reproduce", "seeds"), ("load_task", "limits"),
     ("load_scenario", "name_or_path"), ("load_vehicle", "name_or_path"), ("hil.fly", "fault"),
     ("hil.check", "seconds"), ("hil.compare", "engine"), ("hil.replay", "bag")],
)  # fmt: skip
def test_functions_tell_their_options_and_how_they_are_called(name, option):
    function = attrgetter(name)(lm)
    options = inspect.signature(function).parameters
    assert option in options and "options" not in options
    examples = doctest.DocTestParser().get_examples(function.__doc__)
    assert examples[0].source == "import lafr_mjx as lm\n", "or it cannot be pasted"
    call = next(one.source for one in examples if f"lm.{name}(" in one.source)
    (made,) = (node for node in ast.walk(ast.parse(call)) if _is_call(node, f"lm.{name}"))
    assert {keyword.arg for keyword in made.keywords} <= set(options)


def _is_call(node, name):
    return isinstance(node, ast.Call) and ast.unparse(node.func) == name


@pytest.mark.parametrize("function", [lm.load_task, lm.load_scenario, lm.load_vehicle])
def test_examples_that_only_load_run(function):
    examples = doctest.DocTestParser().get_examples(function.__doc__)
    assert len(examples) == 2
    exec("".join(example.source for example in examples), {})


def test_a_script_makes_pages_and_pictures_like_the_command_line(tmp_path):
    run = write_run(tmp_path, SPEC, flights=(0, 2))
    lm.make_report(run, out=tmp_path / "page.html")
    assert "figure8" in (tmp_path / "page.html").read_text()
    with pytest.raises(InputError, match=r"strobe .*must end in"):
        lm.watch(str(run), strobe="a.txt")
    with pytest.raises(InputError, match="--seeds"):
        lm.reproduce(quick=True, seeds=(3,))
    lm.check_claims(only_print=True, out=tmp_path / "claims", json=tmp_path / "claims.json")
    assert (tmp_path / "claims.json").is_file()


def test_every_command_has_a_function_with_its_options():
    """But for those that only show, and `demo`, which is `adapt` and `watch`."""
    called = {"view": "watch", "report": "make_report", "check-claims": "check_claims"}
    for name in cli._COMMANDS.keys() - {"list", "demo"}:
        assert callable(getattr(lm, called.get(name, name)))


@pytest.mark.parametrize("function", [lm.ablate, lm.certify])
def test_many_runs_are_asked_for_in_the_commands_words(function, monkeypatch):
    seen = []
    for command in (Ablate, Certify):
        monkeypatch.setattr(command, "run", lambda command: seen.append(command))
    function("dash", methods="ours", seeds=range(2), sweep={"delay_ms": [0, 40]}, plants=4)
    function()
    assert (seen[0].tasks, seen[0].methods, seen[0].seeds) == (("dash",), ("ours",), (0, 1))
    assert (seen[0].sweep, seen[0].plants) == (("delay_ms=0,40",), 4)
    assert seen[1].tasks == type(seen[1]).tasks and seen[1].plants == type(seen[1]).plants


def test_a_wrong_option_is_named():
    with pytest.raises(lm.InputError, match="there is no option 'flavour'"):
        lm.fly("figure8", flavour=3)


@pytest.mark.parametrize("values", [3, "0,3"])
def test_a_sweep_without_a_list_of_values_is_refused(values):
    with pytest.raises(lm.InputError, match="sweep: 'delay_ms' must have a list of values"):
        lm.ablate("figure8", sweep={"delay_ms": values})


@pytest.mark.parametrize(
    ("function", "options"),
    [(lm.bounds, {"only": ("unform",)}), (lm.bounds, {"only": "unform"}),
     (lm.bounds, {"rotor_yaw": "loose"}), (lm.fly, {"engine": "warp"})],
)  # fmt: skip
def test_an_unknown_word_is_refused_with_those_that_are_allowed(function, options):
    with pytest.raises(InputError, match=r"(unform|loose|warp)': must be one of .*free"):
        function("figure8", **options)


def test_bounds_are_still_a_function_after_their_package_was_loaded():
    assert lm.bounds("figure8", only=("uniform",))["uniform_ceiling_s"] == pytest.approx(2.56, 0.01)
    assert callable(lm.bounds)


def test_a_run_has_its_table_and_its_flights(tmp_path):
    run = lm.Run(write_run(tmp_path, SPEC, flights=(0, 2)))
    table = run.table
    assert table["peak_speed_mps"].shape == (3,) and table["peak_speed_mps"].dtype == float
    assert table["crashed"].dtype == bool and table["bound_by"][0] == "trust region"
    assert np.isnan(table["landmark_miss_m"]).all(), "what is not known"
    assert "candidates" not in table and len(run.iterations[0]["candidates"]) == 8
    assert run.flight(-1).time.shape == run.flight(1).time.shape
    assert run.config["run"]["task"] == "figure8" and "wind5" in repr(run)
    with pytest.raises(InputError, match="has 2 recorded flights, not 2"):
        run.flight(2)


def test_a_run_is_a_frame_where_pandas_is_there(tmp_path, monkeypatch):
    run = lm.Run(write_run(tmp_path, SPEC, flights=()))
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    assert run.frame().keys() == run.table.keys()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="needs pandas"):
        run.frame()
