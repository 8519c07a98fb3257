# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Flights on a simulated clock, and how faults begin in them."""

import numpy as np
from rig import PROFILE, SimFlight, leg

from lafr_mjx.hil.simulator.injected import parse

FAST = 0.42  # time scale of the figure-8: 5.3 m/s, the baseline's best
CYCLE_S, TICK_S = 0.01, 0.02
LIMITS = PROFILE.limits
WHERE = ["at hover", "at speed"]


def in_flight(plant):
    """A flight in the policy's hands, at hover or at speed, at a random moment."""

    def start(where, *seeds):
        rng = np.random.default_rng([*seeds, where == "at speed"])
        plant.reset(int(rng.integers(1 << 20)))
        sim = SimFlight(plant)
        if where == "at speed":
            sim.tracking(leg(0, time_scale=FAST, seconds=600.0))
            sim.run(2.0 + 3.0 * rng.random())
        else:
            sim.policy()
            sim.run(0.5 + rng.random())
        return sim

    return start


def inject(text):
    return lambda sim: sim.drone.injector.add(parse(text, sim.time))


def hook(seconds=np.inf, **changes):
    """Something else is heard from now on, for so long."""

    def begin(sim):
        end = sim.time + seconds

        def changed(heard):
            if sim.time > end:
                return heard
            return heard._replace(**{k: v(heard) if callable(v) else v for k, v in changes.items()})

        sim.hook = changed

    return begin


def around(**changes):
    def begin(sim):
        sim.around = changes

    return begin


def late(periods):
    def begin(sim):
        sim.late = periods

    return begin


def killed(sim):
    sim.alive = False


def undelivered(sim):
    sim.deliver = False


def commanding(make):
    """The policy gives what `make` says, as long as it flies."""

    def begin(sim):
        original, count = sim.logic.flyer.tick, [0]

        def broken(*args, **options):
            wanted = original(*args, **options)
            if options["baseline"]:
                return wanted
            count[0] += 1
            return wanted._replace(command=np.array(make(count[0])), controller="policy")

        sim.logic.flyer.tick = broken

    return begin


def tilted(text):
    """The attitude is bad, but nobody reacts to it: so it stays, as when a rotor has gone."""

    def begin(sim):
        last = next(c for *_, c, _ in reversed(sim.history) if c is not None)
        commanding(lambda k: [last[0], 0.0, 0.0, 0.0])(sim)
        inject(text)(sim)

    return begin


def master_gone(sim):
    seen = sim._heard.master_seen
    hook(master_seen=seen)(sim)


def rushing(heard):
    """Towards the wall at a speed that is allowed, but not there."""
    return heard.state._replace(velocity=np.array([0.0, LIMITS.speed_mps - 1.0, 0.0]))
