"""Parts of the method, by name: shipped ones, and a user's own.

    verified
    verified(reserve=0.06)
    my_rules.py:Careful(step=0.05)
    my_package.rules:Careful

A kind of part (time scaling, inputs of the residual, policy network, reference, cost) is a family
of modules in one package: `learner/ats_*.py`, for one. The file's name is the part's name, and the
class of the same name in it is the part: a new part is a new file. A user's own is named by its
file or module. A run's configuration names all of its parts, so that it can be repeated.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.errors import InputError, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TEXT = re.compile(r"(?:(?P<source>[^:()]+):)?(?P<kind>[\w-]+)\s*(?:\((?P<values>.*)\))?\s*", re.S)


class Kind(NamedTuple):
    """A family of parts."""

    option: str  # of the command line, without dashes
    package: str
    prefix: str  # of the modules' names

    def names(self) -> list[str]:
        """The shipped ones; imports none of them."""
        found = pkgutil.iter_modules(importlib.import_module(self.package).__path__)
        stems = [m.name for m in found if m.name.startswith(self.prefix)]
        return [stem.removeprefix(self.prefix).replace("_", "-") for stem in stems]


TIME_SCALING = Kind("ats", "lafr_mjx.learner", "ats_")
RESIDUAL = Kind("features", "lafr_mjx.model", "residual_")
NETWORK = Kind("policy", "lafr_mjx.control", "network_")
REFERENCE = Kind("reference", "lafr_mjx.learner", "reference_")
COST = Kind("cost", "lafr_mjx.learner", "cost_")
KINDS = (TIME_SCALING, RESIDUAL, NETWORK, REFERENCE, COST)
LOG = Kind("log", "lafr_mjx.runs", "writer_")  # no part of the method: changes no flight


class Named(NamedTuple):
    """A part as it was asked for."""

    source: str  # file or module; empty for a shipped one
    name: str  # of the class, or the shipped name
    values: dict[str, Any]


def parse(option: str, text: str) -> Named:
    """What a text names.

    Raises:
        InputError: names the option, the text and what it must be.
    """
    found, where = _TEXT.fullmatch(text.strip()), f"--{option} {text}"
    if found is None:
        raise InputError(f"{where}: must be NAME, or FILE.py:CLASS(PARAMETER=VALUE, ...)")
    try:
        call = ast.parse(f"f({found['values'] or ''})", mode="eval").body
    except (SyntaxError, ValueError):
        call = None
    if not isinstance(call, ast.Call) or call.args or not all(k.arg for k in call.keywords):
        raise InputError(f"{where}: parameters are PARAMETER=VALUE with plain values")
    values = {str(k.arg): _plain_value(f"{where}: '{k.arg}'", k.value) for k in call.keywords}
    return Named((found["source"] or "").strip(), found["kind"], values)


def _plain_value(what: str, node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except ValueError as error:
        raise InputError(f"{what} must be a plain value: finite number, text, list") from error
    if any(np.isinf(number) for number in np.ravel(value) if isinstance(number, float)):
        raise InputError(f"{what} must be finite")
    return value


def located(option: str, text: str) -> str:
    """The same with the full path of its file: a run may go on from anywhere."""
    if text.endswith(".npz"):
        return str(Path(text).expanduser().resolve())
    source = parse(option, text).source
    if not source.endswith(".py"):
        return text
    return text.replace(source, str(Path(source).expanduser().resolve()), 1)


def label(text: str) -> str:
    """A part in a word that can be part of a file's name."""
    if text.endswith((".npz", ".toml")):
        return Path(text).stem
    return re.sub(r"[^\w.]+", "-", text.rpartition(":")[2] or text).strip("-")


def check_name(kind: Kind, text: str) -> Named:
    """Refuse what is neither a shipped part nor names a source; imports nothing.

    Raises:
        InputError: names the option, the text and what is allowed.
    """
    named, shipped = parse(kind.option, text), kind.names()
    if named.source or named.name in shipped:
        return named
    file = ", or a policy.npz" if kind is NETWORK else ""
    raise InputError(
        f"--{kind.option} {text}: must be one of {', '.join(shipped)}{file}, or your own as "
        f"FILE.py:CLASS(PARAMETER=VALUE, ...){meant(named.name, shipped)}"
    )


