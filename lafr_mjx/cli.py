"""The command line: `lafr-mjx` and `python -m lafr_mjx`.

Exit status: 0 success, 1 a run that failed, 2 bad input.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

import tyro

import lafr_mjx
from lafr_mjx import interruption
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.commands.bench_ablate import BenchAblate
from lafr_mjx.commands.bench_adapt import BenchAdapt
from lafr_mjx.commands.bench_fit import BenchFit
from lafr_mjx.commands.bench_plant import BenchPlant
from lafr_mjx.commands.bounds import Bounds
from lafr_mjx.commands.certify import Certify
from lafr_mjx.commands.check_claims import CheckClaims
from lafr_mjx.commands.demo import Demo
from lafr_mjx.commands.fit import Fit
from lafr_mjx.commands.fly import Fly
from lafr_mjx.commands.listing import List
from lafr_mjx.commands.report import Report
from lafr_mjx.commands.reproduce import Reproduce
from lafr_mjx.commands.view import View
from lafr_mjx.errors import InputError, RunError, meant
from lafr_mjx.help_texts import add_commands

_DESCRIPTION = """Learn agile quadrotor flight while flying.

lafr-mjx demo

lafr-mjx adapt figure8 --scenario wind5

lafr-mjx view runs/figure8-wind5-ours-0

lafr-mjx adapt --help

lafr-mjx --version
"""


_COMMANDS = {
    "ablate": Ablate, "adapt": Adapt, "bounds": Bounds, "certify": Certify,
    "check-claims": CheckClaims, "demo": Demo, "fly": Fly,
    "fit": Fit, "list": List, "report": Report, "reproduce": Reproduce, "view": View,
}  # fmt: skip
_BENCHMARKS = {"adapt": BenchAdapt, "plant": BenchPlant, "ablate": BenchAblate, "fit": BenchFit}


def _app(brief: bool) -> tyro.extras.SubcommandApp:
    bench, app = tyro.extras.SubcommandApp(), tyro.extras.SubcommandApp()
    add_commands(bench, _BENCHMARKS, brief=brief)
    add_commands(app, _COMMANDS, brief=brief)
    app.command(bench, name="bench", help="Measure speed, each figure beside its yardstick.")
    return app


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and run the command; ends the process with its status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"lafr-mjx {lafr_mjx.__version__}")
        sys.exit(0)
    try:
        _check_command(arguments)
        of_many = arguments[1:] if arguments[:1] == ["bench"] else arguments
        command = _app(brief=of_many[:1] in (["-h"], ["--help"])).cli(
            prog="lafr-mjx",
            description=_DESCRIPTION,
            args=arguments,
        )
        with interruption.orderly():
            command.run()
        sys.stdout.flush()
    except InputError as error:
        print(f"lafr-mjx: {error}", file=sys.stderr)
        sys.exit(2)
    except RunError as error:
        print(f"lafr-mjx: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt as stop:
        print("lafr-mjx: interrupted", file=sys.stderr)
        sys.exit(getattr(stop, "status", 130))
    except OSError as error:
        _end_without_output(error)
    sys.exit(0)


def _check_command(arguments: list[str]) -> None:
    known = (*_COMMANDS, "bench")
    if arguments and not arguments[0].startswith("-") and arguments[0] not in known:
        raise InputError(
            f"unknown command '{arguments[0]}': must be one of {', '.join(known)}"
            f"{meant(arguments[0], known)}"
        )


def _end_without_output(error: OSError) -> NoReturn:
    """Nothing more can be printed: a full disk behind a redirection, or a closed pipe."""
    # What is still buffered would fail again when Python ends.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        sys.exit(1)  # the reader has seen enough, as with `| head`
    where = f"{error.filename}: " if error.filename else ""
    print(f"lafr-mjx: {where}{error.strerror or error}", file=sys.stderr)
    sys.exit(1)
