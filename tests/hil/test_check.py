"""How `check` judges what it measured, and that its yardstick does not disturb it."""

import json
import sys

import pytest

from lafr_mjx.errors import RunError
from lafr_mjx.hil.commands.check import _judge_soak
from lafr_mjx.hil.timing import bare_loop

GOOD = {
    "rate_hz": 50.0, "gap_p999_ms": 30.0, "gap_max_ms": 45.0, "memory_start_mb": 200.0,
    "memory_end_mb": 201.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("rate_hz", 48.9, "50 ± 1"),
        ("rate_hz", float("nan"), "50 ± 1"),
        ("gap_p999_ms", 40.1, "gaps"),
        ("gap_max_ms", 50.0, "gaps"),
        ("memory_end_mb", 202.1, "memory"),
        ("memory_end_mb", float("nan"), "memory"),
    ],
)
def test_a_soak_is_judged_by_each_of_its_figures(key, value, word):
    _judge_soak(GOOD)
    with pytest.raises(RunError, match=word):
        _judge_soak(GOOD | {key: value})


def test_the_yardstick_has_the_control_process_s_priority_only_while_it_measures(
    monkeypatch, capsys
):
    """To lock memory and to free it takes long, on the same core and with the same priority."""
    did = []
    for name in ("keep_in_memory", "freeze_garbage", "prefer", "step_back"):
        monkeypatch.setattr(bare_loop, name, lambda *_, name=name, **__: did.append(name))
    monkeypatch.setattr(sys, "argv", ["bare_loop", "0.1"])
    bare_loop.main()
    assert did == ["keep_in_memory", "freeze_garbage", "prefer", "step_back"]
    ready, figures = capsys.readouterr().out.splitlines()
    assert ready == "ready" and json.loads(figures)["ticks"] in (5, 6)
