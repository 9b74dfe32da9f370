"""Files in and out: what is written is read back exactly, whatever the container."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import assume, given, settings
from recordings import Arrays, datasets, recording, recordings, same_arrays

from calql.data import Dataset, from_d4rl_arrays, load, read_minari, write_minari, write_npz
from calql.system.errors import UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def write_hdf5(arrays: Arrays, path: Path) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
        file["infos/goal"] = np.zeros(3)
    return path


def test_npz_and_hdf5_follow_the_same_rules(folder: Path) -> None:
    @given(recordings())
    def same(arrays: Arrays) -> None:
        try:
            expected = from_d4rl_arrays(arrays, "memory")
        except UserError:
            assume(False)
        np.savez(folder / "a.npz", **arrays)  # type: ignore[arg-type]
        same_arrays(load(folder / "a.npz"), expected)
        same_arrays(load(str(write_hdf5(arrays, folder / "a.hdf5"))), expected)
        assert load(folder / "a.npz").notes == expected.notes

    same()


@pytest.mark.parametrize("images", [False, True])
def test_npz_round_trip(folder: Path, images: bool) -> None:
    @given(datasets(images=images))
    def same(dataset: Dataset) -> None:
        same_arrays(load(write_npz(dataset, folder / "round.npz")), dataset)

    same()
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == []


def test_writing_replaces_and_makes_folders(tmp_path: Path) -> None:
    first = from_d4rl_arrays(recording([0, 1], [0, 0], stored=True), "made")
    second = from_d4rl_arrays(recording([0, 0, 1], [0, 0, 0], stored=True), "made")
    target = tmp_path / "deep" / "er" / "data.npz"
    write_npz(first, target)
    write_npz(second, target)
    same_arrays(load(target), second)
    assert [p.name for p in target.parent.iterdir()] == ["data.npz"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = from_d4rl_arrays(recording([0, 1], [0, 0], stored=True), "made")
    target = write_npz(dataset, tmp_path / "data.npz")
    before = target.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"No space left on device.*free some space"):
        write_npz(dataset, target)
    assert target.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["data.npz"]


def test_only_npz_is_written(tmp_path: Path) -> None:
    dataset = from_d4rl_arrays(recording([0, 1], [0, 0], stored=True), "made")
    with pytest.raises(UserError, match=r"end its name in \.npz"):
        write_npz(dataset, tmp_path / "data.hdf5")


@pytest.mark.parametrize("images", [False, True])
def test_minari_round_trip(store: Path, images: bool) -> None:
    count = iter(range(10_000))

    @settings(max_examples=15, deadline=None)
    @given(datasets(sequence=True, images=images))
    def same(dataset: Dataset) -> None:
        name = f"calql/test/round{next(count)}-v0"
        write_minari(dataset, name)
        same_arrays(load(f"minari:{name}"), dataset)

    same()


def test_minari_refuses_a_broken_sequence_and_a_taken_name(store: Path) -> None:
    broken = from_d4rl_arrays(recording([0, 0, 1], [0, 0, 0], stored=True), "made")
    with pytest.raises(UserError, match=r"2 rows have a next observation.*\.npz"):
        write_minari(broken, "calql/broken-v0")
    whole = from_d4rl_arrays(recording([0, 0, 1, 0], [0, 0, 0, 0]), "made")
    write_minari(whole, "calql/whole-v0")
    with pytest.raises(UserError, match="exists already"):
        write_minari(whole, "calql/whole-v0")


def test_a_failed_minari_write_leaves_nothing(store: Path) -> None:
    whole = from_d4rl_arrays(recording([0, 0, 1, 0], [0, 0, 0, 0]), "made")
    with pytest.raises(TypeError):
        write_minari(whole, "calql/half-v0", no_such_option=1)
    assert not (store / "calql" / "half-v0").exists()


def test_minari_that_is_not_there(store: Path) -> None:
    with pytest.raises(UserError, match="store, which is empty; minari download calql/no-v0"):
        load("minari:calql/no-v0")
    write_minari(from_d4rl_arrays(recording([0, 1, 0], [0, 0, 0]), "made"), "calql/maze-v0")
    with pytest.raises(UserError, match="did you mean 'calql/maze-v0'"):
        load("minari:calql/mase-v0")


@pytest.mark.parametrize("file", ["metadata.json", "main_data.hdf5"])
def test_minari_that_is_damaged(store: Path, file: str) -> None:
    write_minari(from_d4rl_arrays(recording([0, 1, 0], [0, 0, 0]), "made"), "calql/maze-v0")
    path = store / "calql" / "maze-v0" / "data" / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(
        UserError, match=r"(cannot be read|is not a whole HDF5 file) .*(download or write|download) it again"
    ):
        load("minari:calql/maze-v0")


def dictionary_dataset(name: str) -> None:
    import minari
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    box = spaces.Box(-10, 10, (2,), np.float32)
    observations = {
        "observation": np.arange(8, dtype=np.float32).reshape(4, 2),
        "desired_goal": np.full((4, 2), 7, np.float32),
    }
    flags = np.array([False] * 3)
    buffer = EpisodeBuffer(
        observations=observations,
        actions=np.zeros((3, 2), np.float32),
        rewards=np.zeros(3),
        terminations=flags,
        truncations=flags,
    )
    space = spaces.Dict({"observation": box, "desired_goal": box})
    minari.create_dataset_from_buffers(name, [buffer], observation_space=space, action_space=box)


@pytest.mark.filterwarnings("ignore")
def test_minari_dictionaries_need_a_key(store: Path) -> None:
    dictionary_dataset("calql/dict-v0")
    with pytest.raises(UserError, match=r"a dictionary of .*observation \(2,\).*--observations"):
        load("minari:calql/dict-v0")
    one = load("minari:calql/dict-v0#observation")
    assert one.observations.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert one.next_observations.tolist() == [[2, 3], [4, 5], [6, 7]]
    assert one.truncated.tolist() == [False, False, True]
    assert one.notes == ("1 episode stops without an end and counts as truncated",)
    both = read_minari("calql/dict-v0", observation_key="observation+desired_goal")
    assert both.observations[1].tolist() == [2, 3, 7, 7]
    with pytest.raises(UserError, match="did you mean 'observation'"):
        load("minari:calql/dict-v0#observations")


@pytest.mark.parametrize("suffix", [".npz", ".hdf5"])
def test_gymnasiums_names_of_the_ends_are_known(suffix: str, tmp_path: Path) -> None:
    arrays = recording([0, 0, 1, 0, 0], [0, 0, 0, 0, 1], stored=True)
    renamed = {{"terminals": "terminated", "timeouts": "truncated"}.get(key, key): a for key, a in arrays.items()}
    path = tmp_path / f"gymnasium{suffix}"
    if suffix == ".npz":
        np.savez(path, **renamed)  # type: ignore[arg-type]
    else:
        with h5py.File(path, "w") as file:
            file.update(renamed)
    read = load(path)
    np.testing.assert_array_equal(read.terminals, arrays["terminals"])
    np.testing.assert_array_equal(read.truncated, arrays["timeouts"])
    np.savez(tmp_path / "both.npz", **arrays, terminated=arrays["terminals"])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="has 'terminated' and 'terminals', which are the same; keep one"):
        load(tmp_path / "both.npz")
