"""Checkpoints of a run: pytrees of arrays as `.npz` files, of which the newest two are kept.

A file appears under its number when all of it is on the disk. A damaged one does not match the
checksums in it, and the one before it is used.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.runs.run_files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

KEPT = 2


def numbers(folder: Path) -> list[int]:
    """Numbers of the checkpoints, in order."""
    found = sorted(
        int(file.stem) for file in folder.glob("*.npz") if re.fullmatch(r"\d{3,}", file.stem)
    )
    if not found and any(folder.glob("*/checksum.txt")):
        raise InputError(
            f"{folder}: only lafr-mjx 0.2 reads these checkpoints; go on with the run by that "
            f"version, or fly it anew with: lafr-mjx adapt --repeat {folder.parent} --out FOLDER"
        )
    return found


def save(folder: Path, number: int, tree: Any) -> None:
    """Write a checkpoint, then drop the old ones."""
    data = io.BytesIO()
    np.savez(data, **_named_arrays(tree))  # type: ignore[arg-type]
    folder.mkdir(exist_ok=True)
    write_whole(_file(folder, number), data.getvalue())
    for old in numbers(folder)[:-KEPT]:
        _file(folder, old).unlink()


def load(folder: Path, template: Any) -> tuple[int, Any] | None:
    """The newest checkpoint that is whole, or None if none was ever finished.

    Args:
        folder: where the checkpoints are.
        template: a pytree of the same structure, shapes and types; what is no leaf of it is
            taken from it. Leaves come back as what they are in it: JAX arrays, NumPy arrays or
            Python numbers.
    """
    reason: Exception | None = None
    for number in reversed(numbers(folder)):
        path = _file(folder, number)
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except Exception as error:  # whatever is wrong with it, the one before it may be good
            reason = error
            continue
        return number, _filled(path, template, arrays)
    if reason is not None:
        raise InputError(f"{folder}: no checkpoint can be read: {reason}") from reason
    return None


def remove_after(folder: Path, number: int) -> None:
    """Drop the checkpoints beyond a number, and what was never finished."""
    for later in numbers(folder):
        if later > number:
            _file(folder, later).unlink()
    for leftover in folder.glob(".*.partial"):
        leftover.unlink()


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:03d}.npz"


def _filled(path: Path, template: Any, arrays: dict[str, np.ndarray]) -> Any:
    import jax

    leaves, structure = jax.tree.flatten(template)
    filled = []
    for (name, like), leaf in zip(_named_arrays(template).items(), leaves, strict=True):
        array = arrays.pop(name, None)
        if array is None:
            raise InputError(f"{path}: '{name}' is missing; it is of another kind of run")
        if array.shape != like.shape or array.dtype != like.dtype:
            raise InputError(
                f"{path}: '{name}' is {array.dtype}{list(array.shape)}, but this run needs "
                f"{like.dtype}{list(like.shape)}"
            )
        if isinstance(leaf, jax.Array):
            filled.append(jax.device_put(array))
        else:
            filled.append(array.item() if isinstance(leaf, bool | int | float) else array)
    if arrays:
        raise InputError(f"{path}: '{next(iter(arrays))}' is unknown to this kind of run")
    return jax.tree.unflatten(structure, filled)


def _named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Leaves by their place in the tree, e.g. `policy.layers.0.weight`."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)
        for path, leaf in leaves
    }
    if len(named) != len(leaves):
        raise TypeError("two leaves of the tree have the same name")
    return named
