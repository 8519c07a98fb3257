"""`replay`: a bag or a spool as recorded flights."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from lafr_mjx.errors import InputError


@dataclass
class Replay:
    """Read a recording and print the flights in it; with --out, write each as a .npz.

    python -m lafr_mjx.hil replay runs/hil-figure8/hil/flight.bag --task figure8

    A `.spool` that a killed session left behind is read as far as it is whole, and `--bag` makes
    a bag of it.
    """

    recording: Positional[Path]
    """A ROS 1 bag, or the .spool of a session."""
    task: str | None = None
    """The task that was flown: then lap times, and figures as in the table of the run."""
    vehicle: str = "sim"
    """Profile of the drone, for its limits."""
    out: Path | None = None
    """Folder for the flights; must not exist."""
    bag: Path | None = None
    """Write a bag of the recording; must not exist."""

    def run(self) -> None:
        """Read, print, write."""
        from lafr_mjx.hil.recording.bags import flights, read_records, write_bag
        from lafr_mjx.hil.recording.drone_report import flight_rows
        from lafr_mjx.hil.safety.drone_profile import check_vehicle, load_profile
        from lafr_mjx.output import check_writable, counted, print_table
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.runs.rollout_file import save_rollout

        for name, path in (("--out", self.out), ("--bag", self.bag)):
            if path is not None and os.path.lexists(path):
                raise InputError(f"{name} {path}: exists already, and nothing is overwritten")
        check_writable(self.bag, "--bag")
        profile = load_profile(self.vehicle)
        check_vehicle(profile, load_vehicle(profile.vehicle))
        found = flights(read_records(self.recording, lambda text: print(text, file=sys.stderr)))
        if not found:
            raise InputError(f"{self.recording}: holds no flight of this program")
        columns, rows = flight_rows(found, self.task, profile)
        print_table(f"{self.recording.name}: {counted(len(found), 'flight')}", columns, rows)
        try:
            if self.out is not None:
                self.out.mkdir(parents=True)
                for number, rollout in found.items():
                    save_rollout(self.out / f"{number:03d}.npz", rollout)
            if self.bag is not None:
                count = write_bag(self.bag, read_records(self.recording))
                print(f"{count} messages written to {self.bag}")
        except OSError as error:
            raise InputError(f"{error.filename}: cannot be written: {error.strerror}") from error
