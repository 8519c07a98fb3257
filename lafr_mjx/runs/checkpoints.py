"""Checkpoints of a run: pytrees of arrays, numbered, of which the newest two are kept.

Orbax writes a checkpoint under another name; it gets its number when all of it is there. Each
carries a checksum of its files, so that a damaged one is noticed and the one before it used.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEPT = 2
_PARTIAL = ".partial"
_SEAL = "checksum.txt"


def numbers(folder: Path) -> list[int]:
    """Numbers of the checkpoints that were written to their end, in order."""
    if not folder.is_dir():
        return []
    sealed = (item for item in folder.iterdir() if (item / _SEAL).is_file())
    return sorted(int(item.name) for item in sealed if re.fullmatch(r"\d{3,}", item.name))


def save(folder: Path, number: int, tree: Any) -> None:
    """Write a checkpoint, then drop the old ones. It counts from its last step on."""
    arrays = {name: array for name, array in _named_arrays(tree).items() if array.size}
    target = folder / f"{number:03d}"
    try:
        folder.mkdir(exist_ok=True)
        remove_partial(folder)
        partial = folder / f"{target.name}{_PARTIAL}"
        with _quiet() as ocp, ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(partial.absolute(), arrays)
            checkpointer.wait_until_finished()
        (partial / _SEAL).write_text(f"{_checksum(partial)}\n", encoding="utf-8")
        if target.exists():
            _remove(target)
        partial.rename(target)
        for old in numbers(folder)[:-KEPT]:
            _remove(folder / f"{old:03d}")
    except Exception as error:  # Orbax wraps a full disk into exceptions of several kinds
        raise RunError(f"{target}: the checkpoint cannot be written: {error}") from error


def load(folder: Path, template: Any) -> tuple[int, Any] | None:
    """The newest checkpoint that is whole, or None if none was ever finished.

    Args:
        folder: where the checkpoints are.
        template: a pytree of the same structure, shapes and types; what is no leaf of it is
            taken from it. Leaves come back as what they are in it: JAX arrays, NumPy arrays or
            Python numbers.
    """
    found = numbers(folder)
    reason: Exception | None = None
    for number in reversed(found):
        path = folder / f"{number:03d}"
        try:
            arrays = _read(path)
        except Exception as error:  # whatever is wrong with it, the one before it may be good
            reason = error
            continue
        return number, _filled(path, template, arrays)
    if reason is not None:
        raise InputError(f"{folder}: no checkpoint can be read: {reason}") from reason
    return None


def remove_after(folder: Path, number: int) -> None:
    """Drop the checkpoints beyond a number, and what was never finished."""
    if not folder.is_dir():
        return
    remove_partial(folder)
    for item in folder.iterdir():
        if re.fullmatch(r"\d{3,}", item.name) and int(item.name) > number:
            _remove(item)


def remove_partial(folder: Path) -> None:
    """Remove what killed writers left behind; Orbax adds an ending of its own to the name."""
    for item in folder.glob(f"*{_PARTIAL}*"):
        shutil.rmtree(item)


def _remove(path: Path) -> None:
    # Whoever is killed in the middle must not leave half of it under its number.
    doomed = path.with_name(f"{path.name}-old{_PARTIAL}")
    path.rename(doomed)
    shutil.rmtree(doomed)


def _read(path: Path) -> dict[str, np.ndarray]:
    # Orbax must not meet damaged files: its threads would complain on the terminal.
    if (path / _SEAL).read_text(encoding="utf-8").strip() != _checksum(path):
        raise ValueError(f"{path.name} does not match its checksum")
    with _quiet() as ocp, ocp.StandardCheckpointer() as checkpointer:
        return {name: np.asarray(x) for name, x in checkpointer.restore(path.absolute()).items()}


def _filled(path: Path, template: Any, arrays: dict[str, np.ndarray]) -> Any:
    import jax

    wanted = _named_arrays(template)
    leaves, structure = jax.tree.flatten(template)
    filled = []
    for (name, like), leaf in zip(wanted.items(), leaves, strict=True):
        array = arrays.pop(name, None)
        if array is None and like.size == 0:
            array = like
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
        # Orbax reads "/" in a name as a level of nesting.
        jax.tree_util.keystr(path, simple=True, separator=".").replace("/", "|"): np.asarray(leaf)
        for path, leaf in leaves
    }
    if len(named) != len(leaves):
        raise TypeError("two leaves of the tree have the same name")
    return named


def _checksum(path: Path) -> str:
    value = 0
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name != _SEAL:
            data = file.read_bytes()
            value = zlib.crc32(f"{file.relative_to(path)} {len(data)}".encode(), value)
            value = zlib.crc32(data, value)
    return f"{value:08x}"


@contextlib.contextmanager
def _quiet() -> Iterator[Any]:
    """Orbax, imported when it is needed, and silent: errors come as exceptions."""
    import orbax.checkpoint as ocp
    from absl import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.FATAL)
    try:
        yield ocp
    finally:
        logging.set_verbosity(before)