def class_of(kind: Kind, text: str) -> tuple[Any, dict[str, Any]]:
    """The class that a text names, and the parameters that were given."""
    named = check_name(kind, text)
    if named.source:
        return own_class(kind.option, text, named), named.values
    stem = named.name.replace("-", "_")
    module = importlib.import_module(f"{kind.package}.{kind.prefix}{stem}")
    return getattr(module, "".join(word.title() for word in stem.split("_"))), named.values


def own_class(option: str, text: str, named: Named) -> type:
    """A user's own class."""
    module = module_of(option, text, named.source)
    found = getattr(module, named.name, None)
    if not isinstance(found, type):
        mine = module.__name__
        own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == mine]
        what = f"{named.source} has no class '{named.name}'{meant(named.name, own)}"
        raise InputError(f"--{option} {text}: {what}")
    return found


def made(kind: Kind, text: str) -> Any:
    """The part itself, with its parameters.

    Raises:
        InputError: the part does not exist or does not take these parameters.
    """
    found, values = class_of(kind, text)
    return called(kind.option, text, found, values)


def checked(kind: Kind, text: str, methods: Sequence[str], otherwise: str) -> Any:
    """A part whose settings are numbers and which has all of the methods.

    Raises:
        InputError: it is not so; `otherwise` says what it is then.
    """
    import jax

    found = made(kind, text)
    for name in methods:
        if not hasattr(found, name):
            raise InputError(f"--{kind.option} {text}: has no '{name}': it is {otherwise}")
    if not all(isinstance(leaf, float | int | np.ndarray) for leaf in jax.tree.leaves(found)):
        raise InputError(
            f"--{kind.option} {text}: its settings must be numbers, in a named tuple or a "
            f"flax.struct.dataclass"
        )
    return found


def check_weights(option: str, text: str, network: Any) -> None:
    """Refuse what cannot be trained."""
    weights = leaves(network)
    if not weights or not all(np.issubdtype(np.asarray(w).dtype, np.floating) for w in weights):
        raise InputError(
            f"--{option} {text}: its weights must be arrays of floats in a named tuple or a "
            f"flax.struct.dataclass"
        )


def numbers(what: str, given: Any) -> Any:
    """The same, if it is a pytree of numbers.

    Raises:
        InputError: says what gave what instead.
    """
    import jax

    for leaf in jax.tree.leaves(given):
        kind = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
        if kind.kind not in "biufV":
            raise InputError(f"{what} gives {shown(leaf)} where a number must be")
    return given


def shown(thing: Any) -> str:
    """A value in a few words."""
    text = repr(thing) if isinstance(thing, str | int | float | None) else ""
    kind = "n array" if hasattr(thing, "dtype") else f" {type(thing).__name__}"
    return text if text and len(text) < 40 else f"a{kind}"


def called(option: str, text: str, make: Callable[..., Any], values: dict[str, Any]) -> Any:
    """`make(**values)`, with what is wrong about it named."""
    try:
        taken = inspect.signature(make)
    except ValueError as error:
        raise InputError(f"--{option} {text}: its 'create' takes too few values") from error
    try:
        taken.bind(**values)
    except TypeError as error:
        known = ", ".join(taken.parameters) or "none"
        raise InputError(f"--{option} {text}: {error}; its parameters are {known}") from error
    try:
        return make(**values)
    except InputError as error:
        raise InputError(f"--{option} {text}: {error}") from error
    except Exception as error:  # whatever the user's code does
        raise InputError(f"--{option} {text}: cannot be made: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """What an exception says, in a line, with the place in a user's file if it came from there."""
    first = next(iter(str(error).splitlines()), "")
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "site-packages" not in f.filename and not _ours(f.filename)]
    place = [f"{f.filename}, line {f.lineno}, in {f.name}" for f in own[-1:]]
    return f"{text} ({place[0]})" if place else text


def part(kind: type, **values: Any) -> str:
    """The text that names a class of your own with its parameters.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.adapt("figure8", policy=lm.part(MyNetwork, hidden=64))

    Args:
        kind: a class at the top of a file, or of an installed package.
        values: plain numbers, texts, and lists of them.
    """
    if not isinstance(kind, type):
        raise InputError(f"part: {kind!r} is no class")
    given = [f"{name}={_plain(kind, name, value)!r}" for name, value in values.items()]
    return f"{source_of(kind)}:{kind.__name__}({', '.join(given)})"


