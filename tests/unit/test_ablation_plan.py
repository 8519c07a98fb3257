"""Which runs an ablation is made of, and what it refuses before anything is flown."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest

from lafr_mjx.ablation import sweep as sweeps
from lafr_mjx.ablation.chunk import split
from lafr_mjx.ablation.plan import SHARED, Asked, Block, Plan
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.errors import InputError
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.report.paper_runs import METHODS
from lafr_mjx.run_spec import RunSpec

SMALL = Asked((Block("figure8", ("nominal", "wind5"), ("ours", "baseline")),), seeds=(0, 1))


def asked(**changes):
    return dataclasses.replace(SMALL, **changes)


def test_every_combination_is_flown_once():
    plan = Plan.of(asked(sweep=("delay_ms=0,20,40", "mass_scale=1,1.2")))
    assert len(plan.runs) == 2 * 2 * 2 * 3 * 2
    assert len({run.name for run in plan.runs}) == len(plan.runs)
    delays = {plan.scenario(run).settings.command_delay_ms for run in plan.runs}
    masses = {plan.scenario(run).settings.mass_scale for run in plan.runs}
    assert (delays, masses) == ({0.0, 20.0, 40.0}, {1.0, 1.2})


def test_every_option_of_a_run_is_one_of_many():
    """With the same default; those that vary from run to run have a plural of their own."""
    of_many = {field.name: field.default for field in dataclasses.fields(Ablate)}
    for field in dataclasses.fields(RunSpec):
        if field.name in SHARED:
            assert of_many[field.name] == field.default, field.name
        elif field.name != "log":
            assert f"{field.name}s" in of_many


def test_the_default_is_the_papers_comparison():
    plan = Plan.of(Ablate()._asked())
    assert len(plan.runs) == 5 * 2 * 3
    assert {run.spec.method for run in plan.runs} == set(METHODS)


def test_the_preset_adds_the_papers_other_flights():
    plan = Plan.of(Ablate(preset="paper")._asked())
    places = {(run.spec.task, run.spec.scenario) for run in plan.runs}
    assert places == {
        ("figure8", "nominal"), ("figure8", "wind5"), ("figure8", "payload"),
        ("figure8", "propeller"), ("figure8", "combined"), ("shuttle", "nominal"),
        ("inspection", "fan"),
    }  # fmt: skip
    assert len(plan.runs) == 3 * (10 + 3 + 1 + 1)


def test_many_plants_are_one_method_on_random_plants():
    plan = Plan.of(Ablate(plants=8)._asked())
    specs = [run.spec for run in plan.runs]
    assert {(s.method, s.scenario, s.seed) for s in specs} == {("ours", "randomised", 0)}
    scenarios = [plan.scenario(run) for run in plan.runs]
    assert len({str(scenario.settings) for scenario in scenarios}) == 8
    # The very plants that a single run draws.
    assert scenarios[5].settings == load_scenario("randomised").drawn(0, 5).settings


def test_a_swept_scenario_is_what_its_file_says(tmp_path):
    plan = Plan.of(asked(sweep=("wind_speed_mps=3",), seeds=(0,)))
    for name, text in plan.scenario_files().items():
        (tmp_path / name).write_text(text)
    for run in plan.runs:
        words = shlex.split(plan.command(run, tmp_path))
        file = words[words.index("--scenario") + 1]
        read = load_scenario(str(tmp_path / file.rsplit("/", 1)[-1]))
        assert read.settings == plan.scenario(run).settings
        assert sum(x**2 for x in read.settings.wind_mps) == pytest.approx(9.0)


def test_a_swept_range_leaves_the_other_draws_alone():
    free = load_scenario("randomised").drawn(0, 3).settings
    swept = sweeps.at("randomised", (("delay_ms", 40.0),)).scenario.drawn(0, 3).settings
    assert swept.command_delay_ms == 40.0
    assert swept.replace(command_delay_ms=free.command_delay_ms) == free


def test_the_command_that_repeats_a_run():
    plan = Plan.of(Ablate(plants=3, engine="freebody", iterations=5)._asked())
    words = shlex.split(plan.command(plan.runs[2], Path("x")))
    assert words[:3] == ["lafr-mjx", "adapt", "figure8"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given == {
        "--scenario": "randomised", "--method": "ours", "--seed": "0", "--plant": "2",
        "--iterations": "5", "--engine": "freebody",
    }  # fmt: skip


def test_chunks_share_task_and_kind_of_controller():
    blocks = (
        Block("figure8", ("nominal",), ("ours", "geometric")),
        Block("shuttle", ("nominal",), ("ours",)),
    )
    chunks = split(Plan.of(asked(blocks=blocks, seeds=(0, 1, 2))).runs, 2)
    assert sorted(len(chunk) for chunk, _ in chunks) == [1, 1, 1, 2, 2, 2]
    assert {size for _, size in chunks} == {2}
    for chunk, _ in chunks:
        assert len({(run.spec.task, run.spec.method == "geometric") for run in chunk}) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sweep": ("delay_ms=",)}, "has no values"),
        ({"sweep": ("delay_ms=0,,20",)}, "commas is missing"),
        ({"sweep": ("delay_ms",)}, "NAME=VALUE"),
        ({"sweep": ("flavour=1",)}, "'flavour' cannot be swept; it must be one of .*delay_ms"),
        ({"sweep": ("delay_ms=1,x",)}, "must be numbers"),
        ({"sweep": ("delay_ms=nan",)}, "finite"),
        ({"sweep": ("delay_ms=1,1",)}, "given twice"),
        ({"sweep": ("delay_ms=1", "command_delay_ms=2")}, "given twice"),
        ({"sweep": ("delay_ms=500",)}, "delay_ms=500.*<= 100"),
        ({"blocks": (Block("figure8", ("nominal",), ("magic",)),)}, "unknown method 'magic'"),
        ({"blocks": (Block("figure8", ("calm",), ("ours",)),)}, "calm"),
        ({"blocks": (Block("figure9", ("nominal",), ("ours",)),)}, "figure9"),
        ({"blocks": (Block("figure8", ("nominal",) * 2, ("ours",)),)}, "asked for 2 times"),
        ({"blocks": (Block("figure8", ("nominal",), ()),)}, "nothing to fly"),
        ({"plants": 4}, "'nominal' is the same for every plant"),
        ({"seeds": (-1,)}, "--seeds"),
        ({"common": RunSpec(iterations=0)}, "--iterations"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        Plan.of(asked(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ()}, "--methods: names none"),
        ({"seeds": ()}, "--seeds: names none"),
        ({"chunk": 0}, "--chunk 0"),
        ({"devices": 0}, "--devices 0"),
        ({"devices": 65536}, "--devices 65536: JAX has [0-9]+ here"),
        ({"keep_flights": (12,)}, "--keep-flights 12"),
        ({"preset": "paper", "methods": ("ours",)}, "--preset paper: sets methods"),
        ({"ray": "127.0.0.1:1", "devices": 2}, "--devices"),
        ({"ray": "127.0.0.1:1", "processes": 2}, "--processes"),
        ({"processes": 2, "devices": 2}, "--devices"),
        ({"processes": 0}, "--processes 0: must be from 1 to 256"),
        ({"ray": "local"}, "--ray 'local': must be HOST:PORT"),
        ({"ray": "somewhere:port"}, "--ray 'somewhere:port': must be HOST:PORT"),
    ],
)
def test_bad_arguments_leave_no_folder(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        Ablate(out=tmp_path / "x", **changes).run()
    assert not (tmp_path / "x").exists()
