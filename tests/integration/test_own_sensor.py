"""A sensor is one file: what it says is recorded, kept, and seen by whoever commands."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import lafr_mjx as lm
from lafr_mjx.plant.plant import Plant
from lafr_mjx.plant.simulation import GROUND
from lafr_mjx.runs.rollout_file import load_rollout, save_rollout

VEHICLE = lm.load_vehicle("lafr192")
TASK = lm.load_task("figure8", VEHICLE.limits)


@struct.dataclass
class Tachometer(lm.MeasurePlugin):
    """The rotors' speeds, and how often it was asked."""

    def init(self, draws):
        return jnp.float32(0.0)

    def measure(self, memory, draws, flow):
        return memory + 1.0, jnp.stack([*flow.rotor_speed, memory])


@struct.dataclass
class Airspeed(lm.MeasurePlugin):
    """A vector; the wind blows at the vehicle in body axes."""

    def measure(self, memory, draws, flow):
        return memory, flow.air_velocity


class Sinking(NamedTuple):
    """Less thrust the more often the tachometer was asked: nothing else tells it the time."""

    weight: Any

    @classmethod
    def create(cls, rng, inputs, outputs):
        return cls(np.zeros((inputs, outputs), np.float32))

    def __call__(self, seen):
        return seen @ self.weight

    def sensing(self, seen, sensed):
        asked = sensed.measured["tachometer"][4] if sensed.measured else 0.0
        return self(seen) - jnp.asarray([1.0, 0.0, 0.0, 0.0]) * 0.01 * asked


POLICY = lm.Policy(Sinking.create(None, 61, 4), VEHICLE.limits)


@pytest.fixture(scope="module")
def flight():
    plant = Plant(
        VEHICLE, lm.load_scenario("wind5"), engine="freebody",
        plugins={"tachometer": Tachometer(), "airspeed": Airspeed()},
    )  # fmt: skip
    return plant.fly(plant.start(0), POLICY, TASK.path, TASK.start_clock(1.0), 4.0)[1]


def test_what_it_says_is_recorded_as_late_as_the_state(flight):
    assert set(flight.measured) == {"tachometer", "airspeed"}
    asked = np.asarray(flight.measured["tachometer"][:, 4])
    flying = ~np.asarray(flight.crashed)
    # The first is taken before the flight, then one every 10 ms; the newest is 10 ms late.
    wanted = np.round(np.asarray(flight.stamp) / 0.01)
    np.testing.assert_array_equal(asked[flying], wanted[flying])
    assert flight.time[10] - flight.stamp[10] == pytest.approx(0.01, abs=1e-6)
    hover = VEHICLE.hover_speed
    np.testing.assert_allclose(flight.measured["tachometer"][0, :4], hover, rtol=1e-3)
    assert -6.5 < flight.measured["airspeed"][0, 0] < -3.0, "wind5 blows along x"


def test_the_policys_network_sees_it(flight):
    assert flight.diagnostics.crash[-1] == GROUND, "it sank"
    thrust = np.asarray(flight.command[:, 0])
    flying = ~np.asarray(flight.crashed)
    assert (np.diff(thrust[flying]) <= 0.0).all() and thrust[0] == pytest.approx(9.81, abs=1e-3)


def test_a_crashed_vehicle_measures_nothing_new(flight):
    after = np.asarray(flight.measured["tachometer"])[np.asarray(flight.crashed)][3:]
    assert len(after) > 10 and np.isfinite(after).all()
    np.testing.assert_array_equal(after, np.broadcast_to(after[0], after.shape))


def test_it_is_kept_with_the_flight(flight, tmp_path):
    save_rollout(tmp_path / "a.npz", jax.device_get(flight))
    back = load_rollout(tmp_path / "a.npz").measured
    assert set(back) == set(flight.measured)
    for name, values in back.items():
        np.testing.assert_array_equal(values, flight.measured[name])


def test_where_nothing_measures_the_network_says_what_it_assumes(flight):
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), flight.sensed)
    asked = jax.tree.map(lambda leaf: jnp.asarray(leaf[:3]), flight.reference)
    sensed = lm.Sensed(state, jnp.float32(0.0), jnp.float32(0.0))
    command = jax.jit(lambda sensed: POLICY(jnp.asarray(POLICY.start()), sensed, asked)[1])(sensed)
    np.testing.assert_allclose(command, [9.81, 0.0, 0.0, 0.0], atol=1e-5)
