"""A user's plugin on the software drone."""

import numpy as np
import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.hil.simulator.physics import GROUND_M, SUBSTEPS, Physics, own_plugins
from lafr_mjx.plant.settings import Settings
from lafr_mjx.plant.vehicle import load_vehicle

SOURCE = """
from flax import struct
import lafr_mjx as lm

@struct.dataclass
class Balloon(lm.ForcePlugin):
    newtons: float = 0.0

    def wrench(self, memory, flow):
        zero = 0.0 * self.newtons
        return lm.Wrench(lm.Vec3(zero, zero, self.newtons), lm.Vec3(zero, zero, zero))

@struct.dataclass
class Mute(lm.CommandPlugin):
    def send(self, memory, draws, message):
        return memory, message
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(("newtons", "flies"), [(3.0, True), (1.0, False)])
def test_it_acts_on_the_simulated_vehicle(mine, newtons, flies):
    """A vehicle of 1.9 N with its motors idle."""
    plugins = own_plugins([f"balloon={mine}:Balloon(newtons={newtons})"])
    plant = Physics(load_vehicle("lafr192"), Settings(), plugins=plugins)
    for _ in range(30):
        moment = plant.step(np.zeros((SUBSTEPS, 4)))
    assert (moment.truth[2] > GROUND_M + 0.1) is np.bool_(flies)


def test_one_that_acts_on_commands_is_refused(mine):
    with pytest.raises(InputError, match="--plugins mute: acts on commands"):
        own_plugins([f"mute={mine}:Mute"])