def text_of(thing: Any) -> str:
    """A part by its text or file, its class, or an object of it whose fields are its parameters.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.adapt("figure8", ats=Careful(step=0.05))  # "my_rules.py:Careful(step=0.05)"
    """
    if isinstance(thing, str | Path):
        return str(thing)
    if isinstance(thing, type):
        return part(thing)
    if type(thing).__module__ == "builtins":
        raise InputError(f"{thing!r} is no part: give a text, a class, or an object of a class")
    names = _fields(thing)
    if not names and getattr(thing, "__dict__", None):
        raise InputError(
            f"{type(thing).__name__}: its parameters are not known: make it a dataclass or a named "
            f"tuple, or say lm.part({type(thing).__name__}, PARAMETER=VALUE, ...)"
        )
    return part(type(thing), **{name: getattr(thing, name) for name in names})


def source_of(kind: type) -> str:
    """The file of a class, or the module of an installed package, which is found everywhere."""
    module, file = kind.__module__, getattr(sys.modules.get(kind.__module__), "__file__", None)
    if kind.__qualname__ != kind.__name__:
        raise InputError(f"{kind.__qualname__}: must be at the top of its module")
    if "." in module and not module.startswith("__"):
        return module
    if file is None or not Path(file).is_file():
        raise InputError(f"{kind.__name__}: must be defined in a file, not {module}")
    return str(Path(file).resolve())


def digest(*classes: type) -> str:
    """Fingerprint of the source of classes, to notice that one was edited."""
    try:
        sources = [inspect.getsource(one) for one in classes]
    except (OSError, TypeError) as error:
        names = ", ".join(one.__name__ for one in classes)
        raise InputError(f"{names}: must be written as 'class ...:' in a file") from error
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]


def own_digest(option: str, text: str) -> str:
    """Fingerprint of a part that is a user's own; empty for a shipped one."""
    if text.endswith(".npz"):
        if not Path(text).is_file():
            raise InputError(f"--{option} {text}: there is no such file")
        return hashlib.sha256(Path(text).read_bytes()).hexdigest()[:16]
    named = parse(option, text)
    if not named.source:
        return ""
    found = own_class(option, text, named)
    try:
        return digest(found)
    except InputError as error:
        raise InputError(f"--{option} {text}: {error}") from error


def module_of(option: str, text: str, source: str) -> Any:
    """A user's module, by its file or its name; a file is run once."""
    path = Path(source).expanduser().resolve()
    # Its neighbours are found, too, as in a script.
    sys.path.insert(0, str(path.parent if source.endswith(".py") else Path.cwd()))
    try:
        if not source.endswith(".py"):
            return importlib.import_module(source)
        main = sys.modules.get("__main__")
        if main is not None and getattr(main, "__file__", None) == str(path):
            return main  # a script that names itself is not run again
        name = f"lafr_mjx_user_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
        if name not in sys.modules:
            found = importlib.util.spec_from_file_location(name, path)
            if found is None or found.loader is None or not path.is_file():
                raise InputError(f"--{option} {text}: there is no file {path}")
            module = importlib.util.module_from_spec(found)
            sys.modules[name] = module  # where a dataclass looks for its module
            try:
                found.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
        return sys.modules[name]
    except InputError:
        raise
    except Exception as error:  # whatever the user's file does
        raise InputError(f"--{option} {text}: cannot be imported: {reason(error)}") from error
    finally:
        sys.path.pop(0)


def leaves(tree: Any) -> list[Any]:
    """Arrays and numbers of a pytree of named tuples, tuples, lists, tables and dataclasses.

    As JAX would list them, without JAX: a drone's control process has none.
    """
    found: list[Any] = []
    map_leaves(found.append, tree)
    return found


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same pytree with every leaf replaced."""
    if tree is None:
        return None
    if isinstance(tree, tuple | list):
        made = [map_leaves(function, item) for item in tree]
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)
    if isinstance(tree, dict):
        return {key: map_leaves(function, tree[key]) for key in sorted(tree)}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        new = {f: map_leaves(function, getattr(tree, f)) for f in _fields(tree)}
        return dataclasses.replace(tree, **new)
    return function(tree)


def _ours(file: str) -> bool:
    return file.startswith("<") or Path(file).is_relative_to(Path(__file__).parent)


def _fields(part: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(part):
        return tuple(field.name for field in dataclasses.fields(part))
    return tuple(getattr(part, "_fields", ()))


def _plain(kind: type, name: str, value: Any) -> Any:
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, list | tuple):
        return [_plain(kind, name, item) for item in value]
    try:
        return np.asarray(value, float).tolist()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{kind.__name__}: its parameter '{name}' is no number, text or list of them; a run "
            f"cannot be repeated from its configuration then"
        ) from error
