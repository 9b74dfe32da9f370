"""Columns that stay on disk: what is read from them is what an array would give, and all checks walk them by chunks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import same_arrays

import corridor
from calql.data import Dataset, describe, load, write
from calql.data import npy_rows as module
from calql.data.findings import findings
from calql.data.jumps import jumps
from calql.data.npy_rows import NpyRows
from calql.data.reward_map import by_function
from calql.data.stored import Stored, picked
from calql.runs.record import fingerprint
from calql.system import walk
from calql.system.errors import UserError


def pictures(episodes: int = 4, length: int = 5) -> Dataset:
    """Images of noise; every episode is cut but the second, which ends; the recording jumps within the third."""
    rng, rows = np.random.default_rng(0), episodes * length
    frames = rng.integers(0, 256, (rows + episodes, 4, 4, 3), np.uint8)
    places = np.arange(rows) + np.repeat(np.arange(episodes), length)
    after = frames[places + 1].copy()
    after[2 * length + 1] += 1
    ends = np.arange(1, rows + 1) % length == 0
    terminal = np.arange(rows) == 2 * length - 1
    actions, rewards = rng.uniform(-1, 1, (rows, 2)).astype(np.float32), rng.normal(size=rows).astype(np.float32)
    return Dataset(frames[places], actions, rewards, after, terminal, ends & ~terminal)


def kept(data: Dataset, folder: Path) -> Dataset:
    """The same, written as a folder of columns and read again."""
    write(data, folder / "kept.columns")
    found = load(folder / "kept.columns")
    assert found.stored
    return found


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "AT_ONCE", 100)
    monkeypatch.setattr(module, "SHARE", 64)  # so that several threads read
    monkeypatch.setattr(module, "MAPPED", 0)  # and what is mapped is let go of after every read


@pytest.fixture(scope="module")
def column(tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, Path]:
    values = np.random.default_rng(0).normal(size=(20, 3, 2)).astype(np.float32)
    path = tmp_path_factory.mktemp("column") / "x.npy"
    np.save(path, values)
    return values, path


INDEX = st.one_of(
    st.integers(-20, 19),
    st.slices(20),
    st.lists(st.integers(-20, 19), max_size=40).map(lambda rows: np.array(rows, np.int64)),
    st.lists(st.booleans(), min_size=20, max_size=20).map(np.array),
    st.just((slice(3, 9), 1)),
    st.just(np.array([[0, 1], [5, 3]])),
)


@given(index=INDEX)
def test_any_index_gives_what_an_array_gives(index: Any, column: tuple[np.ndarray, Path]) -> None:
    values, path = column
    stored = Stored(NpyRows(path))
    np.testing.assert_array_equal(stored[index], values[index])
    assert (stored.shape, stored.dtype, stored.nbytes, len(stored)) == (values.shape, values.dtype, values.nbytes, 20)


def test_rows_are_chosen_without_being_read(column: tuple[np.ndarray, Path]) -> None:
    values, path = column
    chosen = picked(picked(Stored(NpyRows(path)), np.arange(19, 0, -2)), slice(1, 4))
    assert isinstance(chosen, Stored)
    np.testing.assert_array_equal(np.asarray(chosen), values[19:0:-2][1:4])


def test_a_stored_column_is_never_compared_as_if_it_were_an_array(column: tuple[np.ndarray, Path]) -> None:
    stored = Stored(NpyRows(column[1]))
    with pytest.raises(TypeError, match="by chunks"):
        _ = stored == 0.0
    with pytest.raises(TypeError, match="by chunks"):
        _ = stored != 0.0


def test_what_does_not_fit_into_memory_is_not_loaded(
    column: tuple[np.ndarray, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calql.data.stored.host_memory", lambda: 100)
    with pytest.raises(UserError, match=r"480 bytes does not fit .*--stream on"):
        np.asarray(Stored(NpyRows(column[1])))


def test_images_lie_on_disk_once(tmp_path: Path) -> None:
    data = pictures()
    found = kept(data, tmp_path)
    same_arrays(found.in_memory(), data)
    frames = np.load(tmp_path / "kept.columns" / "frames.npy", mmap_mode="r")
    assert len(frames) == len(data) + 4 + 1  # one more for each episode, and one where the recording jumps


def test_parts_and_masks_are_kept(tmp_path: Path) -> None:
    data = corridor.demonstrations(3)
    allowed = np.arange(2 * len(data)).reshape(-1, 2) % 3 > 0
    choices = replace(data, actions=np.arange(len(data)) % 2, action_masks=allowed, next_action_masks=~allowed)
    found = kept(choices, tmp_path)
    assert found.discrete
    np.testing.assert_array_equal(found.action_masks, allowed)
    np.testing.assert_array_equal(found.next_action_masks, ~allowed)


@pytest.mark.parametrize("data", [pictures(), corridor.demonstrations(8)], ids=["images", "vectors"])
def test_the_same_is_said_of_data_on_disk_and_in_memory(data: Dataset, tmp_path: Path) -> None:
    found = kept(data, tmp_path)
    assert findings(found, 3) == findings(replace(data, source=found.source), 3)
    assert describe(found) == describe(replace(data, source=found.source))
    np.testing.assert_array_equal(jumps(found), jumps(data))
    assert fingerprint(found) == fingerprint(data)
    some = [2, 0]
    assert fingerprint(found.select_episodes(some)) == fingerprint(data.select_episodes(some))
    same_arrays(found.select_episodes(some).in_memory(), data.select_episodes(some))


def test_bad_values_on_disk_are_found(tmp_path: Path) -> None:
    data = corridor.demonstrations(5)
    data.observations[7, 0], data.next_observations[7, 1] = np.nan, np.inf
    write(data, tmp_path / "bad.columns")
    with pytest.raises(UserError, match="'observations' holds 1 NaN value in 1 row, the first in row 7"):
        load(tmp_path / "bad.columns")
    told = findings(load(tmp_path / "bad.columns", on_problem=lambda _: None)).errors
    assert [error.what for error in told] == [error.what for error in findings(data).errors]


def test_rewards_of_a_function_are_worked_out_by_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = corridor.demonstrations(3)
    given_rows: list[int] = []

    def reward(seen: np.ndarray, acted: np.ndarray, after: np.ndarray) -> np.ndarray:
        given_rows.append(len(seen))
        return np.asarray(seen[:, 0] + acted[:, 0] - after[:, 0])

    monkeypatch.setattr("calql.data.reward_map._imported", lambda _: reward)
    np.testing.assert_array_equal(by_function(kept(data, tmp_path), "a:b").rewards, by_function(data, "a:b").rewards)
    assert given_rows[-1] == len(data)
    assert max(given_rows[:-1]) <= 12
    assert sum(given_rows[:-1]) == len(data)


def test_statistics_are_numpys_to_the_bit() -> None:
    values = np.random.default_rng(0).normal(3.0, 7.0, (500, 5)).astype(np.float32)
    mean, std = walk.moments(values)
    np.testing.assert_array_equal(mean, values.astype(np.float64).mean(axis=0))
    np.testing.assert_array_equal(std, values.astype(np.float64).std(axis=0))


WRONG = {
    "frames.npy": (np.zeros((3, 2), np.float32), "'frames' does not go with the rest"),
    "rewards.npy": (np.zeros(3, np.float32), "'rewards' does not go with the rest"),
    "actions.npy": (np.zeros(34, np.float32), "does not go with the rest"),
    "terminals.npy": (np.zeros(34, np.float32), "'terminals' does not go with the rest"),
    "next_apart.npy": (np.zeros(34, np.bool_), "gives the last row no next observation"),
    "truncated.npy": (np.array([object()] * 34), "is no whole .npy file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_columns_that_do_not_go_together_are_refused(name: str, tmp_path: Path) -> None:
    data = corridor.demonstrations(3)
    assert len(data) == 34
    write(data, tmp_path / "a.columns")
    column, what = WRONG[name]
    np.save(tmp_path / "a.columns" / name, column)
    with pytest.raises(UserError, match=what):
        load(tmp_path / "a.columns")


def test_inspect_tells_of_observations_that_changed(tmp_path: Path) -> None:
    found = kept(pictures(), tmp_path)
    assert not [error for error in describe(found).errors if "checksum" in error]
    file = tmp_path / "kept.columns" / "frames.npy"
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(bytes(content))
    assert "not those that were written" in describe(load(tmp_path / "kept.columns")).errors[0]


def test_a_newer_folder_is_refused(tmp_path: Path) -> None:
    write(corridor.demonstrations(2), tmp_path / "a.columns")
    about = tmp_path / "a.columns" / "columns.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "version": 2}))
    with pytest.raises(UserError, match="is of version 2; update calql"):
        load(tmp_path / "a.columns")


def test_a_folder_that_cannot_be_finished_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(UserError, match="cannot be written"):
        write(corridor.demonstrations(2), tmp_path / "a.columns")
    assert list(tmp_path.iterdir()) == []
