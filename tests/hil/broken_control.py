"""The control process with something broken inside: what `broken.txt` says, from SIGUSR1 on.

Started instead of `control_process` by the tests' `Breakable`; all else in it is the real one.
"""

import signal
import sys
from pathlib import Path

import numpy as np

from lafr_mjx.hil.control.control_process import main
from lafr_mjx.hil.control.flyer import Flyer
from lafr_mjx.hil.drones.agilicious import Agilicious
from lafr_mjx.hil.safety.drone_profile import load_profile

COMMANDS = {
    "nan": lambda k, last: [np.nan] * 4,
    "infinite": lambda k, last: [np.inf, 0.0, 0.0, 0.0],
    "out of range": lambda k, last: [40.0, 0.3, 0.0, 0.0],
    "to and fro": lambda k, last: [9.8 + 30.0 * (k % 2), 6.0 * (-1) ** k, 0.0, 0.0],
    # Nobody reacts to what is reported of the attitude, as when a rotor has gone.
    "held": lambda k, last: [last[0], 0.0, 0.0, 0.0],
}
"""What the policy gives at its k-th tick, after the last command."""


class Broken:
    """What is broken, and how many ticks so far."""

    kind, ticks = "", 0


def break_all(folder, profile):
    """Put the broken parts in; nothing happens before the signal."""
    tick, heard, send = Flyer.tick, Agilicious.heard, Agilicious.send
    rushing = np.array([0.0, profile.limits.speed_mps - 1.0, 0.0])

    def on_signal(number, frame):
        Broken.kind, Broken.ticks = (folder / "broken.txt").read_text(), 0
        (folder / "broken.txt").unlink()  # it has it

    def broken_tick(self, *args, **options):
        wanted = tick(self, *args, **options)
        if Broken.kind not in COMMANDS or options["baseline"]:
            return wanted
        Broken.ticks += 1
        command = np.array(COMMANDS[Broken.kind](Broken.ticks, self._history[0]), float)
        return wanted._replace(command=command, controller="policy")

    def broken_heard(self):
        kind, _, seconds = Broken.kind.partition(" ")
        if kind == "late":  # once, at the beginning of a tick
            Broken.kind = ""
            self.clock.sleep(float(seconds))
        found = heard(self)
        if Broken.kind != "rushing" or found.state is None:
            return found
        # Towards the wall at a speed that is allowed, but not there.
        return found._replace(state=found.state._replace(velocity=rushing))

    def broken_send(self, command, expires):
        return False if Broken.kind == "unsent" else send(self, command, expires)

    Flyer.tick, Agilicious.heard, Agilicious.send = broken_tick, broken_heard, broken_send
    signal.signal(signal.SIGUSR1, on_signal)


if __name__ == "__main__":
    given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
    break_all(Path(given["--out"]), load_profile(given["--profile"]))
    main()
