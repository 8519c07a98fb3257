"""A policy on disk: `policy.npz`, readable without JAX, with the contract it was trained for.

The contract names what the network expects to see. A file whose contract differs from this
version's is refused: its weights would silently mean something else.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from lafr_mjx import mlp, parts
from lafr_mjx.control import observation
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.policy import Policy, create_policy
from lafr_mjx.errors import InputError
from lafr_mjx.types import COMMAND_HOVER, COMMAND_SCALE, CONTROL_DT, CommandLimits


def contract() -> dict[str, object]:
    """What observation and command mean in this version."""
    return {
        "version": 1,
        "observation_size": observation.SIZE,
        "preview_s": list(observation.PREVIEW_S),
        "history": observation.HISTORY,
        "command_hover": [float(x) for x in COMMAND_HOVER],
        "command_scale": [float(x) for x in COMMAND_SCALE],
        "control_dt_s": CONTROL_DT,
        "frames": "world z up; rotation body to world, row by row; rates in the body",
        "activation": "tanh",
    }


def save_policy(path: Path, policy: Policy, network: str = "mlp") -> None:
    """Write weights, limits and contract.

    Args:
        path: of the file.
        policy: to be written.
        network: what its network is called, see `parts`; needed to read one that is not shipped.

    Raises:
        InputError: `load_policy` would refuse it.
    """
    path.write_bytes(to_bytes(policy, network, path))


def to_bytes(policy: Policy, network: str, path: Path = Path("policy")) -> bytes:
    """What `save_policy` writes; other processes can read it, whose network it may be."""
    plain = parts.map_leaves(lambda leaf: np.asarray(leaf, np.float32), policy)
    _check(path, plain)
    arrays: dict[str, Any] = {
        "limits_low": plain.limits.low,
        "limits_high": plain.limits.high,
        "contract": np.array(json.dumps(contract())),
    }
    if isinstance(plain.network, Mlp):
        for i, layer in enumerate(plain.network.layers):
            arrays[f"weight{i}"], arrays[f"bias{i}"] = layer
    else:
        arrays["network"] = np.array(network)
        arrays["network_digest"] = np.array(_digest(network))
        for i, leaf in enumerate(parts.leaves(plain.network)):
            arrays[f"leaf{i}"] = leaf
    data = io.BytesIO()  # on a full disk, NumPy would complain beside the exception
    np.savez(data, **arrays)  # type: ignore[arg-type]
    return data.getvalue()


def stored_network(path: Path) -> str:
    """What the network of a stored policy is called, see `parts`."""
    with np.load(path, allow_pickle=False) as file:
        return str(file["network"]) if "network" in file.files else "mlp"


def load_policy(path: Path) -> Policy:
    """Read and check a policy (NumPy arrays)."""
    if not path.exists():
        raise InputError(f"{path}: there is no such policy")
    if path.is_dir():
        raise InputError(f"{path}: is a folder, not a policy; that of a run is its policy.npz")
    if path.is_file() and not zipfile.is_zipfile(path):
        # NumPy would speak of pickles, and how to trust them.
        raise InputError(
            f"{path}: cannot be read as a policy: it is no .npz file, or was cut short"
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return from_bytes(data, path)


def from_bytes(data: bytes, path: Path = Path("policy")) -> Policy:
    """The policy that `to_bytes` wrote, checked."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # a damaged file makes its readers raise almost anything
        raise InputError(f"{path}: cannot be read as a policy: {error}") from error
    try:
        given = json.loads(str(arrays["contract"]))
        limits = CommandLimits(arrays["limits_low"], arrays["limits_high"])
        if "network" not in arrays:
            count = max(1, sum(name.startswith("weight") for name in arrays))
            read = (mlp.Layer(arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(count))
            policy = Policy(Mlp(tuple(read)), limits)
        else:
            policy = _own_network(path, arrays, limits)
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not a policy: {error} is missing or wrong") from error
    if not isinstance(given, dict):
        raise InputError(f"{path}: is not a policy: its contract is {given!r}")
    if given != contract():
        wanted = contract()
        differing = sorted(k for k in wanted | given if wanted.get(k) != given.get(k))
        raise InputError(
            f"{path}: was trained for another contract (differs in {', '.join(differing)}); "
            f"train it again with this version"
        )
    _check(path, policy)
    return policy


def _own_network(path: Path, arrays: dict[str, Any], limits: CommandLimits) -> Policy:
    """A policy with a network that its file names: made anew, with the stored weights."""
    text = str(arrays["network"])
    if "network_digest" in arrays and str(arrays["network_digest"]) != _digest(text):
        raise InputError(
            f"{path}: its network {text} was edited since; its weights mean another one"
        )
    made = create_policy(np.random.default_rng(0), limits, text)
    wanted = [np.shape(leaf) for leaf in parts.leaves(made.network)]
    found = [arrays[f"leaf{i}"] for i in range(len(wanted))]
    if [leaf.shape for leaf in found] != wanted:
        raise InputError(f"{path}: its weights are not those of its network, {text}")
    rest = iter(found)
    return made._replace(network=parts.map_leaves(lambda _: next(rest), made.network))


def _digest(network: str) -> str:
    return parts.digest(parts.class_of(parts.NETWORK, network)[0])


def _check(path: Path, policy: Policy) -> None:
    limits, weights = policy.limits, parts.leaves(policy.network)
    arrays = [*weights, *limits]
    if not weights or not all(np.issubdtype(array.dtype, np.floating) for array in arrays):
        raise InputError(f"{path}: holds something other than numbers")
    size = _outputs(path, policy.network)
    sizes = {size, limits.low.size, limits.high.size}
    if sizes != {4} or limits.low.ndim != 1 or limits.high.ndim != 1:
        raise InputError(
            f"{path}: gives {size} outputs between limits {limits.low.shape} and "
            f"{limits.high.shape}; a command has 4"
        )
    if not all(np.isfinite(array).all() for array in arrays):
        raise InputError(f"{path}: holds numbers that are not finite")
    hover = COMMAND_HOVER
    if np.any(limits.low >= hover) or np.any(limits.high <= hover):
        raise InputError(f"{path}: hover is not between its limits {limits.low} and {limits.high}")


def _outputs(path: Path, network: Any) -> int:
    """Numbers that a network gives for one observation."""
    if not isinstance(network, Mlp):
        try:
            return int(np.asarray(network(np.zeros(observation.SIZE, np.float32))).shape[-1])
        except Exception as error:  # whatever the user's code does
            raise InputError(f"{path}: its network cannot be evaluated: {error}") from error
    size = observation.SIZE
    for i, layer in enumerate(network.layers):
        good = layer.weight.ndim == 2 and layer.weight.shape[0] == size
        good = good and layer.bias.shape == (layer.weight.shape[1],)
        if not good:
            raise InputError(
                f"{path}: layer {i} has weights {layer.weight.shape} and biases "
                f"{layer.bias.shape}; they must be ({size}, n) and (n,)"
            )
        size = layer.weight.shape[1]
    return size
