"""A user's own plugins, as text: so that a run's configuration names all that it was flown with.

    thermal=my_plugins.py:Thermal(strength=4.0, centre=[1.0, 0.0, 2.0])

A name for the plugin, where its class is (a file, or a module that can be imported), the class,
and its parameters as plain numbers, texts and lists of them.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.plant.plugins.plugin import Plugin
from lafr_mjx.plant.vec3 import Vec3

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TEXT = re.compile(r"(?P<name>\w+)=(?P<source>[^:()]+):(?P<kind>\w+)(\((?P<values>.*)\))?", re.S)
_FORM = "NAME=FILE.py:CLASS(PARAMETER=VALUE, ...) or NAME=MODULE:CLASS(...)"


class _Named(NamedTuple):
    name: str
    source: str  # file or module
    kind: str  # of the class
    values: dict[str, Any]


def located(text: str) -> str:
    """The same with the full path of its file: a run may go on from anywhere.

    The class is loaded, so that its scenario keys are known from here on.
    """
    named = _parsed(text)
    _class(text, named)
    if not named.source.endswith(".py"):
        return text
    return text.replace(named.source, str(Path(named.source).expanduser().resolve()), 1)


def build(texts: Iterable[str]) -> dict[str, Plugin]:
    """The plugins by their names.

    Raises:
        InputError: names the plugin and what is wrong with it.
    """
    return dict(_tried(tuple(texts)))


@functools.lru_cache
def _tried(texts: tuple[str, ...]) -> dict[str, Plugin]:
    plugins: dict[str, Plugin] = {}
    for text in texts:
        named = _parsed(text)
        if named.name in plugins:
            raise InputError(f"--plugins {text}: '{named.name}' is given twice")
        try:
            plugins[named.name] = _built(text, named)
            _try_out(named.name, plugins[named.name])
        except InputError:
            raise
        except Exception as error:  # whatever the user's code does
            raise InputError(f"--plugins {text}: {_where(error, named)}") from error
    return plugins


def _try_out(name: str, plugin: Plugin) -> None:
    """Trace a flight without flying it: what is wrong is told before a run begins."""
    import jax

    from lafr_mjx.plant import simulation
    from lafr_mjx.plant.engine import build_engine
    from lafr_mjx.plant.scenario_params import params_for
    from lafr_mjx.plant.settings import Settings
    from lafr_mjx.plant.vehicle import load_vehicle

    vehicle = load_vehicle("lafr192")
    engine, params = (
        build_engine(vehicle, "freebody"),
        params_for(vehicle, Settings(), (), {name: plugin}),
    )

    def flight() -> Any:
        start = simulation.reset(engine, params, jax.random.key(0))
        return jax.lax.scan(
            lambda state, command: simulation.step(engine, params, state, command),
            start, jax.numpy.zeros((1, 4)),
        )  # fmt: skip

    jax.eval_shape(flight)


def _where(error: Exception, named: _Named) -> str:
    """One line: the place in the user's file, if it came so far, and what was said."""
    file = inspect.getsourcefile(getattr(_module("", named.source), named.kind))
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file]
    place = f"{file}, line {own[-1].lineno}, in {own[-1].name}" if own else f"{file}"
    said = next(iter(str(error).splitlines()), "")
    return f"{named.kind} fails ({place}): {type(error).__name__}: {said}"


def text_of(name: str, plugin: Plugin) -> str:
    """A plugin as text, from which `build` makes it again."""
    kind = type(plugin)
    if not isinstance(plugin, Plugin) or not dataclasses.is_dataclass(plugin):
        raise InputError(f"plugin '{name}': {plugin!r} is no plugin with its parameters")
    if kind.__qualname__ != kind.__name__:
        raise InputError(f"plugin '{name}': {kind.__qualname__} must be at the top of its module")
    source = _source_of(name, kind)
    values = []
    for field in dataclasses.fields(plugin):
        value = getattr(plugin, field.name)
        value = [value.x, value.y, value.z] if isinstance(value, Vec3) else value
        try:
            plain = value if isinstance(value, str | bool) else np.asarray(value, float).tolist()
        except (TypeError, ValueError) as error:
            raise InputError(
                f"plugin '{name}': its parameter '{field.name}' is no number, text or list of "
                f"numbers; a run cannot be repeated from its configuration then"
            ) from error
        values.append(f"{field.name}={plain!r}")
    return f"{name}={source}:{kind.__name__}({', '.join(values)})"


