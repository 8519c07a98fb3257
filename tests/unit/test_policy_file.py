"""A policy on disk: what was saved comes back, and what is broken is refused by name."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.policy import create_policy
from lafr_mjx.control.policy_file import contract, load_policy, save_policy
from lafr_mjx.errors import InputError
from lafr_mjx.types import CommandLimits

LIMITS = CommandLimits(np.array([0.0, -6, -6, -6]), np.array([25.0, 6, 6, 6]))
POLICY = create_policy(np.random.default_rng(0), LIMITS, "mlp(hidden=[12, 12])")
LAYERS = POLICY.network.layers


def with_layers(*layers):
    return POLICY._replace(network=Mlp(layers))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some policy.npz"
    save_policy(path, POLICY)
    return path


def refused(path):
    with pytest.raises(InputError) as caught:
        load_policy(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def rewritten(path, **changes):
    """The file with some arrays exchanged, or left out where the change is None."""
    with np.load(path) as saved:
        arrays = {name: saved[name] for name in saved.files}
    arrays = {name: value for name, value in (arrays | changes).items() if value is not None}
    np.savez(path.open("wb"), allow_pickle=True, **arrays)
    return path


def test_round_trip(file):
    loaded = load_policy(file)
    for saved, found in zip(POLICY.network.layers, loaded.network.layers, strict=True):
        np.testing.assert_array_equal(saved.weight, found.weight)
        np.testing.assert_array_equal(saved.bias, found.bias)
        assert found.weight.dtype == np.float32
    np.testing.assert_array_equal(loaded.limits.low, POLICY.limits.low)
    np.testing.assert_array_equal(loaded.limits.high, POLICY.limits.high)


def test_the_message_is_of_the_file_not_of_its_reader(tmp_path, file):
    file.write_text("hello")
    for path, word in ((tmp_path / "nowhere.npz", "no such policy"), (tmp_path, "policy.npz"),
                       (file, "no .npz file")):  # fmt: skip
        message = refused(path)
        assert word in message and "pickle" not in message and "Errno" not in message


def test_cut_short(file):
    whole = file.read_bytes()
    for share in (0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999):
        file.write_bytes(whole[: int(share * len(whole))])
        refused(file)
    file.write_bytes(whole[:-1])
    refused(file)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(where=st.floats(0.0, 1.0), value=st.integers(0, 255), length=st.integers(1, 8))
def test_damage_is_refused_or_harmless(file, where, value, length):
    save_policy(file, POLICY)
    content = bytearray(file.read_bytes())
    start = int(where * (len(content) - length))
    content[start : start + length] = bytes([value]) * length
    file.write_bytes(content)
    try:
        loaded = load_policy(file)
    except InputError as error:
        assert str(file) in str(error)
    else:
        assert all(np.isfinite(layer.weight).all() for layer in loaded.network.layers)


def test_pickles_are_not_opened(file):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was opened",))

    rewritten(file, weight1=np.array([Trap()], dtype=object))
    refused(file)
    file.write_bytes(pickle.dumps(Trap()))
    refused(file)


def test_other_kinds_of_file(file):
    np.save(file.open("wb"), np.zeros(3))
    refused(file)


@pytest.mark.parametrize(
    "changes",
    [
        {"weight0": np.zeros((5, 12), np.float32)},
        {"weight1": np.zeros((12, 13), np.float32)},
        {"weight1": np.zeros(12, np.float32)},
        {"bias1": np.zeros(11, np.float32)},
        {"weight2": np.zeros((12, 5), np.float32), "bias2": np.zeros(5, np.float32)},
        {"limits_low": np.zeros(3, np.float32)},
        {"limits_high": np.float32(1.0)},
        {"weight0": None},
        {"limits_low": None},
        {"contract": None},
        {"weight1": np.full((12, 12), "text")},
        {"weight1": np.full((12, 12), 1j)},
        {"limits_low": np.array([30.0, -6, -6, -6], np.float32)},
    ],
)
def test_wrong_arrays(file, changes):
    refused(rewritten(file, **changes))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["weight0", "bias2", "limits_high"])
def test_numbers_that_are_not_finite(file, name, bad):
    with np.load(file) as saved:
        array = saved[name].copy()
    array.flat[-1] = bad
    assert "finite" in refused(rewritten(file, **{name: array}))


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (with_layers(*LAYERS[:2]), "12 outputs"),
        (with_layers(*LAYERS, LAYERS[1]), r"layer 3 has .* must be \(\d+, n\)"),
        (with_layers(*LAYERS[1:2] * 3), r"layer 0 has .* must be \(\d+, n\)"),
        (with_layers(*LAYERS[:2], LAYERS[1]), "12 outputs"),
        (POLICY._replace(limits=CommandLimits(LIMITS.low[:3], LIMITS.high)), "a command has 4"),
        (POLICY._replace(limits=CommandLimits(LIMITS.low, LIMITS.high * np.inf)), "finite"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, policy, allowed):
    file = tmp_path / "policy.npz"
    with pytest.raises(InputError, match=allowed):
        save_policy(file, policy)
    assert not file.exists()


@pytest.mark.parametrize(
    "given_contract",
    [
        json.dumps(contract() | {"history": 5}),
        json.dumps({k: v for k, v in contract().items() if k != "frames"}),
        json.dumps(contract() | {"more": 1}),
        "[]",
        "3",
        "null",
        "{",
    ],
)
def test_another_contract(file, given_contract):
    refused(rewritten(file, contract=np.array(given_contract)))


def test_the_message_names_what_differs(file):
    other = json.dumps(contract() | {"history": 5, "activation": "relu"})
    message = refused(rewritten(file, contract=np.array(other)))
    assert "history" in message
    assert "activation" in message
