"""Who may import whom: the structure of the package, read from its source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lafr_mjx

PACKAGE = Path(lafr_mjx.__file__).parent

# What each package must not know. The learner, its model and the references never see the truth.
COMMANDS = (
    "commands",
    "view",
    "hil",
    "cli",
    "adaptation",
    "ablation",
    "report",
    "fitting",
    "runs",
    "runner",
)
FORBIDDEN = {
    "reference": ("plant", "model", "learner", "control", *COMMANDS),
    "control": ("plant", "model", "learner", *COMMANDS),
    "model": ("plant", "learner", *COMMANDS),
    "learner": ("plant", *COMMANDS),
    "plant": ("model", "learner", *COMMANDS),
    "time_optimal": ("model", "learner", "control", *COMMANDS),
    "logs": ("plant", "learner", "control", "commands", "view", "hil", "cli"),
    "envs": ("model", "learner", "commands", "hil", "cli"),
    "runs": ("plant", "model", "learner", "commands", "view", "hil", "cli"),
    # Knows nothing of what it runs.
    "runner": ("plant", "model", "learner", "control", "reference", "tasks", "run_spec",
               *(name for name in COMMANDS if name != "runner")),
    "adaptation": ("commands", "hil", "cli", "ablation", "report"),
    "ablation": ("commands", "hil", "cli", "report"),
    "report": ("commands", "hil", "cli"),
    "fitting": ("commands", "hil", "cli", "ablation", "report"),
    "view": ("commands", "hil", "cli"),
    "commands": ("hil", "cli"),
    # The software drone stands for a stranger's: it shares the messages and the plant with us.
    "hil/simulator": ("learner", "model", "control", "reference", "commands", "hil.control",
                      "hil.drones", "hil.operator", "hil.recording", "hil.safety", "hil.timing",
                      *(f"hil.wire.{name}" for name in ("node", "reactor", "rpc", "tcpros"))),
    "hil/safety": ("hil.wire", "hil.operator", "hil.control.control_process", "hil.simulator"),
    "hil/control": ("hil.operator", "hil.simulator"),
    "hil/wire": ("hil.drones", "hil.safety", "hil.control", "hil.operator", "hil.simulator"),
    "hil/timing": ("hil.drones", "hil.safety", "hil.control", "hil.operator", "hil.simulator"),
}  # fmt: skip
# What the drone's control process imports: nothing of it may pull in JAX.
WITHOUT_JAX = (
    "lafr_mjx",
    "lafr_mjx.types",
    "lafr_mjx.so3",
    "lafr_mjx.tasks",
    "lafr_mjx.metrics",
    "lafr_mjx.reference.flatness",
    "lafr_mjx.reference.clock",
    "lafr_mjx.reference.plain_reference",
    "lafr_mjx.control.geometric",
    "lafr_mjx.control.controller",
    "lafr_mjx.control.observation",
    "lafr_mjx.control.policy",
    "lafr_mjx.control.policy_file",
    "lafr_mjx.mlp",
    "lafr_mjx.plant.vehicle",
    "lafr_mjx.plant.scenario",
    "lafr_mjx.cli",
)


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_package_keeps_to_its_imports(package):
    banned = tuple(f"lafr_mjx.{name}" for name in FORBIDDEN[package])
    found = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in sorted((PACKAGE / package).rglob("*.py"))
        for name in imports_of(path)
        if any(name == b or name.startswith(f"{b}.") for b in banned)
    ]
    assert found == []


def test_a_kind_of_drone_is_known_to_its_own_files_only():
    """All others know the protocol, and the profile asks the registry."""
    drones = PACKAGE / "hil" / "drones"
    common = {"__init__", "drone_protocol", "known_drones"}
    kinds = {path.stem for path in drones.glob("*.py")} - common
    assert "agilicious" in kinds and all((drones / f"{name}.py").exists() for name in common)
    banned = ("pymavlink", *(f"lafr_mjx.hil.drones.{kind}" for kind in kinds))
    known = "lafr_mjx.hil.drones.known_drones"
    found = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in imports_of(path)
        if path.parent != drones
        and (
            any(name == b or name.startswith(f"{b}.") for b in banned)
            or (name == known and path.name != "drone_profile.py")
        )
    ]
    assert found == []


def test_no_relative_imports_hide_from_the_check():
    relative = [
        path
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


def test_what_the_drone_needs_imports_no_jax():
    code = "import sys\n" + "\n".join(f"import {name}" for name in WITHOUT_JAX)
    code += "\nprint([m for m in ('jax', 'jaxlib', 'flax', 'optax') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=900
    )
    assert done.stdout.strip() == "[]"


def test_files_are_found_by_their_names():
    """No two modules of the package have the same name."""
    names = [p.stem for p in PACKAGE.rglob("*.py") if not p.stem.startswith("__")]
    assert len(names) > 200
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
