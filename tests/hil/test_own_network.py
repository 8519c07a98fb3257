# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false
"""A policy network of a user's own on a drone: known before the flight, NumPy only, in time."""

import subprocess
import sys
import time

import numpy as np
import pytest
from own_network import SOURCE, written
from rig import PROFILE, SimFlight, leg
from test_bad_input import run

from lafr_mjx.control.departure import WINDOWS
from lafr_mjx.control.observation import SIZE
from lafr_mjx.control.policy import act, create_policy
from lafr_mjx.control.policy_file import load_policy, save_policy, stored_network
from lafr_mjx.errors import InputError
from lafr_mjx.hil.commands.compare import Compare
from lafr_mjx.hil.commands.fly_drone import Fly
from lafr_mjx.hil.control.fallback import Fallback
from lafr_mjx.hil.control.flyable import check_apart
from lafr_mjx.hil.control.leg_loader import LegLoader
from lafr_mjx.hil.control.legs import load_leg, save_leg
from lafr_mjx.hil.safety.state_machine import Mode
from lafr_mjx.hil.simulator.physics import Physics
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.tasks import load_task

LIMITS = PROFILE.command.limits


def made(network, seed=0):
    return create_policy(np.random.default_rng(seed), LIMITS, network)


@pytest.fixture
def nets(tmp_path):
    return written(tmp_path)


def test_leg_keeps_the_network(tmp_path, nets):
    network = f"{nets}:Twice(width=16)"
    policy, other = made(network, 1), made(network, 2)
    fallback = Fallback(other, np.full(WINDOWS, 0.2), 0.5)
    given = leg(3, policy=policy)._replace(network=network, fallback=fallback)
    read = load_leg(save_leg(tmp_path, given), network)
    seen = np.random.default_rng(0).standard_normal((5, SIZE)).astype(np.float32)
    assert read.network == network and type(read.policy.network).__name__ == "Twice"
    assert np.array_equal(act(read.policy, seen), act(policy, seen))
    assert np.array_equal(act(read.fallback.last_good, seen), act(other, seen))
    again = load_leg(save_leg(tmp_path, read._replace(number=4)))
    assert again.network == network, "the operator's process hands it on"


def test_a_network_that_was_not_announced_is_not_even_imported(tmp_path):
    file = written(tmp_path, "other.py", SOURCE + "\nprint('imported')\n")
    network = f"{file}:Twice(width=16)"
    path = save_leg(tmp_path, leg(policy=made(network))._replace(network=network))
    code = (
        "import sys\nfrom pathlib import Path\nfrom lafr_mjx.hil.control.legs import load_leg\n"
        "load_leg(Path(sys.argv[1]), 'mlp')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert "was not announced" in done.stderr and done.stdout == ""
    loader = LegLoader(PROFILE)
    loader.ask(path, np.zeros((0, SIZE)))
    end = time.monotonic() + 20.0
    while (result := loader.result()) is None and time.monotonic() < end:
        time.sleep(0.01)
    assert result is not None and result[0] is None and "was not announced" in result[1]


def test_nothing_is_imported_in_flight(tmp_path, nets):
    network = f"{nets}:Twice(width=16)"
    path = save_leg(tmp_path, leg(policy=made(network))._replace(network=network))
    code = (
        "import pathlib, sys\n"
        "import numpy as np\n"
        "import lafr_mjx.hil.control.control_process\n"
        "from lafr_mjx.hil.control.legs import load_leg, try_leg\n"
        "from lafr_mjx.hil.safety.drone_profile import load_profile\n"
        "from lafr_mjx.hil.control.warm_up import warm_up\n"
        "warm_up(load_profile('sim'), sys.argv[2])\n"
        "before = set(sys.modules)\n"
        "leg = load_leg(pathlib.Path(sys.argv[1]), sys.argv[2])\n"
        f"try_leg(leg, np.zeros((9, {SIZE}), np.float32))\n"
        "print(sorted(set(sys.modules) - before), 'jax' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(path), network]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"


def test_flies_as_the_shipped_network_with_the_same_weights(tmp_path, nets):
    from lafr_mjx.learner import pretrain

    network, task = f"{nets}:Twice", load_task("figure8", LIMITS)
    base, _ = pretrain.base_policy(task.path, LIMITS, 1.0, 100)
    layers = tuple(type(one)(*map(np.asarray, one)) for one in base.network.layers)
    own = made(network)
    own = own._replace(network=own.network._replace(layers=layers))
    plant = Physics(load_vehicle("lafr192"), load_scenario("wind5").drawn(0).settings_for(0)[0])
    speeds = []
    for number, (policy, called) in enumerate(((own, network), (base, "mlp"))):
        given = leg(number, policy=policy)._replace(network=called)
        plant.reset(0)
        sim = SimFlight(plant).tracking(load_leg(save_leg(tmp_path, given), called))
        assert sim.run(9.0, lambda sim=sim: bool(sim.logic.flyer.finished))
        assert sim.mode is Mode.POLICY and sim.drone.crashed == ""
        assert not [text for _, text in sim.events if "fault" in text]
        speeds.append([np.linalg.norm(row[4][3:6]) for row in sim.history])
    assert np.allclose(speeds[0], speeds[1], atol=1e-3) and max(speeds[0]) > 1.0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Slow", "at most 5 ms of the 20 ms of a control period"),
        ("OneOnly", "fails: ValueError"),
        ("Lazy", "imports jax, which the control process of a drone must not have"),
        ("NoNetwork", "it is no network"),
        ("Twice(depth=3)", "its parameters are"),
    ],
)
def test_what_cannot_fly_is_refused(nets, name, told):
    with pytest.raises(InputError) as error:
        check_apart(f"{nets}:{name}", PROFILE)
    assert told in str(error.value) and str(error.value).startswith(f"--policy {nets}:{name}")


