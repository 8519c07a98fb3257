"""To add a rule, a network or inputs of the residual is to write one file, shipped or one's own."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import lafr_mjx as lm
from lafr_mjx import parts
from lafr_mjx.adaptation import own_parts
from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.control.policy import act, create_policy
from lafr_mjx.control.policy_file import load_policy, save_policy
from lafr_mjx.errors import InputError
from lafr_mjx.learner import methods
from lafr_mjx.learner.time_scaling import started
from lafr_mjx.model import residual

HEAD = """
from typing import Any, NamedTuple
import numpy as np
import lafr_mjx as lm
"""
RULE = """
class Sprint(NamedTuple):
    step: Any = 0.1
    outcomes = ("faster",)

    def start(self):
        return ()

    def propose(self, memory, last):
        return memory, last.pace.time_scale * (1.0 - self.step)

    def choose(self, memory, fastest, evidence):
        return lm.taken_as_it_is(memory, fastest, np.int32(0), evidence, {})
"""
NETWORK = """
class Plain(NamedTuple):
    weight: Any
    bias: Any

    @classmethod
    def create(cls, rng, inputs, outputs, scale=0.01):
        weight = scale * rng.standard_normal((inputs, outputs))
        return cls(np.float32(weight), np.zeros(outputs, np.float32))

    def __call__(self, seen):
        return seen @ self.weight + self.bias
"""
RESIDUAL = """
class Push(NamedTuple):
    push: Any

    @classmethod
    def create(cls, rng, size=0.0):
        return cls(np.full(3, size, np.float32))

    def __call__(self, state, effective, commands, switches):
        return self.push + 0.0 * state.velocity, 0.0 * state.velocity
"""
REFERENCE = """
class Shrink(NamedTuple):
    size: Any = 0.9

    def start(self, task):
        return task

    def plan(self, known):
        return known.task._replace(coefficients=self.size * known.task.coefficients)
"""
COST = """
class Near(NamedTuple):
    weight: Any = 5.0

    def __call__(self, state, reference, command, previous):
        return self.weight * ((state.position - reference.position) ** 2).sum(-1)
"""
WRONG = """
def lifted(self, task):
    lift = np.zeros((4, 8))
    lift[2, 0] = 5.0
    return task._replace(coefficients=task.coefficients + lift)

def longer(self, known):
    import jax.numpy as jnp
    return known.task._replace(coefficients=jnp.tile(known.task.coefficients, (2, 1, 1)))

def steep(self, state, reference, command, previous):
    return abs((reference.position - state.position + 0.05)[..., 0]) ** 0.5

def lost(self, known):
    return known.task._replace(coefficients=np.nan * known.task.coefficients)

def undecided(self, memory, fastest, evidence):
    raise ValueError("I cannot decide")

class Lifted(Shrink): start = lifted
class Longer(Shrink): plan = longer
class Lost(Shrink): plan = lost
class Worded(Shrink): plan = lambda self, known: "again"
class Unknown(Near): __call__ = lambda self, state, *a: np.nan * state.position[..., 0]
class Steep(Near): __call__ = steep
class Silence(Near): __call__ = lambda self, *a: None
class Priceless(Near): __call__ = lambda self, *a: "nothing"
class Broad(Near): __call__ = lambda self, state, r, *a: (state.position - r.position) ** 2
class Costly(Near): __call__ = lambda self, state, reference, command: 0.0
class Hasty(Sprint): propose = lambda self, memory, last: (memory, "fast")
class Vague(Sprint): choose = lambda self, *a: "fast"
class Silent(Sprint): choose = undecided
class Forgetful(Sprint): start = lambda self: "nothing"
class Loose(Sprint): outcomes = "faster"
class Backwards(Sprint): propose = lambda self, memory, last: (memory, -1)
class Astray(Sprint): propose = lambda self, memory, last: (memory, float("nan"))
class Counting(Sprint):
    start, propose = lambda self: (0, 0.5), lambda self, memory, last: ((memory[0] + 1, 0.9), 0.9)
    def choose(self, memory, fastest, evidence):
        return lm.taken_as_it_is(memory, fastest, 0, evidence, {})
class Drifting(Sprint):
    start, propose = lambda self: 0, lambda self, memory, last: (memory + 0.5, 0.9)
