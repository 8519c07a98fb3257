"""What ships is found by its name, and a slip of the finger is told."""

from __future__ import annotations

import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.tasks import load_task


@pytest.mark.parametrize(
    ("load", "given", "meant"),
    [
        (load_task, "figur8", "figure8"),
        (load_scenario, "wind", "wind5"),
        (load_vehicle, "crazyfly", "crazyflie"),
    ],
)
def test_a_name_that_is_nearly_right(load, given, meant):
    with pytest.raises(InputError, match=rf"'{given}': shipped are .*did you mean '{meant}'\?"):
        load(given)


def test_a_name_like_no_other():
    with pytest.raises(InputError, match="unknown task 'xyzzy': shipped are dash, figure8"):
        load_task("xyzzy")
