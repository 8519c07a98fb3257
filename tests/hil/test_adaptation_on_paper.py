# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Adaptation through our control logic and the software drone on a simulated clock.

No wire and no real time: what trips or crashes here does so on any machine. LAFR_HIL_ADAPT=12 flies
the whole adaptation and compares it with the simulated plant's.
"""

import os

import numpy as np
from rig import PROFILE, SimFlight

from lafr_mjx.hil.control.legs import bare_leg, fastest_time_scale
from lafr_mjx.hil.operator.drone_plant import leg_of
from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.simulator.physics import Physics
from lafr_mjx.learner import loop, methods, pretrain
from lafr_mjx.learner.improve import Sizes
from lafr_mjx.metrics import flight_metrics
from lafr_mjx.plant.plant import Plant
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.tasks import load_task
from lafr_mjx.types import Reference, Rollout, State

SEED = 100
ITERATIONS = int(os.environ.get("LAFR_HIL_ADAPT", "2"))
SIZES = Sizes() if ITERATIONS > 3 else Sizes(40, 32, 6, 8, 12)
LEARNING_S = 8.0  # while the drone laps on
TASK = load_task("figure8", PROFILE.command.limits)


class RecordedFlight(SimFlight):
    """Keeps what the control process would record."""

    def __init__(self, plant):
        super().__init__(plant)
        self.rows = []
        inner = self.logic.tick

        def tick(now, heard, around):
            decision = inner(now, heard, around)
            wanted = decision.wanted
            if wanted is not None and wanted.leg >= 0:
                asked = self.logic.flyer.asked()
                self.rows.append((wanted.leg, wanted.leg_time, now, heard, decision.command, asked))
            return decision

        self.logic.tick = tick


class PaperPlant:
    """`Plant` over a flight on the simulated clock."""

    def __init__(self, sim):
        self.sim = sim

    def start(self, seed):
        return 0

    def fly(self, run, controller, path, clock, seconds):
        sim, leg = self.sim, leg_of(run, controller, path, clock, seconds, SEED, lap_on=True)
        sim.rows.clear()
        sim.logic.flyer.offer(leg)
        sim.run(60.0, lambda: run in sim.logic.flyer.finished or sim.mode is not Mode.POLICY)
        rows = [row for row in sim.rows if row[0] == run]
        sim.run(LEARNING_S)
        assert sim.mode is Mode.POLICY, sim.events
        assert sim.logic.flyer.stage == "lap"
        return run + 1, rollout_of(rows)


def rollout_of(rows):
    count, start = len(rows), rows[0][2] - rows[0][1]

    def column(of):
        return np.array([np.asarray(of(row), float) for row in rows])

    state = State(*(np.array([np.asarray(row[3].state[i]) for row in rows]) for i in range(4)))
    asked = Reference(
        *(np.array([np.asarray(row[5].reference[i]) for row in rows]) for i in range(7))
    )
    return Rollout(
        time=column(lambda row: row[1]), valid=np.ones(count, bool), sensed=state,
        stamp=column(lambda row: row[3].state_stamp - start), command=column(lambda row: row[4]),
        reference=asked, phase=column(lambda row: row[5].phase),
        phase_rate=column(lambda row: row[5].phase_rate),
        time_scale=column(lambda row: row[5].time_scale), truth=state,
        crashed=np.zeros(count, bool), sample_time=0.01 * (1.0 + np.arange(2 * count)),
        sample=State(*(np.repeat(field, 2, axis=0) for field in state)),
        sample_received=np.ones(2 * count, bool), diagnostics=None,
    )  # fmt: skip


def adapted(plant, fastest_on=None):
    """Figures of each flight."""
    limits, start = PROFILE.command.limits, TASK.start_time_scale
    policy, _ = pretrain.base_policy(TASK.path, limits, start, SEED)
    settings, figures = methods.settings_of("ours"), []
    state = loop.start(TASK, policy, SEED, settings)
    run = loop.Adaptation(TASK, loop.OneByOne([plant], [SEED]), [state], [settings], sizes=SIZES,
                          fastest_on=fastest_on)  # fmt: skip
    for _ in range(ITERATIONS):
        (flown,) = run.step()
        figures.append(flight_metrics(flown.rollout, TASK, limits))
    return figures


def test_adaptation_without_a_trip(capsys):
    vehicle, scenario = load_vehicle("lafr192"), load_scenario("wind5").drawn(SEED)
    sim = RecordedFlight(Physics(vehicle, scenario.settings_for(0)[0], (), SEED)).policy()

    def fastest_on(path, slowest):
        return fastest_time_scale(bare_leg(path, slowest, TASK.ramp_s), PROFILE, slowest)

    flown = adapted(PaperPlant(sim), fastest_on)
    assert not [text for _, text in sim.events if "fault" in text]
    assert sim.drone.crashed == "" and flown[1].rmse_m < flown[0].rmse_m
    sim.logic.flyer.rest()
    assert sim.run(10.0, lambda: sim.logic.flyer.stage == "hold")
    sim.say(Word.LAND)
    assert sim.run(15.0, lambda: sim.mode is Mode.OFF), sim.events
    with capsys.disabled():
        print("\n  m/s: " + " ".join(f"{f.peak_speed_mps:.2f}" for f in flown))
    if ITERATIONS < 12:
        return
    plant = Plant(vehicle, scenario, fans=TASK.fans, engine="freebody")
    simulated = adapted(plant)
    share = flown[-1].peak_speed_mps / simulated[-1].peak_speed_mps
    with capsys.disabled():
        print("  m/s: " + " ".join(f"{f.peak_speed_mps:.2f}" for f in simulated))
        print(f"  {share:.1%} of the simulated plant's last peak speed")
    assert share >= 0.9