class Narrow(Plain): create = classmethod(lambda cls, inputs, outputs: None)
class Numb(Plain): __call__ = lambda self, seen: "hover"
class Wordy(Push): __call__ = lambda self, *a: ("push", "pull")
class Flat(Push): __call__ = lambda self, *a: (self.push, self.push)
class Wide(Plain): create = classmethod(lambda cls, rng, i, outputs: Plain.create(rng, i, 5))

Made = type("Made", (Near,), {})

class NoChoice(NamedTuple):
    outcomes = ("x",)
    start = propose = lambda self, *a: ()

class Branching(Sprint):
    def propose(self, memory, last):
        return memory, last.pace.time_scale if last.error > 0.1 else 1.0

class Growing(Sprint):
    def start(self):
        return np.zeros(2, np.float32)

    def choose(self, memory, fastest, evidence):
        return super().choose(memory[:1], fastest, evidence)

class Mute(NamedTuple):
    weight: Any
    create = classmethod(lambda cls, rng, inputs, outputs: cls(np.zeros(1, np.float32)))

class Steady(NamedTuple):
    gain: Any = 1.0

    def preview_s(self):
        return np.zeros(1)

    def start(self):
        return ()

    def __call__(self, memory, sensed, references):
        return memory, np.array([9.81, 0.0, 0.0, 0.0])

class Grounded:
    def start(self, seed):
        return 0

class Broken:
    def __init__(self):
        raise OSError("no port")
    start = fly = None
