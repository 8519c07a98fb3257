"""`python -m lafr_mjx.hil`: flights on drones with Agilicious or MAVLink, and on a software one.

Exit status: 0 success, 1 a run that failed, 2 bad input.
"""

from __future__ import annotations

import sys

import tyro

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.help_texts import add_commands
from lafr_mjx.hil.commands.check import Check
from lafr_mjx.hil.commands.compare import Compare
from lafr_mjx.hil.commands.firmware_steps import FirmwareSteps
from lafr_mjx.hil.commands.fly_drone import Fly
from lafr_mjx.hil.commands.hold_stop import Stop
from lafr_mjx.hil.commands.replay_bag import Replay
from lafr_mjx.hil.commands.run_master import RunMaster
from lafr_mjx.hil.commands.sim_drone import SimDrone

_PROG = "python -m lafr_mjx.hil"
_DESCRIPTION = """Flights on drones with Agilicious or MAVLink, and on a software one.

python -m lafr_mjx.hil fly figure8 --vehicle sim --scenario wind5

python -m lafr_mjx.hil check

python -m lafr_mjx.hil sim-drone --scenario wind5

python -m lafr_mjx.hil replay flight.bag --task figure8
"""
_COMMANDS = {
    "fly": Fly,
    "check": Check,
    "compare": Compare,
    "replay": Replay,
    "sim-drone": SimDrone,
    "firmware-steps": FirmwareSteps,
    "stop": Stop,
    "master": RunMaster,
}


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and run the command; ends the process with its status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    app = tyro.extras.SubcommandApp()
    add_commands(app, _COMMANDS, brief=arguments[:1] in (["-h"], ["--help"]))
    try:
        app.cli(prog=_PROG, description=_DESCRIPTION, args=arguments).run()
    except InputError as error:
        print(f"{_PROG}: {error}", file=sys.stderr)
        sys.exit(2)
    except RunError as error:
        print(f"{_PROG}: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(f"{_PROG}: interrupted", file=sys.stderr)
        sys.exit(130)
    sys.exit(0)


if __name__ == "__main__":
    main()
