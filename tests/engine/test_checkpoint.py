"""Checkpoints: whole or not there, few, and refused where they do not fit."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calql.engine.checkpoint import KEPT, Checkpoints, as_disk_error, pack, unpack
from calql.system.errors import UserError


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    tree = {"a": jnp.arange(3.0), "b": (jnp.int32(4), jnp.zeros((0, 2)))}
    checkpoints = Checkpoints(tmp_path / "c")
    checkpoints.save(pack("state", tree))
    back = unpack("state", checkpoints.load(), tree)
    np.testing.assert_array_equal(back["a"], tree["a"])
    assert int(back["b"][0]) == 4
    assert back["b"][1].shape == (0, 2)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(
        hnp.arrays(
            st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.uint32, np.bool_]),
            hnp.array_shapes(min_dims=0, max_dims=3, max_side=4),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_kind_of_array_comes_back_to_the_bit(arrays: list[np.ndarray]) -> None:
    named = {f"part/{n:04d}": array.T for n, array in enumerate(arrays)}  # not contiguous, as slices are
    with tempfile.TemporaryDirectory() as folder:
        Checkpoints(Path(folder)).save(named)
        back = Checkpoints(Path(folder)).load()
    assert list(back) == list(named)
    for name, array in named.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tobytes() == array.tobytes()


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "c")
    for number in range(5):
        checkpoints.save({"n": np.array(number)})
    assert int(checkpoints.load()["n"]) == 4
    assert len(list((tmp_path / "c").iterdir())) == KEPT


def test_the_newest_is_that_of_the_highest_number(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "c")
    for number in range(12):
        checkpoints.save({"n": np.array(number)})
    assert checkpoints.latest == 11
    assert int(Checkpoints(tmp_path / "c").load()["n"]) == 11


def test_a_half_written_one_is_never_read(tmp_path: Path) -> None:
    """Nor in the way of the next."""
    Checkpoints(tmp_path / "c").save({"n": np.array(7)})
    (tmp_path / "c" / "1.partial").write_text("torn")
    again = Checkpoints(tmp_path / "c")
    assert int(again.load()["n"]) == 7
    again.save({"n": np.array(8)})
    assert int(again.load()["n"]) == 8
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["0.npz", "1.npz"]


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from calql.engine import checkpoint

checkpoints = checkpoint.Checkpoints(Path(sys.argv[1]))
checkpoints.save({"n": np.array(1)})
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
checkpoints.save({"n": np.array(2)})
"""


def test_killed_while_it_writes_the_one_before_is_there(tmp_path: Path) -> None:
    """When all is written, and nothing is said to be."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "c")], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "c" / "1.partial").exists()
    assert int(Checkpoints(tmp_path / "c").load()["n"]) == 1


@pytest.mark.parametrize("where", [0.3, 0.9])
def test_a_damaged_one_is_named(tmp_path: Path, where: float) -> None:
    checkpoints = Checkpoints(tmp_path / "c")
    checkpoints.save({"n": np.arange(1000.0)})
    path = tmp_path / "c" / "0.npz"
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"0\.npz.*damaged"):
        checkpoints.load()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match="delete it"):
        checkpoints.load()


def test_a_disk_that_fills_up_leaves_the_last_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path / "c")
    checkpoints.save({"n": np.array(7)})

    def full(file: Any, **arrays: Any) -> None:
        file.write(b"some of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("calql.engine.checkpoint.np.savez", full)
    with pytest.raises(UserError, match="disk is full"):
        checkpoints.save({"n": np.array(8)})
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["0.npz"]


def test_a_file_system_that_cannot_sync_is_believed_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(code: int) -> Callable[[int], None]:
        def fsync(file: int) -> None:
            raise OSError(code, os.strerror(code))

        return fsync

    checkpoints = Checkpoints(tmp_path / "c")
    monkeypatch.setattr("os.fsync", failing(errno.EINVAL))
    checkpoints.save({"n": np.array(7)})
    monkeypatch.setattr("os.fsync", failing(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        checkpoints.save({"n": np.array(8)})
    assert int(checkpoints.load()["n"]) == 7


def test_checkpoints_of_an_older_version_are_not_taken_for_none(tmp_path: Path) -> None:
    """A run that found none would begin again, and throw its rows away."""
    (tmp_path / "c" / "3").mkdir(parents=True)
    with pytest.raises(UserError, match="older version"):
        Checkpoints(tmp_path / "c")


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


GROWING = """
import json, re, sys
from pathlib import Path
import numpy as np
from calql.engine.checkpoint import Checkpoints

checkpoints, taken = Checkpoints(Path(sys.argv[1])), []
for number in range(1, 9):
    checkpoints.save({"rows": np.random.default_rng(0).random((6, 3000 * number, 100), np.float32)})
    taken.append(int(re.search(r"Anonymous:\\s+(\\d+)", Path("/proc/self/smaps_rollup").read_text()).group(1)) / 1e3)
print(json.dumps(taken))
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed, and can be told not to")
def test_a_process_does_not_grow_with_its_checkpoints(tmp_path: Path) -> None:
    """Of 7 to 58 MB: without telling the C library, it grew by 140 MB."""
    command = [sys.executable, "-c", GROWING, str(tmp_path / "c")]
    taken = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    assert taken[-1] - taken[0] < 30.0, taken
