"""One door to all kinds of logs: what a path is, is decided by its name and content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.logs.bag import BagTopics
    from lafr_mjx.logs.raw import RawLog

_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
_BAGS = (".bag", ".mcap", ".db3")


def read_logs(
    path: Path, columns: Path | None = None, topics: BagTopics | None = None
) -> list[RawLog]:
    """All flights of a file or folder.

    Args:
        path: `.npz`, `.csv`, `.parquet`, a ROS bag (file, or folder of ROS 2), or a run folder.
        columns: the column map, for tables.
        topics: names of topics, for bags; by default they are found by their types.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    suffix = path.suffix.lower()
    if path.is_dir():
        if (path / "metadata.yaml").is_file():
            return [_bag(path, topics)]
        from lafr_mjx.logs.flights import read_run_folder

        if not (path / "config.toml").is_file():
            raise InputError(
                f"{path}: is neither the folder of a run (no config.toml) nor a ROS 2 bag (no "
                f"metadata.yaml){_inside(path)}"
            )
        return read_run_folder(path)
    if suffix == ".npz":
        from lafr_mjx.logs import flights, npz

        if npz.is_rollout(path):
            return [flights.read_rollout(path)]
        return [npz.read_npz(path)]
    if suffix in _TABLES:
        if columns is None:
            raise InputError(
                f"{path}: a table needs a column map, a TOML file that says what its columns are; "
                "give one by --columns FILE (the documentation of fit has one to start from)"
            )
        from lafr_mjx.logs.columns import read_columns
        from lafr_mjx.logs.table import read_table

        return [read_table(path, read_columns(columns))]
    if suffix in _BAGS:
        return [_bag(path, topics)]
    known = ", ".join((".npz", *_TABLES, *_BAGS))
    raise InputError(f"{path}: is no log that is known here; known are {known} and run folders")


def _inside(path: Path) -> str:
    """A hint for who gave a folder of logs."""
    names = sorted(p.name for p in path.iterdir() if p.suffix.lower() in (".npz", *_TABLES, *_BAGS))
    if not names:
        return ""
    return f"; give the logs in it one by one: {', '.join(names[:5])}{', ...' * (len(names) > 5)}"


def _bag(path: Path, topics: BagTopics | None) -> RawLog:
    from lafr_mjx.logs.bag import BagTopics, read_bag

    return read_bag(path, topics or BagTopics())
