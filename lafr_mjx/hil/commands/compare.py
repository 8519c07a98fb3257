"""`compare`: the same adaptation on the simulated plant and through the wire."""

from __future__ import annotations

import json as json_module
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tyro.conf import Fixed, Suppress

from lafr_mjx import parts
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.commands.fly_drone import FlownMethod
from lafr_mjx.output import check_writable, counted, write_json
from lafr_mjx.run_spec import RunSpec, Usual

_Engine = Literal["mjx", "freebody"]

LEAST_SHARE = 0.9
"""Of the peak speed on the simulated plant that must be reached through the wire."""


_SAME = ("task", "scenario", "method", "iterations", "seed", "horizon", "corridor", "noise_prior",
         "lag_prior", *(kind.option for kind in parts.KINDS))  # fmt: skip
"""What both have in common."""


@dataclass(frozen=True)
class Compare(RunSpec):
    """Adapt on the simulated plant and, with the same seed, on the software drone; compare both.

    python -m lafr_mjx.hil compare --scenario wind5 --seed 100 --iterations 12

    python -m lafr_mjx.hil compare --scenario wind5 --seed 100 --features body

    Fails unless the flight through the wire reaches 90 % of the other one's last peak speed,
    without a crash and without a trip.
    """

    task: str = "figure8"
    """Name of a shipped task, or path of a task file."""
    scenario: str = "wind5"
    """The world of both."""
    method: FlownMethod = "ours"
    """Which parts of the method are on."""
    iterations: int = Usual(12)
    """Flights of each, each followed by learning."""
    seed: int = 0
    """Seed of both; noise and gusts are not the same, for the drone also flies between flights."""
    vehicle: Suppress[Fixed[str]] = RunSpec.vehicle
    plant: Suppress[Fixed[int]] = 0
    plugins: Suppress[Fixed[tuple[str, ...]]] = ()
    log: Suppress[Fixed[tuple[str, ...]]] = ()
    real_time: bool = False
    """Fly the drone in real time instead of in lockstep."""
    engine: _Engine = "mjx"
    """Physics of the simulated plant."""
    simulated: Path | None = None
    """A finished run on the simulated plant to compare with, instead of a new one."""
    out: Path | None = None
    """Folder of both runs; by default a new one under runs/."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> None:
        """Run one after the other, in processes of their own."""
        from lafr_mjx.plant.scenario import load_scenario
        from lafr_mjx.tasks import load_task

        check_writable(self.json)
        if not 1 <= self.iterations <= 100:
            raise InputError(f"--iterations {self.iterations}: must be from 1 to 100")
        self.check()
        load_task(self.task)
        load_scenario(self.scenario)
        name = f"hil-compare-{time.strftime('%Y%m%d-%H%M%S')}"
        out = self.out or Path("runs") / name
        if self.simulated is not None:
            self._check_same()
        try:
            out.mkdir(parents=True)
        except OSError as error:
            raise InputError(f"{out}: cannot be made: {error.strerror}") from error
        common = [self.task]
        for key in _SAME[1:]:
            common += [f"--{key}", str(getattr(self, key))]
        simulated = self.simulated or out / "simulated"
        if self.simulated is None:
            command = ["-m", "lafr_mjx", "adapt", *common, "--engine", self.engine]
            _run([*command, "--out", str(simulated)], "the run on the simulated plant failed")
        flown = out / "flown"
        command = ["-m", "lafr_mjx.hil", "fly", *common]
        command += ["--real-time"] if self.real_time else []
        _fly([*command, "--out", str(flown)])
        figures = compared(simulated, flown)
        for line in _lines(figures):
            print(line)
        write_json(self.json, figures)
        if not figures["good"]:
            raise RunError(f"through the wire: {figures['why']}")

    def _check_same(self) -> None:
        from lafr_mjx.runs.run_folder import RunFolder

        assert self.simulated is not None
        given = RunFolder.open(self.simulated).config.get("run", {})
        if given.get("engine") not in get_args(_Engine):
            raise InputError(
                f"--simulated {self.simulated}: has engine {given.get('engine')}; it must be a run "
                f"on the simulated plant, by {' or '.join(get_args(_Engine))}"
            )
        wanted = self.located()
        for key in _SAME:
            has, value = given.get(key, getattr(RunSpec, key)), getattr(wanted, key)
            if has != value:
                raise InputError(f"--simulated {self.simulated}: has {key} {has}, not {value}")


def compared(simulated: Path, flown: Path) -> dict[str, Any]:
    """Figures of two run folders side by side."""
    one, two = _read(simulated), _read(flown)
    share = two["last_peak_speed_mps"] / one["last_peak_speed_mps"]
    trips = two["hil"]["trips"]
    why = [
        f"{share:.1%} of the peak speed" if not share >= LEAST_SHARE else "",
        f"{two['crashes']} crashes" if two["crashes"] else "",
        f"{counted(len(trips), 'trip')} ({trips[0]})" if trips else "",
    ]
    keys = (
        "first_peak_speed_mps", "last_peak_speed_mps", "last_lap_time_s", "first_rmse_m",
        "last_rmse_m", "flight_time_s", "iterations", "crashes",
    )  # fmt: skip
    return {
        "simulated": {key: one[key] for key in keys},
        "flown": {key: two[key] for key in keys}
        | {
            "trips": trips,
            "missed_deadlines": two["hil"]["missed_deadlines"],
            "lockstep": two["hil"].get("lockstep", False),
        },
        "share_of_peak_speed": share,
        "least_share": LEAST_SHARE,
        "good": not any(why),
        "why": ", ".join(filter(None, why)),
    }


def _read(folder: Path) -> dict[str, Any]:
    file = folder / "summary.json"
    try:
        return json_module.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: cannot be read: {error}") from error


def _run(command: list[str], trouble: str) -> None:
    if subprocess.run([sys.executable, *command], env=os.environ).returncode:
        raise RunError(trouble)


def _fly(command: list[str]) -> None:
    """Fly, and wait for the landing whatever happens: who flies is told of signals, never killed.

    Ctrl-C in a terminal reaches it by itself, too; it takes two at the same moment for one.
    """
    flight = subprocess.Popen([sys.executable, *command])
    told: list[int] = []

    def tell(number: int, frame: object) -> None:
        del frame
        told.append(number)
        flight.send_signal(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, tell) for each in signals]
    try:
        status = flight.wait()
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)
    if status:
        why = "interrupted: " if told else ""
        raise RunError(f"{why}the flight through the wire did not come to its end")


def _lines(figures: dict[str, Any]) -> list[str]:
    lines = [f"{'':<16}{'first m/s':>10}{'last m/s':>10}{'lap s':>8}{'last RMSE m':>13}"]
    for name, key in (("simulated plant", "simulated"), ("through the wire", "flown")):
        side = figures[key]
        lap = side["last_lap_time_s"]
        lines.append(
            f"{name:<16}{side['first_peak_speed_mps']:>10.2f}{side['last_peak_speed_mps']:>10.2f}"
            f"{'-' if lap is None else f'{lap:.2f}':>8}{side['last_rmse_m']:>13.3f}"
        )
    flown = figures["flown"]
    lines.append(
        f"Through the wire {figures['share_of_peak_speed']:.1%} of the peak speed is reached, with "
        f"{flown['crashes']} crashes, {counted(len(flown['trips']), 'trip')}, "
        f"{counted(flown['missed_deadlines'], 'missed deadline')}, "
        f"in {'lockstep' if flown['lockstep'] else 'real time'}."
    )
    return lines
