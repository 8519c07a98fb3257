"""What `import lafr_mjx` offers: the commands as functions, with the same words and defaults."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.commands.bounds import Bounds
from lafr_mjx.commands.certify import Certify
from lafr_mjx.commands.check_claims import CheckClaims
from lafr_mjx.commands.fit import Fit
from lafr_mjx.commands.fly import Fly
from lafr_mjx.commands.report import Report
from lafr_mjx.commands.reproduce import Reproduce
from lafr_mjx.commands.view import View
from lafr_mjx.errors import InputError, meant
from lafr_mjx.parts import text_of
from lafr_mjx.run_spec import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lafr_mjx.ablation.table import RunResult
    from lafr_mjx.plant.plugins import Plugin
    from lafr_mjx.runs.run import Run

__all__ = [
    "ablate", "adapt", "bounds", "certify", "check_claims", "fit", "fly", "make_report",
    "reproduce", "watch",
]  # fmt: skip


def fly(
    task: str = "figure8",
    *,
    plugins: Mapping[str, Plugin] | Iterable[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Fly a task with the classical controller; returns the figures.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.fly("figure8", scenario="wind5", engine="freebody")["rmse_m"]

    Args:
        task: a shipped task, or the path of a task file.
        plugins: of your own, by name; or as `lafr-mjx fly` takes them.
        options: those of `lafr-mjx fly`, with underscores.
    """
    return made(Fly, task, plugins=named_plugins(plugins), **options).fly()


def adapt(
    task: str = "figure8",
    *,
    plugins: Mapping[str, Plugin] | Iterable[str] = (),
    **options: Any,
) -> Run:
    """Adapt a policy in flight; returns the run, which is also on the disk.

    Parts of the method may be your own, as objects or classes: `ats=Careful(step=0.05)`,
    `policy=lm.part(MyNetwork, hidden=64)`, `features=MyInputs`, `reference=MyPlanner`,
    `cost=MyCost`, `engine=MyPlant`. So may what is written: `log=["csv", MyLog]`.

    Examples:
        >>> import lafr_mjx as lm
        >>> run = lm.adapt("figure8", scenario="wind5", iterations=12, out="runs/a")
        >>> run.table["lap_time_s"]

    Args:
        task: a shipped task, or the path of a task file.
        plugins: of your own, by name; or as `lafr-mjx adapt` takes them.
        options: those of `lafr-mjx adapt`, with underscores.
    """
    return made(Adapt, task, plugins=named_plugins(plugins), **named_parts(options)).run()


def ablate(
    *tasks: str,
    sweep: Mapping[str, Iterable[float]] | Iterable[str] = (),
    plugins: Mapping[str, Plugin] | Iterable[str] = (),
    **options: Any,
) -> list[RunResult]:
    """Run whole adaptations in batches; returns the finished runs.

    Parts of the method may be your own, as for `adapt`.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.ablate("figure8", methods=["ours", "baseline"], scenarios=["nominal"],
        ...           seeds=range(3), sweep={"command_delay_ms": [0, 40]}, out="runs/delay")

    Args:
        tasks: shipped tasks, or paths of task files.
        sweep: settings of the scenario with their values.
        plugins: of your own, by name; or as `lafr-mjx ablate` takes them.
        options: those of `lafr-mjx ablate`, with underscores.
    """
    return made(Ablate, tasks, **_of_many(sweep, plugins, options)).run()


def certify(
    *tasks: str,
    sweep: Mapping[str, Iterable[float]] | Iterable[str] = (),
    plugins: Mapping[str, Plugin] | Iterable[str] = (),
    **options: Any,
) -> list[RunResult]:
    """Run whole adaptations on many random plants, and say how often one goes wrong.

    Parts of the method may be your own, as for `adapt`.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.certify("figure8", "shuttle", plants=256, out="runs/certificate")

    Args:
        tasks: shipped tasks, or paths of task files; by default the figure-8 and the shuttle.
        sweep: settings of the scenario with their values.
        plugins: of your own, by name; or as `lafr-mjx certify` takes them.
        options: those of `lafr-mjx certify`, with underscores.
    """
    return made(Certify, tasks or Certify.tasks, **_of_many(sweep, plugins, options)).run()


def fit(*logs: Path | str, **options: Any) -> dict[str, Any]:
    """Fit the hybrid model to recorded flights and test it; returns the figures.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.fit("runs/a", out="runs/fit-a")["hybrid_500ms_position_mm"]

    Args:
        logs: recorded flights, in any format that `lafr-mjx fit --help` lists.
        options: those of `lafr-mjx fit`, with underscores.
    """
    return made(Fit, logs, **options).run()


