"""`check`: is this machine punctual enough to fly?"""

from __future__ import annotations

import contextlib
import json as json_module
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.interruption import orderly
from lafr_mjx.output import check_writable, counted, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

_SOAK_S = 600.0  # from here on gaps and memory are judged, too
_GAP_P999_MS, _GAP_MOST_MS = 40.0, 50.0
_GROWTH = 0.01
_SETTLED_S = 60.0  # in a soak memory is first read after so long
_MISSED, _LATENCY_P99_MS = 1.0, 3.0  # allowed in a minute; of all commands
_EDGES_MS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, float("inf"))


@dataclass
class Check:
    """Fly the software drone and print how punctual the commands were, as a histogram.

    python -m lafr_mjx.hil check

    python -m lafr_mjx.hil check --seconds 20 --no-load --json latency.json

    python -m lafr_mjx.hil check --seconds 1800

    Latency is from the receipt of a state to the moment its command is with the kernel. A bare
    50 Hz loop runs beside it as the yardstick. With --load a learner works at full load, niced.
    From ten minutes on the gaps between commands and the growth of memory are judged as well.
    """

    seconds: float = 60.0
    """Time in the policy's hands."""
    load: bool = True
    """Have a learner work beside it."""
    policy: Path | None = None
    """Policy to fly; by default the base policy that an adaptation begins with."""
    baseline: bool = False
    """Fly the geometric controller instead, which takes longer to compute."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> None:
        """Measure and judge."""
        check_writable(self.json)
        if not 2.0 <= self.seconds <= 3600.0:
            raise InputError(f"--seconds {self.seconds}: must be from 2 to 3600")
        with orderly(), tempfile.TemporaryDirectory(prefix="lafr-mjx-check-") as name:
            figures, latency = self._measure(Path(name))
        print(_histogram(latency))
        bare = figures["bare_loop"]
        print(
            f"missed deadlines {figures['missed_deadlines']} (in a row "
            f"{figures['missed_in_a_row']}) in {figures['ticks']} ticks; latency p50 "
            f"{figures['latency_p50_ms']:.2f} ms, p99 {figures['latency_p99_ms']:.2f} ms, most "
            f"{figures['latency_max_ms']:.2f} ms; {figures['priority']}"
        )
        print(
            f"bare loop: missed {bare['missed_deadlines']} in {bare['ticks']}, wakes late by p50 "
            f"{bare['wake_p50_ms']:.2f} ms, p99 {bare['wake_p99_ms']:.2f} ms, most "
            f"{bare['wake_max_ms']:.2f} ms"
        )
        print(
            f"{figures['rate_hz']:.2f} commands a second; between two p99.9 "
            f"{figures['gap_p999_ms']:.1f} ms, most {figures['gap_max_ms']:.1f} ms; memory of the "
            f"control process {figures['memory_start_mb']:.1f} to {figures['memory_end_mb']:.1f} "
            f"MB; broken off {counted(figures['broken_off'], 'time')}"
            + "".join(f"; {text}" for text in dict.fromkeys(figures["faults"]))
        )
        write_json(self.json, figures)
        allowed = _MISSED * max(1.0, self.seconds / 60.0)
        if figures["missed_deadlines"] > allowed or figures["missed_in_a_row"] > 1:
            raise RunError("this machine is not punctual enough to fly from")
        if figures["latency_p99_ms"] > _LATENCY_P99_MS:
            raise RunError(
                f"the latency is above {_LATENCY_P99_MS:g} ms in more than 1 % of all ticks"
            )
        if self.seconds >= _SOAK_S:
            _judge_soak(figures)

    def _measure(self, folder: Path) -> tuple[dict[str, Any], np.ndarray]:
        import numpy as np

        from lafr_mjx.control.policy_file import load_policy
        from lafr_mjx.hil.control.legs import Leg
        from lafr_mjx.hil.operator.operator_steps import again, land, resume, take_off
        from lafr_mjx.hil.operator.session import BrokenOffError, Session
        from lafr_mjx.hil.safety.drone_profile import load_profile
        from lafr_mjx.hil.timing.priority import memory_mb, prefer_operator
        from lafr_mjx.tasks import load_task

        task = load_task("figure8")
        policy = None
        if self.policy is not None:
            policy = load_policy(self.policy)
        elif not self.baseline:
            print("Base policy (trained at the first time, then kept) ...", flush=True)
            policy = load_policy(_base_policy(folder))
        print("Starting the software drone ...", flush=True)
        prefer_operator()
        with Session(load_profile("sim"), folder, cable=True, real_time=True) as session:
            clock = session.clock
            take_off(session)
            with _learner(folder, self.load):
                time.sleep(5.0 if self.load else 0.0)  # until it is at work
                if not resume(session):  # its start may have made a tick late
                    again(session)
                control = session.process("control").pid
                settled = min(_SETTLED_S, 0.25 * self.seconds)
                memory = math.nan
                with _bare_loop(self.seconds) as bare:
                    print(f"Measuring for {self.seconds:g} s ...", flush=True)
                    session.measure()
                    session.clock.sleep(0.2)  # until it has told
                    before = (session.status["missed"], session.status["ticks"])
                    start, flights, broken = clock.now(), 0, 0
                    told = len(session.events)
                    while (left := self.seconds - (clock.now() - start)) > 0.0:
                        seconds = min(max(left, 1.0), 30.0)
                        leg = Leg(flights, task.path, 1.0, task.ramp_s, seconds, policy,
                                  np.zeros(4), 0, True)  # fmt: skip
                        flights += 1
                        try:
                            session.fly(leg)
                        except BrokenOffError:  # late ticks; go on, it is them that are counted
                            broken += 1
                            if not resume(session):
                                again(session)
                        if math.isnan(memory) and clock.now() - start >= settled:
                            memory = memory_mb(control)
                    after = (session.status["missed"], session.status["ticks"])
                    elapsed = clock.now() - start
                    sent, in_a_row = session.status["sent"], session.status["missed_in_a_row"]
                    memory_end = memory_mb(control)
                    faults = [w for _, w in session.events[told:] if w.startswith("fault ")]
                    output, _ = bare.communicate(timeout=30.0)
            land(session)
        with np.load(folder / "timing.npz") as file:
            latency, gaps = 1e3 * file["latency"], 1e3 * file["gaps"]
        return {
            "seconds": self.seconds,
            "load": self.load,
            "ticks": after[1] - before[1],
            "missed_deadlines": after[0] - before[0],
            "missed_in_a_row": in_a_row,
            "latency_p50_ms": float(np.percentile(latency, 50)),
            "latency_p99_ms": float(np.percentile(latency, 99)),
            "latency_max_ms": float(latency.max()),
            "rate_hz": sent / elapsed,
            "memory_start_mb": memory,
            "memory_end_mb": memory_end,
            "gap_p999_ms": float(np.percentile(gaps, 99.9)),
            "gap_max_ms": float(gaps.max()),
            "broken_off": broken,
            "faults": faults,
            "priority": session.priority,
            "cores": os.cpu_count(),
            "bare_loop": json_module.loads(output),
        }, latency


def _judge_soak(figures: dict[str, Any]) -> None:
    if not abs(figures["rate_hz"] - 50.0) <= 1.0:
        raise RunError(f"{figures['rate_hz']:.2f} commands a second; it must be 50 ± 1")
    if figures["gap_p999_ms"] > _GAP_P999_MS or figures["gap_max_ms"] >= _GAP_MOST_MS:
        raise RunError(
            f"gaps between commands: one in a thousand above {_GAP_P999_MS:g} ms, or one of "
            f"{_GAP_MOST_MS:g} ms"
        )
    if not figures["memory_end_mb"] <= (1.0 + _GROWTH) * figures["memory_start_mb"]:
        raise RunError("the control process takes more and more memory")


@contextlib.contextmanager
def _bare_loop(seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """The yardstick, in a process of its own, once it has begun."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lafr_mjx.hil.timing.bare_loop", str(seconds)],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _learner(folder: Path, wanted: bool) -> Iterator[None]:
    """A learner at full load: an adaptation on the simulated plant, niced, XLA on one thread."""
    if not wanted:
        yield
        return
    environment = dict(os.environ)
    environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    environment["OMP_NUM_THREADS"] = "1"
    script = (
        "import os, subprocess, sys\n"
        "from lafr_mjx.hil.timing.priority import step_back\n"
        "step_back(15)\n"
        "parent, i = os.getppid(), 0\n"
        "while os.getppid() == parent:\n"
        "    i += 1\n"
        "    subprocess.run([sys.executable, '-m', 'lafr_mjx', 'adapt', 'figure8', '--scenario',\n"
        "        'wind5', '--engine', 'freebody', '--out', f'{sys.argv[1]}/load{i}'],\n"
        "        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], env=environment, start_new_session=True
    )
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, 9)
        process.wait()


