"""A policy on disk: `policy.npz`, readable without JAX, with the contract it was trained for.

The contract names what the network expects to see. A file whose contract differs from this
version's is refused: its weights would silently mean something else.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import mlp
from lafr_mjx.control import observation
from lafr_mjx.control.policy import Policy
from lafr_mjx.errors import InputError
from lafr_mjx.types import COMMAND_HOVER, COMMAND_SCALE, CONTROL_DT, CommandLimits

if TYPE_CHECKING:
    from pathlib import Path

_LAYERS = 3


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


def save_policy(path: Path, policy: Policy) -> None:
    """Write weights, limits and contract.

    Raises:
        InputError: `load_policy` would refuse it.
    """
    layers = tuple(mlp.Layer(*(np.asarray(a, np.float32) for a in one)) for one in policy.layers)
    limits = CommandLimits(*(np.asarray(a, np.float32) for a in policy.limits))
    _check(path, layers, limits)
    arrays: dict[str, Any] = {
        "limits_low": limits.low,
        "limits_high": limits.high,
        "contract": np.array(json.dumps(contract())),
    }
    for i, layer in enumerate(layers):
        arrays[f"weight{i}"], arrays[f"bias{i}"] = layer
    data = io.BytesIO()  # on a full disk, NumPy would complain beside the exception
    np.savez(data, **arrays)  # type: ignore[arg-type]
    path.write_bytes(data.getvalue())


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
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # a damaged file makes its readers raise almost anything
        raise InputError(f"{path}: cannot be read as a policy: {error}") from error
    try:
        given = json.loads(str(arrays["contract"]))
        layers = tuple(mlp.Layer(arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(_LAYERS))
        limits = CommandLimits(arrays["limits_low"], arrays["limits_high"])
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
    _check(path, layers, limits)
    return Policy(layers, limits)


def _check(path: Path, layers: tuple[mlp.Layer, ...], limits: CommandLimits) -> None:
    arrays = [*(a for layer in layers for a in layer), *limits]
    if not all(np.issubdtype(array.dtype, np.floating) for array in arrays):
        raise InputError(f"{path}: holds something other than numbers")
    if len(layers) != _LAYERS:
        raise InputError(f"{path}: has {len(layers)} layers; a policy has {_LAYERS}")
    size = observation.SIZE
    for i, layer in enumerate(layers):
        good = layer.weight.ndim == 2 and layer.weight.shape[0] == size
        good = good and layer.bias.shape == (layer.weight.shape[1],)
        if not good:
            raise InputError(
                f"{path}: layer {i} has weights {layer.weight.shape} and biases "
                f"{layer.bias.shape}; they must be ({size}, n) and (n,)"
            )
        size = layer.weight.shape[1]
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