def bounds(task: str = "figure8", **options: Any) -> dict[str, Any]:
    """Compute time-optimal lower bounds of a task; returns the figures.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.bounds("figure8", only=("uniform",))["uniform_ceiling_s"]

    Args:
        task: a shipped task, or the path of a task file.
        options: those of `lafr-mjx bounds`, with underscores.
    """
    return made(Bounds, task, **options).run()


def watch(run_folder: Path | str | None = None, **options: Any) -> None:
    """Watch a run, or write a video or a picture of it.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.watch("runs/a", video="flight.mp4", strobe="flight.png")

    Args:
        run_folder: of a run, or a recorded flight; without it, `task` flies live.
        options: those of `lafr-mjx view`, with underscores.
    """
    made(View, run_folder, **options).run()


def make_report(*runs: Path | str, **options: Any) -> None:
    """Make a report of runs, beside what the paper claims.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.make_report("runs/a", "runs/b", out="report.html")

    Args:
        runs: run folders, or folders that contain them.
        options: those of `lafr-mjx report`, with underscores.
    """
    made(Report, runs, **options).run()


def check_claims(**options: Any) -> None:
    """Fly the paper's claims and print them beside what was measured.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.check_claims(quick=True)

    Args:
        options: those of `lafr-mjx check-claims`, with underscores.
    """
    made(CheckClaims, **options).run()


def reproduce(**options: Any) -> None:
    """Fly the paper's simulation section, then make the report.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.reproduce(quick=True)

    Args:
        options: those of `lafr-mjx reproduce`, with underscores.
    """
    made(Reproduce, **options).run()


def named_plugins(plugins: Mapping[str, Plugin] | Iterable[str]) -> tuple[str, ...]:
    if not plugins:
        return ()
    from lafr_mjx.plant.user_plugins import texts_of

    return texts_of(plugins)


def _of_many(sweep: Any, plugins: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options of many runs, as their commands take them."""
    if hasattr(sweep, "items"):
        for key, values in sweep.items():
            if isinstance(values, str) or not hasattr(values, "__iter__"):
                raise InputError(f"sweep: '{key}' must have a list of values, not {values!r}")
        sweep = [f"{key}={','.join(map(str, values))}" for key, values in sweep.items()]
    given = named_parts(options) | {"sweep": tuple(sweep), "plugins": named_plugins(plugins)}
    for key in given.keys() & {"methods", "scenarios", "seeds"}:
        one = isinstance(given[key], str | int)
        given[key] = (given[key],) if one else tuple(given[key])
    return given


def made(command: type, *first: Any, **options: Any) -> Any:
    """The command; words that the command line would refuse are refused here, too."""
    known = [field.name for field in fields(command)]
    for name in options:
        if name not in known:
            raise InputError(
                f"{command.__name__.lower()}: there is no option {name!r}{meant(name, known)}"
            )
    hints = get_type_hints(command)
    given: dict[str, Any] = dict(zip(known, first, strict=False)) | options
    for name, value in given.items():
        several = get_origin(hints[name]) is tuple
        kind = get_args(hints[name])[0] if several else hints[name]
        if Path in (kind, *get_args(kind)) and value is not None:  # a script may give text
            given[name] = tuple(map(Path, value)) if several else Path(value)
        if get_origin(kind) is Literal:
            words: Any = value if several and not isinstance(value, str) else (value,)
            for word in words:
                if word not in get_args(kind):
                    allowed = ", ".join(get_args(kind))
                    raise InputError(f"{name} {word!r}: must be one of {allowed}")
    return command(**given)


def named_parts(options: dict[str, Any]) -> dict[str, Any]:
    """Options with texts where the commands name parts; a script may give objects and classes."""
    found = dict(options)
    for key in found.keys() & {*PARTS, "log"}:
        given = found[key]
        several = key == "log" and type(given) in (list, tuple)
        try:
            texts = tuple(text_of(one) for one in (given if several else [given]))
            found[key] = texts if key == "log" else texts[0]
        except InputError as error:
            raise InputError(f"{key}: {error}") from error
    return found


def document(function: Any, command: type) -> None:
    """A function shows the options of its command."""
    own = inspect.signature(function)
    named = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    shown = {p.name for p in named} | {"tasks", "logs", "sizes"}
    options = inspect.signature(command).parameters.values()
    more = [p.replace(kind=p.KEYWORD_ONLY) for p in options if p.name not in shown]
    function.__signature__ = own.replace(parameters=[*named, *more])


for _function, _command in (
    (fly, Fly),
    (adapt, Adapt),
    (ablate, Ablate),
    (fit, Fit),
    (bounds, Bounds),
    (certify, Certify),
    (watch, View),
    (make_report, Report),
    (check_claims, CheckClaims),
    (reproduce, Reproduce),
):
    document(_function, _command)
