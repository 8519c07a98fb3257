# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalCall=false
"""Legs: their files, and what is checked before one is flown."""

import numpy as np
import pytest
from control_legs import PROFILE, TASK, leg, policy

from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.legs import check_leg, load_leg, save_leg, try_policy


def test_leg_file_and_back(tmp_path):
    given = leg(4, lap_on=True)
    read = load_leg(save_leg(tmp_path, given))
    assert read.number == 4 and read.lap_on and read.seconds == 8.0
    assert np.array_equal(read.path.coefficients, given.path.coefficients)
    assert np.array_equal(
        read.policy.network.layers[1].weight, given.policy.network.layers[1].weight
    )
    assert load_leg(save_leg(tmp_path, leg(5, with_policy=False))).policy is None


@pytest.mark.parametrize(
    "bad",
    [
        {"time_scale": np.nan}, {"time_scale": 0.0}, {"seconds": -1.0}, {"seconds": 1e9},
        {"dither": np.full(4, np.inf)}, {"dither": np.full(4, 9.0)}, {"ramp_s": np.inf},
        {"path": TASK.path._replace(coefficients=TASK.path.coefficients * np.nan)},
        {"path": TASK.path._replace(breaks=TASK.path.breaks[::-1])},
    ],
)  # fmt: skip
def test_bad_leg_is_refused(tmp_path, bad):
    with pytest.raises(InputError):
        load_leg(save_leg(tmp_path, leg(**bad)))


def test_leg_cut_at_any_byte_is_refused(tmp_path):
    path = save_leg(tmp_path, leg(with_policy=False))
    whole = path.read_bytes()
    for end in range(0, len(whole), 97):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError):
            load_leg(path)


def test_policy_with_nan_or_missing_is_refused(tmp_path):
    path = save_leg(tmp_path, leg())
    file = tmp_path / "leg-000-policy.npz"
    whole = file.read_bytes()
    file.unlink()
    with pytest.raises(InputError):
        load_leg(path)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError):
        load_leg(path)


def test_policy_is_tried_on_the_last_flight():
    seen = np.random.default_rng(0).standard_normal(
        (200, policy().network.layers[0].weight.shape[0])
    )
    assert try_policy(policy(), seen) == ""
    assert try_policy(policy(), seen[:0]) == ""
    last = policy().network.layers[-1]
    wild = policy()._replace(
        network=Mlp((*policy().network.layers[:-1], last._replace(bias=last.bias + 50)))
    )
    assert "limit" in try_policy(wild, seen)
    # One that answers the last flight's error with all it has may fly.
    first = policy().network.layers[0]
    weight = np.array(first.weight)
    weight[:3] *= 1e4
    keen = policy()._replace(
        network=Mlp((first._replace(weight=weight), *policy().network.layers[1:]))
    )
    assert try_policy(keen, seen) == ""
    weight[:3] = np.nan
    broken = policy()._replace(
        network=Mlp((first._replace(weight=weight), *policy().network.layers[1:]))
    )
    assert "not finite" in try_policy(broken, seen)


def test_leg_must_fit_into_the_arena():
    assert check_leg(leg(time_scale=0.3), PROFILE) == ""
    assert "m/s" in check_leg(leg(time_scale=0.15), PROFILE) or "fence" in check_leg(
        leg(time_scale=0.15), PROFILE
    )
    shifted = TASK.path.coefficients.copy()
    shifted[:, 0, 0] += 6.0
    assert "fence" in check_leg(leg(path=TASK.path._replace(coefficients=shifted)), PROFILE)
    low = TASK.path.coefficients.copy()
    low[:, 2, 0] -= 1.2
    assert check_leg(leg(path=TASK.path._replace(coefficients=low)), PROFILE) != ""
