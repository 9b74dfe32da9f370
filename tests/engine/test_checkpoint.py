"""Checkpoints: whole or not there, few, and refused where they do not fit."""

from __future__ import annotations

import errno
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from calql.engine.checkpoint import KEPT, Checkpoints, as_disk_error, pack, unpack
from calql.errors import UserError


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    tree = {"a": jnp.arange(3.0), "b": (jnp.int32(4), jnp.zeros((0, 2)))}
    checkpoints = Checkpoints(tmp_path / "c")
    checkpoints.save(pack("state", tree))
    back = unpack("state", checkpoints.load(), tree)
    np.testing.assert_array_equal(back["a"], tree["a"])
    assert int(back["b"][0]) == 4
    assert back["b"][1].shape == (0, 2)


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "c")
    for number in range(5):
        checkpoints.save({"n": np.array(number)})
    assert int(checkpoints.load()["n"]) == 4
    assert len([p for p in (tmp_path / "c").iterdir() if p.name.isdigit()]) == KEPT


def test_a_half_written_one_is_never_read(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "c")
    checkpoints.save({"n": np.array(7)})
    checkpoints.close()
    torn = tmp_path / "c" / "1.orbax-checkpoint-tmp-0"
    torn.mkdir()
    (torn / "junk").write_text("torn")
    again = Checkpoints(tmp_path / "c")
    assert int(again.load()["n"]) == 7


def test_no_checkpoint_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no complete checkpoint"):
        Checkpoints(tmp_path / "c").load()


def test_another_shape_is_refused() -> None:
    arrays = pack("state", {"a": jnp.zeros(3)})
    with pytest.raises(UserError, match="does not fit"):
        unpack("state", arrays, {"a": jnp.zeros(4)})


def test_a_full_disk_is_something_to_mend(tmp_path: Path) -> None:
    full = as_disk_error(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert isinstance(full, UserError)
    assert "free some space" in str(full)
    other = OSError(errno.EACCES, "denied")
    assert as_disk_error(other, tmp_path) is other
