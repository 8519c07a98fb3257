"""What `lm.hil` offers: the commands as functions, with the same words and defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lafr_mjx.api import document, made, named_parts, named_plugins
from lafr_mjx.hil.commands.check import Check
from lafr_mjx.hil.commands.compare import Compare
from lafr_mjx.hil.commands.fly_drone import Fly
from lafr_mjx.hil.commands.replay_bag import Replay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lafr_mjx.plant.plugins import Plugin
    from lafr_mjx.runs.run import Run


def fly(
    task: str = "figure8",
    *,
    plugins: Mapping[str, Plugin] | Iterable[str] = (),
    **options: Any,
) -> Run:
    """Fly a task on a drone and adapt; returns the run, which is also on the disk.

    Examples:
        >>> import lafr_mjx as lm
        >>> run = lm.hil.fly("figure8", scenario="wind5", iterations=3, out="runs/drone")
        >>> run.table["peak_speed_mps"]

    Args:
        task: a shipped task, or the path of a task file.
        plugins: of your own, of the software drone, by name; or as the command takes them.
        options: those of `python -m lafr_mjx.hil fly`, with underscores.
    """
    return made(Fly, task, plugins=named_plugins(plugins), **named_parts(options)).run()


def check(**options: Any) -> None:
    """Fly the software drone in real time, and tell how punctual its commands were.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.hil.check(seconds=20, json="latency.json")

    Args:
        options: those of `python -m lafr_mjx.hil check`, with underscores.
    """
    made(Check, **options).run()


def compare(task: str = "figure8", **options: Any) -> None:
    """Adapt on the simulated plant and on the software drone; fails unless both are alike.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.hil.compare("figure8", scenario="wind5", seed=100, out="runs/compared")

    Args:
        task: a shipped task, or the path of a task file.
        options: those of `python -m lafr_mjx.hil compare`, with underscores.
    """
    made(Compare, task, **named_parts(options)).run()


def replay(recording: Path | str, **options: Any) -> None:
    """Read the recording of a drone's flights, print them, and write what `options` name.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.hil.replay("runs/drone/hil/flight.bag", task="figure8", out="runs/flights")

    Args:
        recording: a ROS 1 bag, or the .spool of a session.
        options: those of `python -m lafr_mjx.hil replay`, with underscores.
    """
    made(Replay, recording, **options).run()


for _function, _command in ((fly, Fly), (check, Check), (compare, Compare), (replay, Replay)):
    document(_function, _command)
