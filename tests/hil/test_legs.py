# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalCall=false
"""Legs: their files, and what is checked before one is flown."""

from dataclasses import replace

import numpy as np
import pytest
from control_legs import PROFILE, TASK, leg, policy

from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.legs import (
    ERROR_ROOM_M,
    SPEED_SHARE,
    check_leg,
    fastest_time_scale,
    load_leg,
    save_leg,
    try_policy,
)
from lafr_mjx.reference.path import Path


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


def moved(axis, by):
    coefficients = TASK.path.coefficients.copy()
    coefficients[:, axis, 0] += by
    return TASK.path._replace(coefficients=coefficients)


def wider(share):
    coefficients = TASK.path.coefficients.copy()
    coefficients[:, :2] *= share
    return TASK.path._replace(coefficients=coefficients)


@pytest.mark.parametrize(
    ("path", "limits", "why"),
    [
        (TASK.path, {}, "fence"), (wider(1.1), {}, "fence"), (moved(1, -1.0), {}, "fence"),
        (wider(0.8), {"speed_mps": 9.0}, "m/s"), (wider(0.8), {"tilt_deg": 50.0}, "tilts"),
    ],
)  # fmt: skip
def test_the_fastest_time_scale_is_that_of_the_path_that_is_planned(path, limits, why):
    profile = replace(PROFILE, limits=replace(PROFILE.limits, **limits))
    fastest = fastest_time_scale(leg(path=path), profile, 1.0)
    room = {"margin_m": ERROR_ROOM_M, "speed_share": SPEED_SHARE}
    assert 0.15 < fastest < 0.5
    assert check_leg(leg(path=path, time_scale=fastest), profile, **room) == ""
    assert why in check_leg(leg(path=path, time_scale=0.999 * fastest), profile, **room)


def test_a_planned_path_has_a_limit_of_its_own():
    ours = fastest_time_scale(leg(), PROFILE, 1.0)
    assert fastest_time_scale(leg(path=wider(1.1)), PROFILE, 1.0) > 1.05 * ours
    assert fastest_time_scale(leg(path=wider(0.8)), PROFILE, 1.0) < 0.95 * ours
    assert fastest_time_scale(leg(path=moved(2, 3.2)), PROFILE, 1.0) == np.inf, "at no pace"
    assert fastest_time_scale(leg(), PROFILE, 0.9 * ours) == np.inf, "not at the present one"


def straight(*pieces, periodic=0.0):
    """From rest to rest near the path's start, with pieces (end of the phase, u → x) in between."""
    coefficients, breaks = np.zeros((len(pieces), 4, 8)), [0.0]
    for row, (end, x) in zip(coefficients, pieces, strict=True):
        row[0, : len(x)] = x
        row[2, 0] = 1.5
        breaks.append(end)
    return Path(coefficients, np.array(breaks), np.array(periodic))


REST = (0.0,)
AWAY = (0.5, 0.75, 0.0, -0.25)  # from 0 to 1 m, from rest to rest
BACK = (0.5, -0.75, 0.0, 0.25)


@pytest.mark.parametrize(
    ("path", "ramp_s", "told"),
    [
        (straight((4.0, AWAY), (8.0, BACK)), 0.0, ""),
        (straight((4.0, AWAY), (8.0, BACK), periodic=1.0), 0.0, ""),
        (TASK.path, 0.0, "it begins at"),
        (TASK.path, 1e-6, "it comes to"), (TASK.path, 0.1, "it comes to"),
        (TASK.path, TASK.ramp_s, ""),
        (straight((4.0, AWAY), periodic=1.0), 1.5, "it jumps by 1 m at phase 0.00 s"),
        (straight((4.0, AWAY), (8.0, REST)), 0.0, "it jumps by 1 m at phase 4.00 s"),
        (straight((4.0, AWAY), (8.0, (0.5, -0.5))), 0.0, "its velocity jumps by 0.5 m/s at ph"),
        (straight((4.0, (0.5, 0.5)), (8.0, BACK)), 0.0, "its velocity jumps by 0.5 m/s at ph"),
        # 20 m and back within a hundredth of a second.
        (straight((4.0, REST), (4.01, (20.0, 0.0, -40.0, 0.0, 20.0)), (8.0, REST)), 0.0, "fence"),
        (straight((4.0, REST), (4.001, (20.0, 0.0, -40.0, 0.0, 20.0)), (8.0, REST)), 0.0, "fence"),
    ],
)  # fmt: skip
def test_a_reference_must_not_jump(path, ramp_s, told):
    trouble = check_leg(leg(path=path, ramp_s=ramp_s), PROFILE)
    assert trouble.startswith(told) if told != "fence" else "fence" in trouble
    assert bool(trouble) == bool(told)
