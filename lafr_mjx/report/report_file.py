"""A report on disk: the page, its Markdown twin, and the twin's pictures.

Each file is replaced whole. Pictures are named by what they show and by a fingerprint, and are
written first: an old twin keeps its own pictures until the new one is there.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.runs.run_files import write_whole
from lafr_mjx.view.page import GENERATOR, Picture, to_html, to_markdown

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.view.page import Page


def twin_of(out: Path) -> Path:
    """The Markdown beside a page."""
    return out.with_suffix(".md")


def check_target(out: Path) -> None:
    """Refuse, before any work, what cannot or must not be written."""
    if out.suffix not in (".html", ".htm"):
        raise InputError(f"--out {out}: must end with .html")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist")
    for path in (out, twin_of(out)):
        if path.is_dir():
            raise InputError(f"--out {out}: {path} is a folder; give another name")
        if path.exists() and GENERATOR not in _head(path):
            raise InputError(
                f"--out {out}: {path} exists and is no report of lafr-mjx; it is not overwritten"
            )


def write(out: Path, page: Page) -> list[Path]:
    """Write page and twin; returns both."""
    folder = out.with_name(f"{out.stem}_files")
    written: set[str] = set()

    def place(picture: Picture) -> str:
        name = f"{picture.name}-{hashlib.sha256(picture.png).hexdigest()[:8]}.png"
        folder.mkdir(exist_ok=True)
        write_whole(folder / name, picture.png)
        written.add(name)
        return f"{folder.name}/{name}"

    try:
        text = to_markdown(page, place)
        write_whole(twin_of(out), text.encode("utf-8"))
        write_whole(out, to_html(page).encode("utf-8"))
        stale = folder.glob("*-[0-9a-f]*.png") if folder.is_dir() else ()
        for path in stale:
            if path.name not in written:
                path.unlink()
    except OSError as error:
        raise RunError(f"{out}: cannot be written: {error.strerror or error}") from error
    return [out, twin_of(out)]


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(1000).decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
