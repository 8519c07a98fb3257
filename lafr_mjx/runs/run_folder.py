"""The folder of an adaptation run: what was asked, what was flown, and how to go on.

    config.toml          the whole configuration, with the version that wrote it
    iterations.jsonl     one line of figures for each iteration
    rollouts/000.npz     the recorded flights
    checkpoints/000.npz  the learner after an iteration, the newest two
    policy.npz           the policy after the last iteration
    plots/               figures
    summary.json         figures of the whole run, written at its end

A run may be killed at any moment. An iteration writes its checkpoint last: what is beyond the
newest checkpoint is dropped on resuming (`truncate_after`) and flown again, one iteration at most.
"""

from __future__ import annotations

import contextlib
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lafr_mjx
from lafr_mjx import output, toml_table
from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.runs import checkpoints, rollout_file
from lafr_mjx.runs import run_files as files
from lafr_mjx.runs.toml_text import toml_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lafr_mjx.reference import path as paths
    from lafr_mjx.types import Rollout

SCHEMA_VERSION = 2

_CONFIG = "config.toml"
_ITERATIONS = "iterations.jsonl"
_HEAD = ("schema_version", "lafr_mjx_version")
_LAST_LINE = "# End of the configuration."
"""A file that was cut between two lines would still be good TOML."""


class RunFolder(Closing):
    """A run on disk; made by `create` or `open`. Close it, or use it as a context manager."""

    def __init__(
        self, path: Path, config: dict[str, Any], written_by: str, lock: int | None
    ) -> None:
        self.path = path
        self.config = config
        self.written_by = written_by
        self._lock = lock

    @classmethod
    def create(cls, path: Path | str, config: Mapping[str, Any]) -> RunFolder:
        """Begin a run in a new or empty folder, as its only writer.

        Args:
            path: the folder; its parents are made, too.
            config: the complete configuration, so that the run can be repeated from it:
                str, int, float, bool, lists and nested dictionaries of them.
        """
        path = Path(path)
        clash = [key for key in _HEAD if key in config]
        if clash:
            raise ValueError(f"'{clash[0]}' is written by the run folder itself")
        text = _text(config)
        lock, may_resume = None, config.get("run", {}).get("engine") != "hil"
        try:
            path.mkdir(parents=True, exist_ok=True)
            _refuse_used(path, may_resume)
            lock = files.locked(path)
            _refuse_used(path, may_resume)  # another process may have begun a run in the meantime
            for leftover in path.glob(f".{_CONFIG}*"):
                leftover.unlink()
            for name in ("rollouts", "checkpoints", "plots"):
                (path / name).mkdir(exist_ok=True)
            files.write_whole(path / _CONFIG, text.encode("utf-8"))
        except OSError as error:
            files.unlock(lock)
            raise InputError(
                f"{path}: a run cannot be written there: {error.strerror or error}"
            ) from error
        except BaseException:
            files.unlock(lock)
            raise
        written = tomllib.loads(text)
        return cls(path, {k: v for k, v in written.items() if k not in _HEAD},
                   lafr_mjx.__version__, lock)  # fmt: skip

    @classmethod
    def open(cls, path: Path | str, *, resume: bool = False) -> RunFolder:
        """Open a run to look at it or, with `resume`, to go on with it as its only writer."""
        path = Path(path)
        if not path.is_dir():
            kind = "is not a folder" if path.exists() else "there is no such folder"
            raise InputError(f"{path}: {kind}; give the folder of a run")
        if not (path / _CONFIG).is_file():
            raise InputError(f"{path}: is not the folder of a run: it has no {_CONFIG}")
        _refuse_links_out(path)
        config, written_by = read_config(path / _CONFIG)
        if not resume:
            return cls(path, config, written_by, None)
        try:
            lock = files.locked(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
        return cls(path, config, written_by, lock)

    def close(self) -> None:
        """Let other processes write."""
        files.unlock(self._lock)
        self._lock = None

    def rewrite(self, config: Mapping[str, Any]) -> None:
        """Replace the configuration, e.g. for more flights."""
        with self.writing(_CONFIG) as path:
            files.write_whole(path, _text(config).encode("utf-8"))
        self.config = dict(config)

    def append_iteration(self, record: Mapping[str, Any]) -> None:
        """Add the figures of an iteration; when this returns, they are on the disk.

        What is not finite becomes null. The number `iteration` is the next one if not given.
        """
        with self.writing(_ITERATIONS) as path:
            lines = self._lines()
            following = lines[-1][0]["iteration"] + 1 if lines else 0
            numbered = {"iteration": following, **record}
            if numbered["iteration"] < following:
                raise ValueError(f"iteration {numbered['iteration']} is in {path} already")
            files.append_lines(path, [numbered], lines[-1][1] if lines else 0)

    def iterations(self) -> list[dict[str, Any]]:
        """Figures of the iterations; half a line at the end is left out."""
        return [record for record, _ in self._lines()]

    def save_rollout(self, number: int, rollout: Rollout, path: paths.Path | None = None) -> None:
        """Write the recorded flight of an iteration, with the path that was its reference."""
        with self.writing("rollouts", f"{number:03d}.npz") as file:
            rollout_file.save_rollout(file, rollout, path)

    def load_rollout(self, number: int) -> Rollout:
        """Read the recorded flight of an iteration (NumPy arrays)."""
        return rollout_file.load_rollout(self.path / "rollouts" / f"{number:03d}.npz")

    def rollout_numbers(self) -> list[int]:
        """Iterations whose flights are there, in order."""
        return sorted(number for number, _ in self._rollouts())

    def save_checkpoint(self, number: int, tree: Any) -> None:
        """Write the state after an iteration; a pytree of arrays without typed PRNG keys."""
        with self.writing("checkpoints") as path:
            checkpoints.save(path, number, tree)

    def load_checkpoint(self, template: Any) -> tuple[int, Any] | None:
        """The newest checkpoint that is whole and its number, or None if there is none.

        Bit by bit what was saved; `template` gives the structure (see `checkpoints.load`).
        """
        return checkpoints.load(self.path / "checkpoints", template)

    def checkpoint_numbers(self) -> list[int]:
        """Iterations after which there is a checkpoint, in order."""
        return checkpoints.numbers(self.path / "checkpoints")

    def truncate_after(self, number: int) -> None:
        """Forget what is beyond a checkpoint (all of it beyond -1), to go on from there."""
        with self.writing(_ITERATIONS) as path:
            checkpoints.remove_after(self.path / "checkpoints", number)
            kept = [end for record, end in self._lines() if record["iteration"] <= number]
            if path.exists():
                files.write_whole(path, path.read_bytes()[: kept[-1] if kept else 0])
            for i, file in self._rollouts():
                if i > number:
                    file.unlink()
            for leftover in (self.path / "rollouts").glob(".*.partial"):
                leftover.unlink()

    def write_summary(self, figures: Mapping[str, Any]) -> None:
        """Write the figures of the whole run."""
        with self.writing("summary.json") as path:
            output.write_json(path, figures)

    def _lines(self) -> list[tuple[dict[str, Any], int]]:
        """Records of the iterations, each with the offset of its end."""
        path, last = self.path / _ITERATIONS, -1

        def refused(number: int, why: str = "has no number") -> InputError:
            return InputError(f"{path}: line {number} is not a record of an iteration: {why}")

        lines = files.read_lines(path, refused)
        for number, (record, _) in enumerate(lines, start=1):
            found = record.get("iteration") if isinstance(record, dict) else None
            if not isinstance(found, int) or found <= last:
                raise refused(number)
            last = found
        return lines

    def _rollouts(self) -> Iterator[tuple[int, Path]]:
        for file in (self.path / "rollouts").glob("*.npz"):
            if re.fullmatch(r"\d{3,}", file.stem):
                yield int(file.stem), file

    @contextlib.contextmanager
    def writing(self, *names: str) -> Iterator[Path]:
        """A place in the folder, with a full disk and the like told in one line."""
        if self._lock is None:
            raise RuntimeError(f"{self.path} was opened to be read only")
        path = self.path.joinpath(*names)
        try:
            path.parent.mkdir(exist_ok=True)
            yield path
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror or error}") from error


