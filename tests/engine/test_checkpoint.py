"""Checkpoints: whole or not there, few, and refused where they do not fit."""

from __future__ import annotations

import errno
import json
import platform
import subprocess
import sys
import threading
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


def test_memory_is_given_back_at_once_and_once_more_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that write a checkpoint free some of it after they have said that it is written."""
    threads, twice = [], threading.Event()

    def noted() -> None:
        threads.append(threading.current_thread())
        if len(threads) == 2:
            twice.set()

    checkpoints = Checkpoints(tmp_path / "c")
    monkeypatch.setattr(checkpoints, "_give_back", noted)  # of this one: those of other tests may still be due
    monkeypatch.setattr("calql.engine.checkpoint.LATER_S", 0.01)
    checkpoints.save({"n": np.array(7)})
    assert twice.wait(30.0)
    assert threads[0] is threading.main_thread()
    assert threads[1] is not threading.main_thread()


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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed, and can be told not to")
def test_a_process_does_not_grow_with_its_checkpoints(tmp_path: Path) -> None:
    """Of 7 to 58 MB: without telling the C library, it grew by 140 MB."""
    command = [sys.executable, "-c", GROWING, str(tmp_path / "c")]
    taken = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    assert taken[-1] - taken[0] < 30.0, taken
