"""Find the data folders (`assets/`, `tasks/`, `hil/`) in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path

from lafr_mjx.errors import InputError, meant

_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (_PACKAGE / "_data", _PACKAGE.parent)  # wheel first: a checkout has no _data


def data_folder(name: str) -> Path:
    """Path of a data folder, e.g. `data_folder("assets")`."""
    for root in _ROOTS:
        if (root / name).is_dir():
            return root / name
    looked_in = ", ".join(str(root / name) for root in _ROOTS)
    raise InputError(f"the installation has no data folder '{name}' (looked in {looked_in})")


def shipped_names(folder: str) -> list[str]:
    """Names of the TOML files that ship in a data folder, without their ending."""
    return sorted(path.stem for path in data_folder(folder).glob("*.toml"))


def find_toml(folder: str, name_or_path: str, kind: str) -> Path:
    """Turn a shipped name (`figure8`) or a user's path (`./my.toml`) into a file's path.

    Args:
        folder: data folder of the shipped files, e.g. "tasks".
        name_or_path: what the user gave.
        kind: the word for it in messages, e.g. "task".
    """
    looks_like_path = name_or_path.endswith(".toml") or "/" in name_or_path
    if looks_like_path:
        path = Path(name_or_path).expanduser()
        if path.is_file():
            return path
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"{kind} file '{name_or_path}' {what}")
    path = data_folder(folder) / f"{name_or_path}.toml"
    if path.is_file():
        return path
    shipped = shipped_names(folder)
    raise InputError(
        f"unknown {kind} '{name_or_path}': shipped are {', '.join(shipped)}; or give the path of a "
        f".toml file{meant(name_or_path, shipped)}"
    )