def _source_of(name: str, kind: type) -> str:
    """The file of a class, or the module of an installed package, which is found everywhere."""
    module, file = kind.__module__, getattr(sys.modules.get(kind.__module__), "__file__", None)
    if "." in module and not module.startswith("__"):
        return module
    if file is None or not Path(file).is_file():
        raise InputError(
            f"plugin '{name}': {kind.__name__} must be defined in a file, not {module}"
        )
    return str(Path(file).resolve())


def texts_of(plugins: Mapping[str, Plugin] | Iterable[str]) -> tuple[str, ...]:
    """Plugins by their names, or texts already, as texts."""
    if isinstance(plugins, str):
        raise InputError(f"plugins {plugins!r}: give a list of texts, or plugins by their names")
    if hasattr(plugins, "items"):
        return tuple(text_of(name, plugin) for name, plugin in plugins.items())  # type: ignore
    texts = tuple(plugins) if hasattr(plugins, "__iter__") else (plugins,)
    if not all(isinstance(text, str) for text in texts):
        raise InputError("plugins: give them by their names, e.g. {'thermal': Thermal(...)}")
    return texts  # type: ignore[return-value]


def digest(texts: Iterable[str]) -> str:
    """Fingerprint of the classes' source, to notice that one was edited."""
    sources = [inspect.getsource(type(plugin)) for plugin in build(texts).values()]
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]


def _parsed(text: str) -> _Named:
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise InputError(f"--plugins {text}: must be {_FORM}")
    try:
        call = ast.parse(f"f({found['values'] or ''})", mode="eval").body
        assert isinstance(call, ast.Call)
        values = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
        good = not call.args and all(k.arg for k in call.keywords)
    except (SyntaxError, ValueError, AssertionError):
        good, values = False, {}
    if not good:
        raise InputError(f"--plugins {text}: parameters are PARAMETER=VALUE with plain values")
    return _Named(found["name"], found["source"].strip(), found["kind"], values)


def _class(text: str, named: _Named) -> type[Plugin]:
    kind = getattr(_module(text, named.source), named.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, Plugin) and dataclasses.is_dataclass(kind)):
        raise InputError(
            f"--plugins {text}: '{named.kind}' is no plugin of {named.source}: a dataclass that "
            f"derives from the class of its phase, e.g. AirPlugin"
        )
    return kind


def _built(text: str, named: _Named) -> Plugin:
    kind: Any = _class(text, named)
    try:
        plugin: Any = kind(**named.values)
    except TypeError as error:
        known = ", ".join(field.name for field in dataclasses.fields(kind))
        raise InputError(f"--plugins {text}: {error}; its parameters are {known}") from error
    usual: Any = _usual(kind)
    for name, value in named.values.items():
        if isinstance(getattr(usual, name, None), Vec3) and isinstance(value, list | tuple):
            if len(value) != 3:
                raise InputError(f"--plugins {text}: '{name}' must be three numbers")
            plugin = plugin.replace(**{name: Vec3(*map(float, value))})
    return plugin


def _usual(kind: type) -> Any:
    """The plugin with its defaults; None if it has not all of them."""
    try:
        return kind()
    except Exception:  # it may also refuse them
        return None


def _module(text: str, source: str) -> Any:
    try:
        if not source.endswith(".py"):
            return importlib.import_module(source)
        path = Path(source).expanduser().resolve()
        main = sys.modules.get("__main__")
        if main is not None and getattr(main, "__file__", None) == str(path):
            return main  # a script that names itself is not run again
        name = f"lafr_mjx_user_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
        if name not in sys.modules:
            found = importlib.util.spec_from_file_location(name, path)
            if found is None or found.loader is None or not path.is_file():
                raise FileNotFoundError(f"{path} is no file")
            module = importlib.util.module_from_spec(found)
            sys.modules[name] = module  # where a dataclass looks for its module
            try:
                found.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
        return sys.modules[name]
    except Exception as error:  # whatever the user's file does
        raise InputError(f"--plugins {text}: {source} cannot be imported: {error}") from error
