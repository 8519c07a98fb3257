"""RotorPy (https://github.com/spencerfolk/rotorpy) flies in the place of our own plant.

A simulator and a vehicle by others: its Hummingbird, with its rotor drag, inflow, translational
lift and proportional rate loop. The learner is told nothing about it.

    pip install 'lafr-mjx[rotorpy]'
    lafr-mjx adapt figure8 --engine 'examples/rotorpy_plant.py:RotorPyPlant(wind=[4.0, 3.0, 0.0])'
    python examples/rotorpy_plant.py        # in still air and in wind
"""

import numpy as np
from rotorpy.vehicles.hummingbird_params import quad_params
from rotorpy.vehicles.multirotor import Multirotor
from scipy.spatial.transform import Rotation

import lafr_mjx as lm

STEPS = 2  # of RotorPy in 10 ms; its rate loop runs once in each
GUSTS_S = 1.0  # within which a gust comes and goes
FILTER = 0.3  # share of the newest sample in a filtered velocity: 32 mm/s of noise, 28 ms late

# RotorPy's own rate loop takes a second (k_w = 1), too slow to be flown by body rates.
HUMMINGBIRD = {**quad_params, "k_w": 20.0, "tau_m": 0.025}


class RotorPyPlant:
    """One vehicle of RotorPy; see `lm.Plant`."""

    def __init__(
        self, wind=(0.0, 0.0, 0.0), gust=0.0, filtered=False, mass=1.0, noise=1.0, late=(1, 1)
    ):
        """A vehicle in wind; noise and delays are by default those of `nominal`.

        Args:
            wind: m/s, world; a number is along x.
            gust: m/s, standard deviation of the wind on each axis.
            filtered: velocity is a causal filter of noisy positions, so its noise is coloured and
                it is late; otherwise it has white noise of its own.
            mass: times the one that commanded thrust is meant for.
            noise: times the motion capture's usual.
            late: commands by so many times 20 ms, samples by so many times 10 ms.
        """
        self.wind = np.array((wind, 0.0, 0.0) if np.ndim(wind) == 0 else wind, float)
        self.gust, self.filtered, self.noise, self.late = gust, filtered, noise, late
        fast = {"method": "RK23", "rtol": 1e-4, "atol": 1e-6}  # enough for 5 ms
        vehicle = {**HUMMINGBIRD, "mass": mass * HUMMINGBIRD["mass"]}
        self.simulator = Multirotor(vehicle, control_abstraction="cmd_ctbr", integrator_kwargs=fast)

    def start(self, seed):
        """Seed, and flights that were made."""
        return np.array([seed, 0])

    def fly(self, run, controller, path, clock, seconds):
        """One flight."""
        self.random = np.random.default_rng(run)
        rollout = lm.fly_steps(
            controller, path, clock, seconds, self.hover_at, self.step, self.sense,
            sensing_delay=self.late[1],
        )  # fmt: skip
        return run + np.array([0, 1]), rollout

    def hover_at(self, position):
        """At rest, with hover commanded."""
        self.under_way = [np.array([9.81, 0.0, 0.0, 0.0])] * self.late[0]
        self.push = self.random.normal(size=3)
        self.last = None
        hover = np.sqrt(HUMMINGBIRD["mass"] * 9.81 / 4.0 / HUMMINGBIRD["k_eta"])
        self.state = {
            "x": np.array(position, float), "v": np.zeros(3), "q": np.array([0.0, 0.0, 0.0, 1.0]),
            "w": np.zeros(3), "wind": np.zeros(3), "rotor_speeds": np.full(4, hover),
        }  # fmt: skip
        return self.seen()

    def step(self, command):
        """A command for 20 ms; the states after each 10 ms."""
        self.under_way.append(command)
        thrust, *rates = self.under_way.pop(0)
        sent = {"cmd_thrust": HUMMINGBIRD["mass"] * thrust, "cmd_w": np.array(rates)}
        dt, states = lm.SAMPLE_DT / STEPS, []
        keep = np.exp(-dt / GUSTS_S)
        for _ in range(2):
            for _ in range(STEPS):
                self.push = keep * self.push + np.sqrt(1 - keep**2) * self.random.normal(size=3)
                self.state["wind"] = self.wind + self.gust * self.push
                self.state = self.simulator.step(self.state, sent, dt)
            states.append(self.seen())
        return tuple(states)

    def seen(self):
        """RotorPy's state as ours."""
        s = self.state
        return lm.State(s["x"], s["v"], Rotation.from_quat(s["q"]).as_matrix(), s["w"])

    def sense(self, state):
        """What motion capture says: 1 mm, 2 cm/s, 2 mrad, 10 mrad/s."""
        p, v, tilt, w = (
            self.noise * self.random.normal(size=(4, 3)) * [[1e-3], [0.02], [2e-3], [0.01]]
        )
        turned = state.rotation @ Rotation.from_rotvec(tilt).as_matrix()
        position, velocity = state.position + p, state.velocity + v
        if self.filtered:
            before, velocity = self.last or (position, np.zeros(3))
            velocity = velocity + FILTER * ((position - before) / lm.SAMPLE_DT - velocity)
            self.last = position, velocity
        return lm.State(position, velocity, turned, state.rates + w)


if __name__ == "__main__":
    for wind, gust in ((0.0, 0.0), ([4.0, 3.0, 0.0], 0.5)):
        engine = lm.part(RotorPyPlant, wind=wind, gust=gust)
        last = lm.adapt("figure8", engine=engine, iterations=12).iterations[-1]
        print(f"wind {wind}: lap {last['lap_time_s']:.2f} s at {last['peak_speed_mps']:.2f} m/s, "
              f"RMSE {last['rmse_m']:.3f} m")  # fmt: skip