def _base_policy(folder: Path) -> Path:
    """File of the base policy, made in a process of its own: this one stays free of JAX."""
    file = folder / "base.npz"
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lafr_mjx import compilation_cache\n"
        "from lafr_mjx.control.policy_file import save_policy\n"
        "from lafr_mjx.hil.safety.drone_profile import load_profile\n"
        "from lafr_mjx.learner.pretrain import base_policy\n"
        "from lafr_mjx.tasks import load_task\n"
        "compilation_cache.enable()\n"
        "limits, task = load_profile('sim').command.limits, load_task('figure8')\n"
        "policy, _ = base_policy(task.path, limits, task.start_time_scale, 0)\n"
        "save_policy(Path(sys.argv[1]), policy)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise RunError(f"the base policy cannot be trained: {last}")
    return file


def _histogram(latency: np.ndarray) -> str:
    import numpy as np

    counts, _ = np.histogram(latency, np.array(_EDGES_MS))
    total = max(1, counts.sum())
    lines = ["from the state's receipt to its command, ms"]
    for low, high, count in zip(_EDGES_MS, _EDGES_MS[1:], counts, strict=False):
        bar = "#" * round(50 * count / total)
        name = f"{low:5.1f} - {high:4.1f}" if np.isfinite(high) else f"{low:5.1f} and more"
        lines.append(f"{name:>14} {count:7d} {100 * count / total:6.2f} % {bar}")
    return "\n".join(lines)
