"""Some runs as one batch over all devices of this process, and one by one; figures as JSON.

    python batched_runs.py DEVICES SINGLES

The devices of a process are fixed once JAX has begun, so the tests call this as a program.
"""

import dataclasses
import json
import sys

import jax

from lafr_mjx import batching
from lafr_mjx.ablation.chunk import Member, batch_of
from lafr_mjx.adaptation.record import record_of
from lafr_mjx.learner import loop, methods, pretrain
from lafr_mjx.learner.improve import Sizes
from lafr_mjx.metrics import flight_metrics
from lafr_mjx.plant.plant import Plant
from lafr_mjx.plant.scenario import Change, load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.tasks import load_task

FLIGHTS = 3
SEED = 100
SIZES = Sizes(fit_steps=60, fit_batch=64, train_steps=15, train_batch=8, horizon=15)
BASE = pretrain.BaseSizes()
MEMBERS = [
    ("ours", "nominal", 0),
    ("lotf", "wind5", 0),
    ("baseline", "randomised", 3),
    ("anchor-only", "nominal", 0),
]


def main(devices, singles):
    assert len(jax.devices()) == devices
    vehicle = load_vehicle("lafr192")
    task = load_task("figure8", vehicle.limits)
    policy, _ = pretrain.base_policy(task.path, vehicle.limits, task.start_time_scale, SEED, BASE)
    members = [
        Member(
            load_scenario(scenario).drawn(SEED, plant), methods.settings_of(method), policy, SEED
        )
        for method, scenario, plant in MEMBERS
    ]
    # The last one meets a wind in its second flight.
    wind = Change(flight=1, time_s=2.0, over_s=1.0, values={"wind_mps": (2.0, 1.5, 0.0)})
    changing = dataclasses.replace(members[-1].scenario, changes=(wind,))
    members[-1] = members[-1]._replace(scenario=changing)
    batch = batch_of(
        vehicle,
        task,
        RunSpec(reference="fixed", engine="freebody"),
        members,
        sizes=SIZES,
        devices=devices,
    )
    together = [batch.step()]
    programs = batching.compiled()
    together += [batch.step() for _ in range(FLIGHTS - 1)]
    figures = {
        "batch": [records(task, vehicle, run) for run in zip(*together, strict=True)],
        "programs": [programs, batching.compiled()],
        "singles": [single(task, vehicle, member) for member in members] if singles else [],
    }
    print(json.dumps(figures))


def records(task, vehicle, flights):
    return [
        record_of(flight_metrics(flown.rollout, task, vehicle.limits), flown, number)
        for number, flown in enumerate(flights)
    ]


def single(task, vehicle, member):
    """The same run on a plant of its own, which knows nothing of batches."""
    plant = loop.OneByOne([Plant(vehicle, member.scenario, engine="freebody")], [member.seed])
    state = loop.start(task, member.policy, member.seed, member.settings)
    run = loop.Adaptation(task, plant, [state], [member.settings], sizes=SIZES)
    return records(task, vehicle, [run.step()[0] for _ in range(FLIGHTS)])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "singles")
