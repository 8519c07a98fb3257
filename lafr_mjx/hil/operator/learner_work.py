"""The learner's process: JAX, niced, one thread; it flies by asking the operator's process.

    python -m lafr_mjx.hil.operator.learner_work --setup FILE --console FD

Started by `LearnerProcess`. It runs the loop over a plant whose `fly` writes a leg and waits
for the recorded flight. While it waits it says so, and while it works it says what: who hears
nothing of it for long knows that it is late or dead, and no thread of its own can hide that. What
is not finite is not flown: the last good parameters stay, and learning is frozen.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.control.console import Console
from lafr_mjx.hil.operator.learner_setup import LearnerSetup
from lafr_mjx.hil.timing.priority import step_back

if TYPE_CHECKING:
    from lafr_mjx.learner.improve import LearnerState
    from lafr_mjx.learner.loop import Adaptation, Flown
    from lafr_mjx.reference.path import Path as Reference
    from lafr_mjx.types import Rollout

NICENESS = 15
_BEAT_S = 0.2


class RemotePlant:
    """The drone behind the operator's process. The run is the number of flights made."""

    def __init__(self, console: Console, folder: Path, seed: int, network: str) -> None:
        self._console, self._folder = console, folder
        self._seed, self._network = seed, network

    def start(self, seed: int) -> int:
        """No flight made."""
        del seed
        return 0

    def fly(
        self, run: int, controller: Any, path: Any, clock: Any, seconds: float
    ) -> tuple[int, Rollout]:
        """Ask for a flight and wait for it."""
        from lafr_mjx.hil.control.legs import save_leg
        from lafr_mjx.hil.operator.drone_plant import leg_of
        from lafr_mjx.runs.rollout_file import load_rollout

        leg = leg_of(
            run, controller, path, clock, seconds, self._seed, lap_on=True, network=self._network
        )
        self._console.send({"fly": str(save_leg(self._folder, leg)), "number": run})
        answer = self._wait()
        return run + 1, load_rollout(Path(answer))

    def _wait(self) -> str:
        while True:
            for message in self._console.receive():
                if isinstance(message.get("rollout"), str):
                    return message["rollout"]
                if message.get("quit"):
                    raise SystemExit(0)
            if self._console.closed:
                raise SystemExit(0)  # nobody is there to learn for
            self._console.send({"beat": True})
            self._console.wait(_BEAT_S)


def main() -> None:
    """Entry of the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--setup", required=True)
    parser.add_argument("--console", type=int, required=True)
    parser.add_argument("--aside", action="store_true")
    given = parser.parse_args()
    console = Console(socket.socket(fileno=given.console))
    _make_way(given.aside)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        setup = LearnerSetup.read(Path(given.setup))
        work(setup, console, Path(given.setup).parent)
    except (InputError, RunError) as error:
        print(error, file=sys.stderr, flush=True)
        console.send({"failed": str(error)})
        raise SystemExit(1) from error


def _make_way(aside: bool) -> None:
    """In real time everything else in the air is more urgent. Must come before JAX."""
    if aside:
        step_back(NICENESS)
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ["OMP_NUM_THREADS"] = "1"


def _end_with(parent: int) -> None:
    """End when the operator's process has gone: a compilation would go on for minutes."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def work(setup: LearnerSetup, console: Console, folder: Path) -> None:
    """Prepare, then fly and learn, iteration after iteration."""
    import jax

    from lafr_mjx import batching, compilation_cache
    from lafr_mjx.adaptation.first_policy import first_policy, network_of
    from lafr_mjx.adaptation.record import record_of
    from lafr_mjx.control.policy_file import save_policy
    from lafr_mjx.hil.control.legs import bare_leg, fastest_time_scale, planned_trouble
    from lafr_mjx.hil.safety.drone_profile import load_profile
    from lafr_mjx.learner import loop, methods
    from lafr_mjx.learner.loop import Adaptation, OneByOne
    from lafr_mjx.learner.references import NOT_ALLOWED
    from lafr_mjx.metrics import flight_metrics
    from lafr_mjx.tasks import load_task

    compilation_cache.enable()
    spec, profile = setup.spec, load_profile(setup.profile)
    limits = profile.command.limits
    task = load_task(spec.task, limits)
    settings = methods.settings_for(spec)

    def say(stage: str) -> None:
        console.send({"stage": stage})

    say("base policy")
    policy, where = first_policy(spec, task, limits)
    network = network_of(spec.policy)
    console.send({"told": where})
    state = loop.start(task, policy, spec.seed, settings, spec.features)

    troubles: list[str] = []  # why references were not allowed since the last flight

    def fastest_on(path: Reference, slowest: float) -> float:
        leg = bare_leg(path, slowest, task.ramp_s)
        if trouble := planned_trouble(leg, profile):
            troubles.append(trouble)
        return fastest_time_scale(leg, profile, slowest)

    def over(plant: Any) -> Adaptation:
        return Adaptation(
            task, OneByOne([plant], [spec.seed]), [state], [settings], sizes=setup.sizes(),
            fastest_on=fastest_on,
        )  # fmt: skip

    say("compile")
    warm = over(_OnPaper())
    for _ in range(2):  # the second time as all further times, with what came of the first
        warm.step()
    asked = folder / "learner"
    asked.mkdir(exist_ok=True)
    run, frozen = over(RemotePlant(console, asked, spec.seed, network)), ""
    console.send({"warm": True})
    for iteration in range(spec.iterations):
        if frozen:  # one more flight with what is known
            flown = _unlearned(run)
        else:
            before = run.state
            troubles.clear()
            (flown,) = run.step(say)
            if setup.break_at == iteration:  # on request, to see that it is caught
                broken = jax.tree.map(lambda x: x * np.nan, run.state.policy)
                run.state = run.state._replace(policy=broken)
            frozen = trouble_with(run.state, flown)
            if frozen:
                console.send({"frozen": frozen})
                run.state = before
        record = record_of(flight_metrics(flown.rollout, task, limits), flown, iteration)
        if flown.progress.plan_refused == NOT_ALLOWED:
            record["plan_refused"] += f": {troubles[0]}"
        file = asked / f"learned-{iteration:03d}.npz"
        save_policy(file, batching.row(jax.device_get(run.state.policy), 0), network)
        console.send({"learned": record | {"frozen": frozen}, "policy": str(file)})
    console.send({"done": True})
    while not console.closed:  # what was said must be read before the socket is gone
        console.flush()
        console.receive()
        console.wait(_BEAT_S)


