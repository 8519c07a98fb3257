"""RotorPy (https://github.com/spencerfolk/rotorpy) flies in the place of our own plant.

The same vehicle, lafr192, by somebody else's physics: its integrator, rate loop, rotors and drag.

    pip install 'lafr-mjx[rotorpy]'
    lafr-mjx adapt figure8 --engine 'examples/rotorpy_plant.py:RotorPyPlant(wind=[4.0, 3.0, 0.0])'
    python examples/rotorpy_plant.py        # in still air and in wind
"""

import numpy as np
from rotorpy.vehicles.multirotor import Multirotor
from rotorpy.wind.default_winds import ConstantWind
from scipy.spatial.transform import Rotation

import lafr_mjx as lm

STEPS = 2  # of RotorPy in 10 ms; its rate loop runs once in each


def parameters(vehicle):
    """A vehicle of ours as RotorPy describes one."""
    rotors, inertia, drag = vehicle.rotors, vehicle.inertia, vehicle.mass * vehicle.drag.rotor
    body, hover = vehicle.mass * vehicle.drag.body, 4.0 * vehicle.hover_speed
    arms = vehicle.rotor_positions - vehicle.centre_of_mass
    return {
        "mass": vehicle.mass,
        **{f"I{'xyz'[i]}{'xyz'[j]}": inertia[i, j] for i in range(3) for j in range(i, 3)},
        "num_rotors": 4,
        "rotor_pos": {f"r{i}": arm for i, arm in enumerate(arms)},
        "rotor_directions": rotors.spin,
        "k_eta": rotors.thrust_coefficient,
        "k_m": rotors.thrust_coefficient * rotors.torque_per_thrust,
        "tau_m": rotors.time_constant,
        "rotor_speed_min": rotors.speed_min,
        "rotor_speed_max": np.sqrt(rotors.thrust_reachable / rotors.thrust_coefficient),
        "k_w": vehicle.rate_loop.slow.proportional,
        "k_d": drag[0] / hover,  # along the rotors' discs, at each rotor speed
        "k_z": drag[2] / hover,
        **{f"c_D{axis}": body for axis in "xyz"},
    }


class RotorPyPlant:
    """One vehicle of RotorPy; see `lm.Plant`."""

    def __init__(self, wind=(0.0, 0.0, 0.0), vehicle="lafr192", noise=1.0, late=(1, 1)):
        """A vehicle in steady wind; noise and delays are by default those of `nominal`.

        Args:
            wind: m/s, world; a number is along x.
            vehicle: a shipped one, or the path of a profile.
            noise: times the motion capture's usual.
            late: commands by so many times 20 ms, samples by so many times 10 ms.
        """
        self.vehicle, self.noise, self.late = lm.load_vehicle(vehicle), noise, late
        wind = (wind, 0.0, 0.0) if np.ndim(wind) == 0 else wind
        self.wind = ConstantWind(*wind)
        fast = {"method": "RK23", "rtol": 1e-4, "atol": 1e-6}  # enough for 5 ms
        self.simulator = Multirotor(
            parameters(self.vehicle), control_abstraction="cmd_ctbr", integrator_kwargs=fast
        )

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
        self.state = {
            "x": np.array(position, float), "v": np.zeros(3), "q": np.array([0.0, 0.0, 0.0, 1.0]),
            "w": np.zeros(3), "wind": np.zeros(3),
            "rotor_speeds": np.full(4, self.vehicle.hover_speed),
        }  # fmt: skip
        return self.seen()

    def step(self, command):
        """A command for 20 ms; the states after each 10 ms."""
        self.under_way.append(command)
        thrust, *rates = self.under_way.pop(0)
        sent = {"cmd_thrust": self.vehicle.mass * thrust, "cmd_w": np.array(rates)}
        states = []
        for _ in range(2):
            for _ in range(STEPS):
                self.state["wind"] = self.wind.update(0.0, self.state["x"])
                self.state = self.simulator.step(self.state, sent, lm.SAMPLE_DT / STEPS)
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
        return lm.State(state.position + p, state.velocity + v, turned, state.rates + w)


if __name__ == "__main__":
    for wind in ([0.0, 0.0, 0.0], [4.0, 3.0, 0.0]):
        run = lm.adapt("figure8", engine=lm.part(RotorPyPlant, wind=wind), iterations=12)
        last = run.iterations[-1]
        print(f"wind {wind}: lap {last['lap_time_s']:.2f} s at {last['peak_speed_mps']:.2f} m/s, "
              f"RMSE {last['rmse_m']:.3f} m")  # fmt: skip