def test_a_file_that_imports_jax_is_refused_before_anything_is_left(tmp_path):
    file = written(tmp_path, "with_jax.py", "import jax\n" + SOURCE)
    done = run("fly", "--policy", f"{file}:Twice", cwd=tmp_path)
    assert done.returncode == 2 and "it imports jax" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "runs").exists()


def test_what_flies_is_not_refused(tmp_path, nets):
    check_apart(f"{nets}:Twice", PROFILE)
    check_apart("mlp(hidden=[64, 64])", PROFILE)
    file = tmp_path / "policy.npz"
    save_policy(file, made(f"{nets}:Twice"), f"{nets}:Twice")
    check_apart(str(file), PROFILE)
    with pytest.raises(InputError, match="takes"):
        save_policy(file, made(f"{nets}:Slow"), f"{nets}:Slow")
        check_apart(str(file), PROFILE)


def test_the_configuration_names_the_parts(tmp_path, nets, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fly = Fly(ats="hold", features="body", horizon=20, policy="nets.py:Twice(width=16)", seed=4)
    config = fly._config(PROFILE)
    told = config["run"]
    assert (told["ats"], told["features"], told["horizon"]) == ("hold", "body", 20)
    assert told["policy"] == f"{nets}:Twice(width=16)" and told["engine"] == "hil"
    assert told["vehicle"] == PROFILE.vehicle and config["hil"]["learns"]
    assert RunSpec.of_table(told).seed == 4
    file = tmp_path / "policy.npz"
    save_policy(file, made(told["policy"]), told["policy"])
    fixed = Fly(policy="policy.npz", fixed=True)._config(PROFILE)
    assert fixed["run"]["method"] == "policy" and fixed["run"]["policy"] == str(file)
    assert not fixed["hil"]["learns"] and "learner" not in fixed
    assert Fly(policy="policy.npz")._config(PROFILE)["hil"]["learns"], "it goes on from there"
    assert stored_network(file) == told["policy"] and load_policy(file)


def test_a_comparison_with_a_run_of_other_parts_is_refused(tmp_path):
    from lafr_mjx.adaptation.adaptation_job import AdaptationJob
    from lafr_mjx.runs.run_folder import RunFolder

    spec = RunSpec(scenario="wind5", features="body")
    with RunFolder.create(tmp_path / "run", AdaptationJob.build(spec).config()):
        pass
    Compare(features="body", simulated=tmp_path / "run")._check_same()
    with pytest.raises(InputError, match="has features body, not default"):
        Compare(simulated=tmp_path / "run")._check_same()
