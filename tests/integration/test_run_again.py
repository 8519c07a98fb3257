"""Runs that go on: made longer, without checkpoints, with files of the user's own."""

import shutil

import pytest
from plugin_source import SOURCE

import lafr_mjx as lm
from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.errors import InputError

FLY = {"scenario": "nominal", "engine": "freebody", "seed": 100}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    file = tmp_path_factory.mktemp("mine") / "mine.py"
    file.write_text(SOURCE)
    return f"draught={file}:Draught(velocity_mps=[2.0, 0.0, 0.0])"


@pytest.fixture(scope="module")
def run(tmp_path_factory, plugin):
    """One flight in a draught of the user's, then one more."""
    out = tmp_path_factory.mktemp("runs") / "draught"
    lm.adapt("figure8", iterations=1, plugins=[plugin], out=out, **FLY)
    return lm.adapt(resume=out, iterations=2)


def rows(run):
    return [{k: v for k, v in r.items() if k != "wall_s"} for r in run.iterations]


def test_a_run_is_made_longer(run):
    assert [record["iteration"] for record in run.iterations] == [0, 1]
    assert lm.Run(run.path).config["run"]["iterations"] == 2
    with pytest.raises(InputError, match="can only be made longer"):
        lm.adapt(resume=run.path, iterations=1)


def test_a_run_starts_from_the_policy_of_another(run, plugin, tmp_path, capsys):
    stored = run.path / "policy.npz"
    again = lm.adapt("figure8", iterations=1, plugins=[plugin], policy=stored,
                     out=tmp_path / "again", **FLY)  # fmt: skip
    assert f"Policy: from {stored}." in "".join(capsys.readouterr().out.split("\n"))
    assert again.table["time_scale"][0] == run.table["time_scale"][0]
    assert again.table["rmse_m"][0] < 0.7 * run.table["rmse_m"][0], "it knows the draught"


def test_the_plugin_is_flown_with_and_named(run, plugin, tmp_path):
    assert run.config["run"]["plugins"] == [plugin]
    still = lm.adapt("figure8", iterations=1, out=tmp_path / "still", **FLY)
    assert run.table["rmse_m"][0] > 1.2 * still.table["rmse_m"][0]
    blown, calm = (lm.fly("figure8", plugins=own, **FLY)["rmse_m"] for own in ([plugin], []))
    assert blown > 1.2 * calm


def test_a_study_flies_the_same_with_the_same_plugin(run, plugin, tmp_path):
    (result,) = lm.ablate(
        "figure8", methods=["ours"], scenarios=["nominal"], seeds=[100], iterations=2,
        engine="freebody", plugins=[plugin], out=tmp_path / "study", devices=1,
    )  # fmt: skip
    for one, other in zip(result.iterations, run.iterations, strict=True):
        assert one["rmse_m"] == pytest.approx(other["rmse_m"], abs=1e-3)
    assert "--plugins" in result.command


def test_an_edited_plugin_stops_a_run(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    text = (copy / "config.toml").read_text()
    other = tmp_path / "mine.py"
    other.write_text(SOURCE.replace("* self.share", "* 0.5"))
    before = lm.Run(copy).config["run"]["plugins"][0].split("=")[1].split(":")[0]
    (copy / "config.toml").write_text(text.replace(before, str(other)))
    with pytest.raises(InputError, match=r"plugins .* is not what it was"):
        lm.adapt(resume=copy)


def test_without_checkpoints_nothing_is_lost(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    shutil.rmtree(copy / "checkpoints")
    before = rows(lm.Run(copy))
    lm.adapt(resume=copy)  # finished already
    assert rows(lm.Run(copy)) == before and lm.Run(copy).flight(1).time.size
    with pytest.raises(InputError, match="no checkpoint to go on from; they are kept"):
        lm.adapt(resume=copy, iterations=3)
    assert rows(lm.Run(copy)) == before and lm.Run(copy).flight(1).time.size


def test_a_course_that_is_too_long_is_refused(tmp_path):
    task = tmp_path / "long.toml"
    task.write_text(
        'description = "long"\n[path]\nkind = "waypoints"\nperiodic = true\nlap_s = 20.0\n'
        "points = [[2.0, 0.0, 1.5], [-1.0, 1.7, 2.2], [-1.0, -1.7, 1.0]]\n"
    )
    with pytest.raises(InputError, match=r"lasts 21.5 s; a learner takes 15 s at most"):
        Adapt(str(task), out=tmp_path / "out").run()
    assert not (tmp_path / "out").exists()
