"""A user's own plugins, as text: so that a run's configuration names all that it was flown with.

    thermal=my_plugins.py:Thermal(strength=4.0, centre=[1.0, 0.0, 2.0])

A name for the plugin, and its class with its parameters as `parts` reads them.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any

from lafr_mjx import parts
from lafr_mjx.errors import InputError
from lafr_mjx.plant.plugins.plugin import Plugin
from lafr_mjx.plant.vec3 import Vec3

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FORM = "NAME=FILE.py:CLASS(PARAMETER=VALUE, ...) or NAME=MODULE:CLASS(...)"


def located(text: str) -> str:
    """The same with the full path of its file: a run may go on from anywhere.

    The class is loaded, so that its scenario keys are known from here on.
    """
    name, what = _split(text)
    _class(what)
    return f"{name}={parts.located('plugins', what)}"


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
        name, what = _split(text)
        if name in plugins:
            raise InputError(f"--plugins {text}: '{name}' is given twice")
        plugins[name] = _built(what)
        try:
            _try_out(name, plugins[name])
        except Exception as error:  # whatever the user's code does
            why = parts.reason(error)
            if not why.endswith(")"):  # it names no place in the user's file
                why += f"; see lm.{type(plugins[name]).__mro__[1].__name__}"
            raise InputError(f"--plugins {text}: fails: {why}") from error
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
    engine = build_engine(vehicle, "freebody")
    params = params_for(vehicle, Settings(), (), {name: plugin})

    def flight() -> Any:
        start = simulation.reset(engine, params, jax.random.key(0))
        return jax.lax.scan(
            lambda state, command: simulation.step(engine, params, state, command),
            start, jax.numpy.zeros((1, 4)),
        )  # fmt: skip

    jax.eval_shape(flight)


def text_of(name: str, plugin: Plugin) -> str:
    """A plugin as text, from which `build` makes it again."""
    if not isinstance(plugin, Plugin) or not dataclasses.is_dataclass(plugin):
        raise InputError(f"plugin '{name}': {plugin!r} is no plugin with its parameters")
    values = {field.name: getattr(plugin, field.name) for field in dataclasses.fields(plugin)}
    plain = {k: [v.x, v.y, v.z] if isinstance(v, Vec3) else v for k, v in values.items()}
    try:
        return f"{name}={parts.part(type(plugin), **plain)}"
    except InputError as error:
        raise InputError(f"plugin '{name}': {error}") from error


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
    return parts.digest(*(type(plugin) for plugin in build(texts).values()))


def _split(text: str) -> tuple[str, str]:
    """Name of a plugin, and what is its class."""
    found = re.fullmatch(r"(\w+)=([^:()]+:\w+(?:\(.*\))?)", text.strip(), re.S)
    if found is None:
        raise InputError(f"--plugins {text}: must be {_FORM}")
    return found[1], found[2]


def _class(what: str) -> type[Plugin]:
    named = parts.parse("plugins", what)
    kind = parts.own_class("plugins", what, named)
    if not (issubclass(kind, Plugin) and dataclasses.is_dataclass(kind)):
        raise InputError(
            f"--plugins {what}: '{named.name}' is no plugin of {named.source}: a dataclass that "
            f"derives from the class of its phase, e.g. AirPlugin"
        )
    return kind


def _built(what: str) -> Plugin:
    kind, values = _class(what), parts.parse("plugins", what).values
    plugin: Any = parts.called("plugins", what, kind, values)
    usual = _usual(kind)
    for name, value in values.items():
        if isinstance(getattr(usual, name, None), Vec3) and isinstance(value, list | tuple):
            if len(value) != 3:
                raise InputError(f"--plugins {what}: '{name}' must be three numbers")
            plugin = plugin.replace(**{name: Vec3(*map(float, value))})
    return plugin


def _usual(kind: type) -> Any:
    """The plugin with its defaults; None if it has not all of them."""
    try:
        return kind()
    except Exception:  # it may also refuse them
        return None
