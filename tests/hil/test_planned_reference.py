# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false
"""References planned in flight, through the wire in lockstep: flown and stored, or refused."""

import numpy as np
from adaptation_rig import adapt, events

from lafr_mjx.hil.control.legs import load_leg, planned_trouble
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.reference.path import derivatives
from lafr_mjx.runs.rollout_file import load_path
from lafr_mjx.runs.run_folder import RunFolder
from lafr_mjx.tasks import load_task

TASK = load_task("figure8")

HIGHER = """
from typing import NamedTuple


class Higher(NamedTuple):
    def start(self, task):
        return task

    def plan(self, known):
        coefficients = known.task.coefficients.at[:, 2, 0].add(0.34)
        return known.task._replace(coefficients=coefficients)
"""


def stored(folder, number):
    return load_path(folder.path / "rollouts" / f"{number:03d}.npz")


def test_a_plan_is_flown_as_its_profile_allows_and_stored_with_its_flight(tmp_path):
    summary = adapt(tmp_path, 3, reference="space-time", corridor=0.15)
    folder = RunFolder.open(tmp_path / "run")
    records = folder.iterations()
    assert [record["plan_refused"] for record in records] == ["", "", ""]
    assert summary["crashes"] == 0 and not summary["hil"]["trips"]
    assert summary["hil"]["trouble"] == "" and summary["hil"]["confirmed_down"]
    profile = load_profile(str(tmp_path / "drone.toml"))
    for number in range(3):
        path, rollout = stored(folder, number), folder.load_rollout(number)
        leg = load_leg(folder.path / "hil" / f"leg-{number:03d}.npz")
        assert np.array_equal(leg.path.coefficients, path.coefficients)
        assert planned_trouble(leg, profile) == ""
        there = np.asarray(derivatives(path, rollout.phase))[:, 0, :3]
        # What the control process asked for at each tick, in its own recording.
        assert np.abs(rollout.reference.position - there).max() < 1e-3
        away = TASK.distance(there).max()
        assert away < 0.01 if number == 0 else 0.05 < away < 0.2
    assert not np.array_equal(stored(folder, 1).coefficients, stored(folder, 2).coefficients)
    from lafr_mjx.view.replay import load_replay

    assert len(load_replay(folder.path).flights) == 3


def test_a_plan_that_the_profile_does_not_allow_is_not_flown(tmp_path):
    """The planner goes 0.34 m higher than the task, which is 0.3 m below the highest altitude."""
    (tmp_path / "higher.py").write_text(HIGHER, encoding="utf-8")
    top = float(np.asarray(derivatives(TASK.path, np.linspace(0.0, 8.0, 500)))[:, 0, 2].max())
    adapt(tmp_path, limits={"altitude_max_m": top + 0.3},
          reference=f"{tmp_path / 'higher.py'}:Higher")  # fmt: skip
    folder = RunFolder.open(tmp_path / "run")
    records = folder.iterations()
    assert len(records) == 2
    for number, record in enumerate(records):
        assert "does not allow it" in record["plan_refused"]
        assert "it leaves the altitudes" in record["plan_refused"]
        assert np.allclose(stored(folder, number).coefficients, TASK.path.coefficients, atol=1e-6)
        assert record["residual_loss"] is not None, "it learns on"
    assert events(tmp_path).count("is not flown: what flies does not allow it") == 2
