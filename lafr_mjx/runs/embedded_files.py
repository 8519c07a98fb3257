"""A user's own files inside a run's configuration, so that the run can be repeated from it alone.

    [files.task]
    main = "my_task.toml"

    [files.task.contents]
    "my_task.toml" = "description = ..."

Shipped files are known by their name and are not embedded.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from lafr_mjx import compilation_cache
from lafr_mjx.errors import InputError
from lafr_mjx.toml_table import read_toml

ROLES = ("task", "scenario", "vehicle")
"""What may be a file of the user's own."""

_MOST_BYTES = 250_000
"""Of one role: a configuration must stay small enough to be read."""

_FILE_IN_MJCF = re.compile(r"""\bfile\s*=\s*["']([^"']+)["']""")
_MOST_FILES = 64


def is_path(name_or_path: str) -> bool:
    """Whether a name is that of a user's own file and not of a shipped one."""
    return name_or_path.endswith(".toml") or "/" in name_or_path


def embedded(given: dict[str, Any]) -> dict[str, Any]:
    """The table `files` of a configuration; empty where everything ships.

    What is not text, or too much of it (meshes), is left out: such a run needs its files, and
    its fingerprints tell whether they are still the same.
    """
    tables = {}
    for role in ROLES:
        if is_path(str(given[role])):
            contents = _contents(Path(given[role]), role)
            if contents is not None:
                tables[role] = contents
    return tables


def located(config: dict[str, Any]) -> dict[str, Any]:
    """The table `run` of a configuration with its embedded files laid out on the disk."""
    run, files = dict(config.get("run", {})), config.get("files", {})
    for role in ROLES:
        if role in files:
            run[role] = str(_laid_out(files[role], role))
    return run


def _contents(path: Path, role: str) -> dict[str, Any] | None:
    files = _with_what_they_name(path, role)
    try:
        root = Path(os.path.commonpath([file.parent for file in files]))
        texts = {file.relative_to(root).as_posix(): file.read_text("utf-8") for file in files}
    except (OSError, ValueError):
        return None
    if sum(len(text) for text in texts.values()) > _MOST_BYTES:
        return None
    return {"main": files[0].relative_to(root).as_posix(), "contents": texts}


def _with_what_they_name(path: Path, role: str) -> list[Path]:
    """A file, and all files that it names relative to itself, directly or indirectly."""
    found = [path.resolve()]
    for file in found:
        if len(found) > _MOST_FILES:
            break
        if file.suffix == ".toml":
            data = read_toml(file).data
            if role == "task":
                table = data.get("path")
                names = [table.get("file") if isinstance(table, dict) else None]
            else:
                names = [data.get({"scenario": "base", "vehicle": "mjcf"}[role])]
        elif file.suffix == ".xml":
            names = _FILE_IN_MJCF.findall(file.read_text("utf-8", errors="replace"))
        else:
            continue
        for name in names:
            if isinstance(name, str) and not Path(name).is_absolute():
                named = (file.parent / name).resolve()
                if named.is_file() and named not in found:
                    found.append(named)
    return found


def _laid_out(table: Any, role: str) -> Path:
    """Write embedded files into the user's cache, by what they hold; returns the main one."""
    try:
        main, contents = str(table["main"]), dict(table["contents"])
        names = [main, *contents]
        good = main in contents and all(isinstance(text, str) for text in contents.values())
    except (TypeError, KeyError, ValueError):
        good, names, main, contents = False, [], "", {}
    parts = [PurePosixPath(name) for name in names]
    if not good or any(part.is_absolute() or ".." in part.parts for part in parts):
        raise InputError(
            f"config.toml: 'files.{role}' is damaged: it has 'main', the name of one of the texts "
            f"in 'contents', and names stay within their folder"
        )
    digest = hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:24]
    folder = compilation_cache.cache_folder() / "run-files" / digest
    try:
        _write_all(folder, contents)
    except OSError:  # a read-only home
        folder = Path(tempfile.mkdtemp(prefix="lafr-mjx-files-"))
        _write_all(folder, contents)
    return folder / main


def _write_all(folder: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        file = folder / name
        if file.is_file() and file.read_text("utf-8") == text:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        os.replace(partial, file)