"""
SHIPPED = [
    (parts.TIME_SCALING, "sprint", HEAD + RULE),
    (parts.NETWORK, "plain", HEAD + NETWORK),
    (parts.RESIDUAL, "push", HEAD + RESIDUAL),
    (parts.REFERENCE, "shrink", HEAD + REFERENCE),
    (parts.COST, "near", HEAD + COST),
]
LIMITS = lm.CommandLimits(np.array([0.0, -6, -6, -6]), np.array([25.0, 6, 6, 6]))


class Given(NamedTuple):
    """Named by a script."""

    step: Any = 0.1
    words: Any = ("a", 2)


class Opaque:
    """Its parameters cannot be read."""

    def __init__(self, step=0.1):
        self.step = step


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(HEAD + RULE + NETWORK + RESIDUAL + REFERENCE + COST + WRONG)
    return path


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """New modules in the package, as a contributor would add them."""
    for kind, name, text in SHIPPED:
        folder = tmp_path / kind.option
        folder.mkdir()
        (folder / f"{kind.prefix}{name}.py").write_text(text)
        package = importlib.import_module(kind.package)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        monkeypatch.delitem(sys.modules, f"{kind.package}.{kind.prefix}{name}", raising=False)


def made(**given: str) -> tuple[Any, ...]:
    spec = lm.RunSpec(**given)  # type: ignore[arg-type]
    spec.check()
    rng = np.random.default_rng(0)
    settings = methods.settings_for(spec)
    return (
        settings.time_scaling,
        create_policy(rng, LIMITS, spec.policy).network,
        residual.create(rng, spec.features).network,
        settings.reference,
        settings.train.cost,
    )


def test_a_new_module_in_the_package_is_a_new_part(installed):
    rule, network, inputs, reference, cost = made(
        ats="sprint(step=0.2)", policy="plain(scale=0.5)", features="push(size=2)",
        reference="shrink(size=0.95)", cost="near(weight=3)",
    )  # fmt: skip
    assert rule.step == 0.2 and rule.outcomes == ("faster",)
    assert type(network).__name__ == "Plain" and np.abs(network.weight).max() > 1.0
    assert inputs.push.tolist() == [2.0, 2.0, 2.0]
    assert reference.size == 0.95 and cost.weight == 3
    with pytest.raises(
        lm.InputError, match=r"--ats sprnt: must be one of .*did you mean 'sprint'\?"
    ):
        lm.RunSpec(ats="sprnt").check()


def test_so_is_a_class_in_a_users_file(file):
    named: dict[str, Any] = {
        "ats": f"{file}:Sprint(step=0.2)", "policy": f"{file}:Plain(scale=0.5)",
        "features": f"{file}:Push(size=2)", "reference": f"{file}:Shrink(size=0.95)",
        "cost": f"{file}:Near(weight=3)",
    }  # fmt: skip
    rule, network, inputs, reference, cost = made(**named)
    assert rule.step == 0.2 and network.bias.shape == (4,) and inputs.push[0] == 2.0
    assert reference.size == 0.95 and cost.weight == 3
    job = AdaptationJob.build(lm.RunSpec(engine="freebody", **named))  # traces an iteration
    assert set(named) <= set(job.digests())


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("ats", "mine.py:NoChoice", "has no 'choose'"),
        ("ats", "mine.py:Sprnt", "has no class 'Sprnt'; did you mean 'Sprint'?"),
        ("ats", "mine.py:Sprint(stp=1)", "'stp'; its parameters are step"),
        ("ats", "mine.py:Sprint(step='a')", "settings must be numbers"),
        ("ats", "mine.py:Sprint(step=__import__('os'))", "'step' must be a plain value"),
        ("ats", "mine.py:Sprint(step=nan)", "'step' must be a plain value"),
        ("ats", "mine.py:Sprint(step=1e999)", "'step' must be finite"),
        ("ats", "mine.py:Sprint(0.2)", "PARAMETER=VALUE"),
        ("ats", "nowhere.py:Sprint", "there is no file"),
        ("ats", "no.such.module:Sprint", "cannot be imported: ModuleNotFoundError"),
        ("ats", "fast", "must be one of hold, paper, verified"),
        ("ats", "mine.py:Silent", "ValueError: I cannot decide .*mine.py, line"),
        ("ats", "mine.py:Branching", "TracerBoolConversionError.*mine.py, line"),
        ("ats", "mine.py:Growing", "memory has the shapes"),
        ("ats", "mine.py:Hasty", "'propose' gives 'fast' where a number must be"),
        ("ats", "mine.py:Vague", "'choose' gives 'fast'; it must be a Choice"),
        ("ats", "mine.py:Forgetful", "'start' gives 'nothing' where a number must be"),
        ("ats", "mine.py:Loose", "'outcomes' must be a tuple of texts"),
        ("ats", "mine.py:Backwards", "'propose' gives -1 after a good flight; it must be a time"),
        ("ats", "mine.py:Astray", "'propose' gives nan after a good flight"),
        ("ats", "mine.py:Drifting", "memory has the types int32 at the start and float32 later"),
        ("policy", "mine.py:Narrow", "its 'create' takes too few values"),
        ("policy", "mine.py:Numb", "gives what is no finite number: hover"),
        ("features", "mine.py:Wordy", "the residual gives 'push' where a number must be"),
        ("reference", "mine.py:Lifted", "leaves the room of the task 'figure8' by 4.65 m"),
        ("reference", "mine.py:Lost", "its plan after a good flight: not finite"),
        ("reference", "mine.py:Shrink(size=0.7)", "its plan after a good flight: leaves the task"),
        ("reference", "mine.py:Worded", "'plan' gives 'again'; it must be a path"),
        ("cost", "mine.py:Unknown", "the cost is not finite 0.05 m beside the task's path"),
        ("cost", "mine.py:Steep", "the slope of the cost is not finite"),
        ("cost", "mine.py:Priceless", "the cost gives 'nothing' where a number must be"),
        ("cost", "tracking(position=-3)", "position = -3: must be a number of 0 or more"),
        ("cost", "tracking(yaw=1e999)", "'yaw' must be finite"),
        ("policy", "mine.py:Wide", r"gives \(5,\) for inputs \(61,\); it must be \(4,\)"),
        ("policy", "mine.py:Mute", "has no '__call__'"),
        ("policy", "mine.py:Steady", "has no 'create': it is a controller, which cannot be"),
        ("policy", "lafr_mjx.control.geometric:GeometricController", "which cannot be trained"),
        ("policy", "mine.py:Plain(scal=1)", "'scal'; its parameters are scale"),
        ("policy", "nothing.npz", "there is no such file"),
        ("features", "mine.py:Flat", r"it must be \(\(750, 3\), \(750, 3\)\)"),
        ("features", "mine.py:Sprint", "has no 'create'"),
        ("reference", "mine.py:Sprint", "has no 'plan': it is no planner of references"),
        ("reference", "mine.py:Longer", r"a path of the shapes .*those of the first are"),
        ("reference", "fast", "must be one of fixed"),
        ("reference", "space-time(corridor=-1)", "corridor = -1: must be at least 0, and at most"),
        ("reference", "space-time(corridor=0.3)", "at most 0.2 on the task 'figure8'"),
        ("cost", "mine.py:Made", "Made: must be written as 'class"),
        ("cost", "mine.py:Sprint", "has no '__call__': it is no cost"),
        ("cost", "mine.py:Costly", "TypeError"),
        ("cost", "mine.py:Broad", r"gives \(750, 3\) for \(750,\) states; it must be \(750,\)"),
        ("cost", "mine.py:Silence", r"gives None for \(750,\) states"),
        ("engine", "mine.py:Grounded", "has no 'fly': it is no plant"),
        ("engine", "mine.py:Broken", "has no 'start'"),
        ("engine", "unreal", "must be one of mjx, freebody, or a plant of your own"),
    ],
)
def test_what_cannot_work_is_refused_in_a_line(file, monkeypatch, option, text, words):
    monkeypatch.chdir(file.parent)
    with pytest.raises(lm.InputError, match=words) as caught:
        lm.adapt("figure8", out="run", **{option: text})
    line = str(caught.value)
    assert line.startswith(f"--{option} ") and "\n" not in line
    assert text.rpartition(":")[2] in line
    assert not (file.parent / "run").exists()


def test_a_rule_may_say_plain_numbers(file):
    spec = lm.RunSpec(engine="freebody", ats=f"{file}:Counting")
    AdaptationJob.build(spec)  # traces an iteration
    count, share = started(methods.settings_for(spec).time_scaling)
    assert count.dtype == "int32" and share.dtype == "float32", "as after each flight"


def test_a_plant_that_fails_in_flight_is_named(file):
    file.write_text("class Gone:\n  def start(self, seed): return 0\n  def fly(self, *a): 1 / 0\n")
    plant: Any = own_parts.OwnPlant(f"{file}:Gone")
    with pytest.raises(lm.RunError, match=r"mine.py:Gone: ZeroDivisionError.*mine.py, line 3"):
        plant.fly(0, None, None, None, 1.0)


def test_objects_and_classes_name_themselves():
    here = str(__file__)
    assert parts.text_of("verified") == "verified"
    assert parts.text_of(Path("runs", "policy.npz")) == "runs/policy.npz"
    assert parts.text_of(Given(0.2)) == f"{here}:Given(step=0.2, words=['a', 2])"
    assert parts.text_of(Given) == f"{here}:Given()"
    assert lm.part(Opaque, step=np.float32(0.5)) == f"{here}:Opaque(step=0.5)"
    with pytest.raises(lm.InputError, match=r"lm.part\(Opaque, PARAMETER=VALUE"):
        parts.text_of(Opaque())
    with pytest.raises(lm.InputError, match="ats: 5 is no part"):
        lm.adapt("figure8", ats=5)
    with pytest.raises(lm.InputError, match="'step' is no number"):
        lm.part(Opaque, step=object())


def test_a_network_of_ones_own_is_stored_and_needs_no_jax(file, tmp_path):
    text = f"{file}:Plain(scale=0.5)"
    policy = create_policy(np.random.default_rng(3), LIMITS, text)
    stored = tmp_path / "policy.npz"
    save_policy(stored, policy, text)
    again = load_policy(stored)
    np.testing.assert_array_equal(again.network.weight, policy.network.weight)
    code = f"""
