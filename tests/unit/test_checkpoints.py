"""Checkpoints of a run: they come back bit by bit, and damage to the newest costs one flight."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from run_folder_contents import CONFIG, rollout, same_bits

from lafr_mjx.errors import InputError
from lafr_mjx.runs.run_folder import RunFolder


class Learner(NamedTuple):
    weights: jax.Array
    key: jax.Array
    layers: tuple
    iteration: jax.Array
    done: np.ndarray
    nothing: jax.Array
    count: int


def learner(seed):
    rng = np.random.default_rng(seed)
    odd = rng.integers(0, 2**32, (5, 3), np.uint32).view(np.float32)  # NaN and the like, too
    return Learner(
        weights=jnp.asarray(odd),
        key=jnp.asarray(rng.integers(0, 2**32, 2, np.uint32)),
        layers=({"a/b": jnp.float32(seed)}, np.array(-0.0, np.float32)),
        iteration=jnp.int32(seed),
        done=np.array([True, False]),
        nothing=jnp.zeros((0, 3)),
        count=seed,
    )


def test_checkpoints_come_back_bit_by_bit_and_two_are_kept(tmp_path, capfd):
    with RunFolder.create(tmp_path, CONFIG) as run:
        assert run.load_checkpoint(learner(0)) is None
        for i in range(4):
            run.save_checkpoint(i, learner(i))
        number, tree = run.load_checkpoint(learner(9))  # type: ignore[misc]
        assert number == 3
        same_bits(tree, learner(3))
        assert isinstance(tree, Learner) and tree.count == 3
        assert isinstance(tree.weights, jax.Array) and isinstance(tree.done, np.ndarray)
        run.save_checkpoint(3, learner(33))  # flown again
        same_bits(run.load_checkpoint(learner(9))[1], learner(33))  # type: ignore[index]
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["002.npz", "003.npz"]
    shown = capfd.readouterr()
    assert shown.out + shown.err == ""


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        for i in range(2):
            run.save_checkpoint(i, learner(i))
        newest = tmp_path / "run" / "checkpoints" / "001.npz"
        data = newest.read_bytes()
        middle = len(data) // 2
        for damage in (
            b"", data[:middle], data[:-2], bytes([data[0] ^ 1]) + data[1:],
            data.replace(learner(1).done.tobytes(), b"\0\1"),
        ):  # fmt: skip
            newest.write_bytes(damage)
            number, tree = run.load_checkpoint(learner(9))  # type: ignore[misc]
            assert number == 0
            same_bits(tree, learner(0))
        newest.write_bytes(data)
        assert run.load_checkpoint(learner(9))[0] == 1  # type: ignore[index]
        (newest.parent / ".002.npz.partial").write_bytes(data[:middle])  # never finished
        assert run.load_checkpoint(learner(9))[0] == 1  # type: ignore[index]
        for i in range(2):
            (newest.parent / f"{i:03d}.npz").write_text("")
        with pytest.raises(InputError, match="no checkpoint can be read"):
            run.load_checkpoint(learner(9))


def test_checkpoints_of_version_0_2_name_the_version_that_reads_them(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        (tmp_path / "checkpoints" / "004").mkdir()
        (tmp_path / "checkpoints" / "004" / "checksum.txt").write_text("01234567\n")
        with pytest.raises(InputError, match=r"only lafr-mjx 0\.2 reads these.*--repeat"):
            run.load_checkpoint(learner(9))
    assert (tmp_path / "checkpoints" / "004" / "checksum.txt").exists()


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        run.save_checkpoint(0, {"x": jnp.zeros(3), "y": jnp.zeros(2)})
        for template, reason in (
            ({"x": jnp.zeros(4), "y": jnp.zeros(2)}, r"'x' is float32\[3\].*float32\[4\]"),
            ({"x": jnp.zeros(3, int), "y": jnp.zeros(2)}, "'x' is float32"),
            ({"x": jnp.zeros(3)}, "'y' is unknown"),
            ({"x": jnp.zeros(3), "y": jnp.zeros(2), "z": jnp.zeros(2)}, "'z' is missing"),
        ):
            with pytest.raises(InputError, match=reason):
                run.load_checkpoint(template)


def test_truncate_after(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        for i in range(4):
            run.save_rollout(i, rollout(2))
            run.append_iteration({"x": i})
            run.save_checkpoint(i, {"x": jnp.arange(i + 1)})
        run.truncate_after(2)
        assert run.rollout_numbers() == [0, 1, 2]
        assert [r["x"] for r in run.iterations()] == [0, 1, 2]
        assert run.load_checkpoint({"x": jnp.arange(3)})[0] == 2  # type: ignore[index]
        run.append_iteration({"x": 3})
        assert run.iterations()[-1] == {"iteration": 3, "x": 3}
        run.truncate_after(-1)
        assert run.rollout_numbers() == [] and run.iterations() == []
        assert run.load_checkpoint({"x": jnp.arange(3)}) is None
