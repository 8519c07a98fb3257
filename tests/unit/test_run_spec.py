"""The one description of a run: from options, from a file, and as a command."""

import shlex
from dataclasses import replace

import pytest
import tyro

from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.errors import InputError
from lafr_mjx.run_spec import RunSpec, Usual

ODD = RunSpec("shuttle", "wind5", vehicle="kingfisher", method="lotf", ats="hold", features="body",
              iterations=3, seed=7, plant=2, horizon=15, engine="freebody",
              plugins=("a=m:C(x=[1, 2])", "b=m:D"))  # fmt: skip


@pytest.mark.parametrize("spec", [RunSpec("figure8", "nominal"), ODD])
def test_the_command_and_the_table_describe_the_same_run(spec):
    words = shlex.split(spec.command)
    parsed = tyro.cli(Adapt, args=words[2:])
    assert parsed._spec() == spec
    assert RunSpec.of_table(spec.table()) == spec


def test_a_default_can_be_told_from_what_was_said():
    assert isinstance(tyro.cli(Adapt, args=[]).iterations, Usual)
    assert not isinstance(tyro.cli(Adapt, args=["--iterations", "12"]).iterations, Usual)


def test_what_earlier_versions_did_not_say_has_its_default():
    table = RunSpec("figure8", "wind5").table()
    for key in ("features", "horizon", "plugins"):
        del table[key]
    assert RunSpec.of_table(table) == RunSpec("figure8", "wind5")
    del table["reference"]
    assert RunSpec.of_table(table) == RunSpec("figure8", "wind5")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("seed", "x", "run.seed = 'x': must be a whole number"),
        ("iterations", 1.5, "run.iterations = 1.5: must be a whole number"),
        ("iterations", True, "must be a whole number"),
        ("method", 3, "run.method = 3: must be one of ours, "),
        ("engine", "bullet", "must be one of mjx, freebody"),
        ("task", 1, "run.task = 1: must be text"),
        ("plugins", "x", "must be a list of texts"),
        ("horizon", 2, "run.horizon = 2: must be a whole number from 5 to 200"),
        ("seed", -1, "run.seed = -1: must be a whole number from 0 to"),
    ],
)
def test_a_wrong_value_in_a_file_is_one_clear_line(key, value, message):
    with pytest.raises(InputError, match=message):
        RunSpec.of_table(RunSpec("figure8", "wind5").table() | {key: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": "freebdy"}, "--engine freebdy: must be one of mjx, freebody"),
        ({"ats": "verfied"}, "--ats verfied: must be one of hold, paper, verified"),
        ({"ats": "paper(fastest=0.2)", "method": "geometric"}, "differentiates a policy"),
        ({"noise_prior": 0.0}, "--noise-prior 0.0: must be a number from 0.1 to 10"),
        ({"lag_prior": "2"}, "--lag-prior 2: must be a number from 0.4 to 2"),
        ({"iterations": 2.0}, "--iterations 2.0: must be a whole number"),
        ({"iterations": True}, "--iterations True: must be"),
        ({"seed": "a"}, "--seed a: must be a whole number"),
        ({"scenario": 5}, "--scenario 5: must be text"),
        ({"plugins": (1,)}, "must be a list of texts"),
    ],
)
def test_a_wrong_value_in_a_script_is_one_clear_line(change, message):
    with pytest.raises(InputError, match=message):
        replace(RunSpec("figure8"), **change).check()


def test_a_missing_key_is_named():
    table = RunSpec("figure8", "wind5").table()
    del table["seed"]
    with pytest.raises(InputError, match=r"'run.seed' is missing"):
        RunSpec.of_table(table)


def test_names_of_different_runs_differ():
    changes = [{}, {"ats": "hold"}, {"horizon": 15}, {"features": "body"}, {"seed": 1},
               {"method": "lotf"}, {"scenario": "randomised", "plant": 1}]  # fmt: skip
    names = {replace(RunSpec("figure8", "wind5"), **change).name for change in changes}
    assert len(names) == len(changes)