import sys
sys.modules["jax"] = None
import numpy as np
from pathlib import Path
from lafr_mjx.control.policy import act
from lafr_mjx.control.policy_file import load_policy
print(act(load_policy(Path({str(stored)!r})), np.linspace(-1.0, 1.0, 61)).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = act(policy, np.linspace(-1.0, 1.0, 61))
    np.testing.assert_allclose(np.array(eval(done.stdout)), wanted, rtol=1e-6)


def test_weights_are_not_flown_in_a_network_that_was_edited_since(file, tmp_path):
    text, stored = f"{file}:Plain()", tmp_path / "policy.npz"
    save_policy(stored, create_policy(np.random.default_rng(3), LIMITS, text), text)
    load_policy(stored)
    edited = tmp_path / "other" / file.name
    edited.parent.mkdir()
    edited.write_text(file.read_text().replace("seen @ self.weight", "2.0 * seen @ self.weight"))
    with np.load(stored) as arrays:
        changed: Any = dict(arrays) | {"network": np.array(f"{edited}:Plain()")}
    np.savez(stored, **changed)
    with pytest.raises(InputError, match="was edited since"):
        load_policy(stored)


def test_a_users_file_finds_its_neighbours(tmp_path):
    (tmp_path / "neighbour.py").write_text(HEAD + RULE)
    (tmp_path / "uses.py").write_text("from neighbour import Sprint\n")
    before = list(sys.path)
    rule = methods.settings_of("ours", ats=f"{tmp_path}/uses.py:Sprint(step=0.2)").time_scaling
    assert rule.step == 0.2
    assert sys.path == before
