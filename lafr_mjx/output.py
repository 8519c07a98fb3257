"""What commands print, and the JSON file that carries the same figures."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def check_writable(path: Path | None, option: str = "--json") -> None:
    """Fail before the work is done, not after it, if a result file cannot be written."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} {path}: is a folder; give the name of a file")
    parent = path.parent
    if not parent.is_dir():
        raise InputError(f"{option} {path}: the folder {parent} does not exist")
    if not os.access(parent, os.W_OK):
        raise InputError(f"{option} {path}: the folder {parent} is not writable")


def check_range(option: str, value: float | None, low: float, high: float) -> None:
    """Refuse a number that is beyond its limits, or is none; None was not given."""
    if value is not None and not low <= value <= high:
        raise InputError(f"--{option} {value}: must be from {low:.10g} to {high:.10g}")


def write_json(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Write one object; the file appears whole or not at all."""
    if path is None:
        return
    text = json.dumps(plain(dict(figures)), indent=2, allow_nan=False) + "\n"
    # Not by tempfile, whose files nobody else may read, whatever the umask says.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def plain(value: Any) -> Any:
    """NumPy and JAX arrays as lists and numbers; what is not finite as None, which JSON can say."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def counted(count: int, what: str) -> str:
    """So many of it, in words: 1 flight, 2 flights."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: int = 1,
    console: Any = None,
) -> None:
    """A table on standard output; the first `text_columns` are text, the others numbers.

    No word is ever cut: on a narrow screen the frame goes first, then the last columns.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = console or Console()
    texts = list(zip(columns, *rows, strict=True))  # by column
    words = [max((len(word) for text in one for word in text.split()), default=1) for one in texts]
    count = len(columns)
    if not console.is_terminal:  # a file is as wide as it must be
        console.width = max(console.width, sum(words) + 3 * count + 1)
    framed = sum(words) + 3 * count + 1 <= console.width
    frame = 3 if framed else 1  # characters beside each column
    while count > 1 and sum(words[:count]) + frame * count + 1 > console.width:
        count -= 1
    spare = max(0, console.width - sum(words[:count]) - frame * count - 1)
    style: Any = {} if framed else {"box": box.SIMPLE_HEAD, "padding": 0}
    table = Table(title=title, title_justify="left", **style)
    for i in range(count):
        more = min(spare, max(map(len, texts[i])) - words[i])
        spare -= more
        justify = "left" if i < text_columns else "right"
        table.add_column(columns[i], justify=justify, width=words[i] + more)
    for row in rows:
        table.add_row(*row[:count])
    console.print(table)
    if count < len(columns):
        console.print(f"Not shown on a screen this narrow: {', '.join(columns[count:])}.")