def trouble_with(state: LearnerState, flown: Flown) -> str:
    """Why what was learned must not fly; empty if it may."""
    import jax

    progress = flown.progress
    for name, value in (
        ("the residual's loss", progress.residual_loss),
        ("the predicted error", progress.predicted_error),
        ("the time scale", state.pace.time_scale),
    ):
        if not np.isfinite(np.asarray(value)).all():
            return f"{name} is not finite"
    for name, tree in (("policy", state.policy), ("model", state.ensemble)):
        if not all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(tree)):
            return f"the {name} has parameters that are not finite"
    return ""


def _unlearned(run: Adaptation) -> Flown:
    """One more flight, without dither; nothing is learned from it."""
    from lafr_mjx import batching
    from lafr_mjx.learner.improve import Progress
    from lafr_mjx.learner.loop import Flown

    began = time.monotonic()
    (scale,), predicted = run.time_scales, float(np.asarray(run.state.pace.predicted)[0])
    (rollout,) = run.fly(dithered=False)
    path = batching.row(run.state.path, 0)
    unknown, none = np.float32(np.nan), np.zeros(0)
    progress = Progress(
        residual_loss=unknown, predicted_error=unknown, bound_by=-1,
        new_policy=False, candidates=none, nominal_errors=none, stressed_errors=none, notes={},
    )  # fmt: skip
    return Flown(rollout, path, scale, predicted, "not learned", progress, time.monotonic() - began)


class _OnPaper:
    """Flies exactly along the reference; as good as any flight to compile with."""

    def start(self, seed: int) -> int:
        del seed
        return 0

    def fly(
        self, run: int, controller: Any, path: Any, clock: Any, seconds: float
    ) -> tuple[int, Rollout]:
        from lafr_mjx.reference.flatness import reference_at
        from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, Rollout, State

        del controller
        ticks = round(seconds / CONTROL_DT)
        time_s = CONTROL_DT * np.arange(ticks)
        asked = reference_at(path, clock, time_s)
        state = State(asked.position, asked.velocity, asked.rotation, asked.rates)
        twice = State(*(np.repeat(field, 2, axis=0) for field in state))
        yes, no = np.ones(ticks, bool), np.zeros(ticks, bool)
        return run + 1, Rollout(
            time=time_s, valid=yes, sensed=state, stamp=time_s,
            command=np.tile(COMMAND_HOVER, (ticks, 1)).astype(float), reference=asked,
            phase=time_s, phase_rate=np.ones(ticks), time_scale=np.ones(ticks), truth=state,
            crashed=no, sample_time=0.5 * CONTROL_DT * (1.0 + np.arange(2 * ticks)),
            sample=twice, sample_received=np.ones(2 * ticks, bool), diagnostics=None,
        )  # fmt: skip


if __name__ == "__main__":
    main()
