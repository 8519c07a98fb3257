"""Options in the help texts: called by what they are, and without defaults that say nothing.

Left alone, tyro shows `--scenario {None}|STR (default: None)`, and breaks lines as the code does.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from itertools import pairwise
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import tyro

if TYPE_CHECKING:
    from collections.abc import Mapping

Command = TypeVar("Command", bound=type)

_POSITIONAL = get_args(tyro.conf.Positional[str])[1]


def readable(command: Command) -> Command:
    """Give the fields of a command's dataclass better words; its own `metavar` come first."""
    hints, texts = get_type_hints(command, include_extras=True), _texts(command)
    for field in dataclasses.fields(command):
        kind, *notes = _opened(hints[field.name])
        needed = field.default is dataclasses.MISSING
        metavar = _metavar(kind, field.name)
        if metavar and _POSITIONAL in notes and not needed:
            metavar = f"[{metavar}]"
        unsaid = needed or field.default is None or field.default == ()
        words: Any = tyro.conf.arg(
            metavar=metavar, help=texts.get(field.name), help_behavior_hint="" if unsaid else None
        )
        own = [note for note in notes if note != words]  # it may have been here before
        command.__annotations__[field.name] = Annotated[kind, words, *own]
    return command


def add_commands(
    app: tyro.extras.SubcommandApp, commands: Mapping[str, type], *, brief: bool
) -> None:
    """Give an app its commands; `brief` shows one sentence of each, for the help of all of them."""
    for name, command in commands.items():
        # tyro types the argument as a function; a dataclass is one for it, too.
        sentence = str(command.__doc__).splitlines()[0] if brief else None
        app.command(readable(command), name=name, help=sentence)  # pyright: ignore


def _texts(command: type) -> dict[str, str]:
    """What stands below the fields of a dataclass, in one line each."""
    found: dict[str, str] = {}
    for kind in reversed(command.__mro__):
        if not dataclasses.is_dataclass(kind):
            continue
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        for field, text in pairwise(getattr(made, "body", [])):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return found


def _opened(hint: Any) -> tuple[Any, ...]:
    """A type and what was noted about it."""
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


def _metavar(kind: Any, name: str) -> str | None:
    """What stands for a value of this kind; None where tyro's own word will do."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (one,) = (part for part in parts if part is not type(None))
        return _metavar(one, name) or one.__name__.upper()
    if origin is Literal:
        return f"{{{','.join(parts)}}}"
    if origin in (tuple, list):
        one = _metavar(parts[0], name.removesuffix("s")) or parts[0].__name__.upper()
        return f"{one} [{one} ...]"
    return name.upper().replace("_", "-") if kind is str else None
