"""Files of strangers: nothing outside a file is read through it, and nothing is unpacked before its size is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from recordings import recording

import corridor
from calql.data import load, write_minari
from calql.data.formats.hdf5 import require_own
from calql.system import archives
from calql.system.errors import UserError


def written(path: Path, **changes: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.update({**recording([0, 0, 1, 0, 0], [0, 0, 0, 0, 1]), **changes})
    return path


def external(name: str, path: Path) -> Path:
    """A file whose column `name` is the bytes of another file."""
    secret = path.with_name("secret")
    secret.write_bytes(np.arange(5, dtype=np.float32).tobytes())
    arrays = recording([0, 0, 1, 0, 0], [0, 0, 0, 0, 1])
    with h5py.File(path, "w") as file:
        file.update({key: array for key, array in arrays.items() if key != name})
        file.create_dataset(name, (5,), np.float32, external=[(str(secret), 0, 20)])
    return path


def test_bytes_of_a_local_file_are_never_read_as_rewards(tmp_path: Path) -> None:
    path = external("rewards", tmp_path / "theirs.hdf5")
    with h5py.File(path) as file:
        assert file["rewards"][3] == 3.0  # the library itself would
    with pytest.raises(
        UserError, match=r"the numbers of 'rewards' lie in another file .*secret.*, which is not followed"
    ):
        load(path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    written(tmp_path / "other.hdf5")
    path = written(tmp_path / "theirs.hdf5", rewards=h5py.ExternalLink("other.hdf5", "/rewards"))
    with pytest.raises(UserError, match=r"'rewards' is a link to other.hdf5, which is not followed; store the array"):
        load(path)


def test_arrays_that_claim_more_than_their_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGE", 2**20)
    path = tmp_path / "hollow.hdf5"
    with h5py.File(path, "w") as file:
        file.update({k: v for k, v in recording([0, 0, 1, 0, 0], [0, 0, 0, 0, 1]).items() if k != "rewards"})
        file.create_dataset("rewards", (2**22,), np.float32, chunks=(2**10,))  # nothing of it is written
    with pytest.raises(UserError, match=r"unpacks from .* kB to 16.8 MB"):
        load(path)


def test_a_file_of_any_layout_is_its_own(tmp_path: Path) -> None:
    path = written(tmp_path / "deep.hdf5")
    with h5py.File(path, "a") as file:
        file["a/b/rewards"] = np.zeros(3)
        file["a/b/round"] = file["a"]  # in a circle
    require_own(path)
    with h5py.File(path, "a") as file:
        file["a/b/out"] = h5py.ExternalLink("/etc/hostname", "/x")
    with pytest.raises(UserError, match="'/a/b/out' is a link to /etc/hostname, which is not followed"):
        require_own(path)


def test_minari_datasets_are_held_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write_minari(corridor.demonstrations(2), "me/corridor-v0")
    assert len(load("minari:me/corridor-v0")) > 5
    (path,) = tmp_path.rglob("main_data.hdf5")
    with h5py.File(path, "a") as file:
        del file["episode_0/rewards"]
        file["episode_0/rewards"] = h5py.ExternalLink("elsewhere.hdf5", "/rewards")
    with pytest.raises(UserError, match=r"'/episode_0/rewards' is a link to elsewhere.hdf5, which is not followed"):
        load("minari:me/corridor-v0")


@pytest.mark.parametrize("seed", range(3))
def test_damage_anywhere_in_a_file_is_one_line(seed: int, tmp_path: Path) -> None:
    """Bytes flipped all over: read, with other numbers if need be (HDF5 has no checksums), or refused in one line."""
    refused = []
    content = written(tmp_path / "a.hdf5").read_bytes()
    rng = np.random.default_rng(seed)
    for _ in range(150):
        changed = np.frombuffer(content, np.uint8).copy()
        changed[rng.integers(0, min(len(content), 4000), 3)] = rng.integers(0, 256, 3)
        (tmp_path / "b.hdf5").write_bytes(changed.tobytes())
        try:
            load(tmp_path / "b.hdf5")
        except UserError as error:
            refused.append(str(error))
    assert refused
    assert not any("\n" in text for text in refused)