def _text(config: Mapping[str, Any]) -> str:
    head = dict(zip(_HEAD, (SCHEMA_VERSION, lafr_mjx.__version__), strict=True))
    return f"{toml_text({**head, **config})}\n{_LAST_LINE}\n"


def read_config(path: Path) -> tuple[dict[str, Any], str]:
    """The configuration in a `config.toml`, and the version that wrote it."""
    data = toml_table.read_toml(path).data
    if "ablation" in data:
        raise InputError(
            f"{path.parent}: is the folder of an ablation, a table of many runs, and not of a run; "
            f"read it with: lafr-mjx ablate --only-print --out {path.parent}"
        )
    version, written_by = data.pop(_HEAD[0], None), data.pop(_HEAD[1], "an unknown version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise InputError(f"{path}: 'schema_version' is missing or wrong; it is a whole number")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: has schema_version {version}, but lafr-mjx {lafr_mjx.__version__} reads "
            f"{SCHEMA_VERSION}; it was written by lafr-mjx {written_by}: use that to read it"
        )
    if not path.read_text(encoding="utf-8").rstrip().endswith(_LAST_LINE):
        raise InputError(f"{path}: is cut short: its last line, '{_LAST_LINE}', is missing")
    return data, str(written_by)


def _refuse_used(path: Path, may_resume: bool) -> None:
    """Nothing is ever overwritten; what a killed `create` has left is not a run."""
    for item in path.iterdir():
        empty = item.name in ("rollouts", "checkpoints", "plots") and not any(item.iterdir())
        if not (item.name == files.LOCK_NAME or item.name.startswith(f".{_CONFIG}") or empty):
            resumable = (path / _CONFIG).exists() and may_resume
            advice = "go on with it by --resume, or " if resumable else ""
            raise InputError(
                f"{path}: is not empty, and a run is never overwritten; "
                f"{advice}give another folder by --out"
            )


def _refuse_links_out(path: Path) -> None:
    root = path.resolve()
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            item = Path(folder, name)
            # realpath, for Path.resolve fails on a link to itself.
            if item.is_symlink() and not Path(os.path.realpath(item)).is_relative_to(root):
                raise InputError(
                    f"{path}: '{item.relative_to(root)}' is a link that leaves the folder"
                )
