"""What the world does to a flight: links, air, forces, battery, sensors; one file each."""

from lafr_mjx.plant.plugins.battery import Battery, BatteryState
from lafr_mjx.plant.plugins.delay import CommandDelay, SensorLatency
from lafr_mjx.plant.plugins.fan import FanJet
from lafr_mjx.plant.plugins.gusts import DrydenGusts
from lafr_mjx.plant.plugins.plugin import (
    ActuatorPlugin,
    AirPlugin,
    CommandPlugin,
    Flow,
    ForcePlugin,
    Plugin,
    SensePlugin,
)
from lafr_mjx.plant.plugins.radio import RadioQuantisation
from lafr_mjx.plant.plugins.rotor_drag import BodyDrag, RotorDrag
from lafr_mjx.plant.plugins.sensor import SensorNoise
from lafr_mjx.plant.plugins.wind import SteadyWind

__all__ = [
    "ActuatorPlugin",
    "AirPlugin",
    "Battery",
    "BatteryState",
    "BodyDrag",
    "CommandDelay",
    "CommandPlugin",
    "DrydenGusts",
    "FanJet",
    "Flow",
    "ForcePlugin",
    "Plugin",
    "RadioQuantisation",
    "RotorDrag",
    "SensePlugin",
    "SensorLatency",
    "SensorNoise",
    "SteadyWind",
]
