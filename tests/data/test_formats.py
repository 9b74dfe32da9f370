"""Every format, by one harness: what is written is read back, and what is bad is one line, whatever it is."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from format_samples import SAMPLES, Sample, sample
from recordings import same_arrays

import corridor
from calql.data import Dataset, Reading, describe, load, sources, write
from calql.data.formats import FORMATS
from calql.data.load import format_of
from calql.system.errors import UserError

NAMES = list(FORMATS)


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "made" / "store"))


@pytest.fixture(scope="module")
def walks() -> Dataset:
    """Six episodes, of which two are cut off; an episode earns its reward where it ends."""
    data = corridor.demonstrations(6)
    terminals = data.terminals.copy()
    terminals[data.episode_ends[[2, 4]]] = False
    truncated = ~terminals & data.terminals
    return Dataset(
        np.concatenate([data.observations, np.cumsum(data.observations, 0) / 100], 1),
        data.actions,
        data.rewards * terminals,
        np.concatenate([data.next_observations, np.cumsum(data.observations, 0) / 100], 1),
        terminals,
        truncated,
    )


def in_sequence(data: Dataset) -> Dataset:
    """Each next observation is the following row's, as formats need that store observations once."""
    following = data.next_observations.copy()
    inside = np.flatnonzero(~(data.terminals | data.truncated))
    following[inside] = data.observations[inside + 1]
    return Dataset(data.observations, data.actions, data.rewards, following, data.terminals, data.truncated)


def made(name: str, data: Dataset, folder: Path) -> tuple[Sample, Path]:
    chosen = sample(name)
    return chosen, chosen.write(in_sequence(data), folder / "made")


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name: str, walks: Dataset, tmp_path: Path) -> None:
    chosen, path = made(name, walks, tmp_path)
    assert format_of(path) is FORMATS[name]
    read, wanted = load(path, chosen.reading), in_sequence(walks)
    if not chosen.after_terminal:  # nothing follows a terminal step; what stands there is never looked at
        wanted.next_observations[wanted.terminals] = wanted.observations[wanted.terminals]
    same_arrays(read, wanted)
    assert read.source == str(path)
    assert describe(read).errors == ()


@pytest.mark.parametrize("name", NAMES)
def test_the_name_says_nothing(name: str, walks: Dataset, tmp_path: Path) -> None:
    chosen, path = made(name, walks, tmp_path)
    other = path.rename(tmp_path / "data.bin")
    assert len(load(other, chosen.reading)) == len(walks)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.99])
@pytest.mark.parametrize("name", NAMES)
def test_cut_off(name: str, share: float, walks: Dataset, tmp_path: Path) -> None:
    """Every file in turn: the dataset is refused in one line, or the file was not needed."""
    chosen, path = made(name, walks, tmp_path)
    whole, refused = load(path, chosen.reading), 0
    for file in files(path):
        content = file.read_bytes()
        if len(content) < 3:
            continue
        file.write_bytes(content[: int(len(content) * share)])
        read = read_or_refused(path, chosen.reading)
        if read is None:
            refused += 1
        elif chosen.sees_cuts:
            same_arrays(read, whole)
        file.write_bytes(content)
    assert refused or not chosen.sees_cuts


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes(name: str, walks: Dataset, tmp_path: Path) -> None:
    """Anywhere in any file: read, with other numbers if need be, or refused in one line; never anything else."""
    chosen, path = made(name, walks, tmp_path)
    rng = np.random.default_rng(0)
    for file in files(path):
        content = file.read_bytes()
        for _ in range(8 if len(files(path)) > 4 else 40):
            raw = np.frombuffer(content, np.uint8).copy()
            if len(raw):
                raw[rng.integers(0, len(raw), 3)] = rng.integers(0, 256, 3)
            file.write_bytes(raw.tobytes())
            read_or_refused(path, chosen.reading)
        file.write_bytes(content)


@pytest.mark.parametrize("name", NAMES)
def test_links_in_a_folder_are_not_followed(name: str, walks: Dataset, tmp_path: Path) -> None:
    chosen, path = made(name, walks, tmp_path)
    if path.is_file():
        pytest.skip("one file; a link to it is what the user named")
    for file in files(path):
        outside = tmp_path / "outside"
        shutil.move(file, outside)
        file.symlink_to(outside)
        with pytest.raises(UserError, match="is a link, which is not followed"):
            load(path, chosen.reading)
        file.unlink()
        shutil.move(outside, file)
    assert len(load(path, chosen.reading)) == len(walks)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_column_is_told_with_the_known_ones(name: str, walks: Dataset, tmp_path: Path) -> None:
    _, path = made(name, walks, tmp_path)
    with pytest.raises(UserError, match=r"no column is called 'no_such'|have no key 'no_such'"):
        load(path, sample(name).reading.__class__(observations=("no_such",)))


@pytest.mark.parametrize("name", NAMES)
def test_columns_that_are_left_on_disk_are_the_same(
    name: str, walks: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `convert` reads, with columns of any size taken for large; nothing is left of what was unpacked."""
    chosen, path = made(name, walks, tmp_path)
    whole = load(path, chosen.reading).in_memory()
    monkeypatch.setattr(sources, "LARGE", -1)
    left = load(path, replace(chosen.reading, scratch=str(tmp_path / "scratch")))
    assert left.stored == (name in ("npz", "hdf5", "zarr", "columns"))  # the others put vectors together
    write(left, tmp_path / "left.columns")
    same_arrays(load(tmp_path / "left.columns").in_memory(), whole)
    assert not list((tmp_path / "scratch").glob("*"))


@pytest.mark.parametrize("target", ["a.npz", "a.hdf5", "a.parquet", "a.columns", "minari:tests/again-v0"])
@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_is_converted_to_those_that_are_written(
    name: str, target: str, walks: Dataset, tmp_path: Path
) -> None:
    read = load(SAMPLES[name].write(in_sequence(walks), tmp_path), SAMPLES[name].reading)
    place = target if ":" in target else str(tmp_path / target)
    write(read, place)
    again = load(place)
    same_arrays(again, read)
    if place.endswith((".parquet", ".columns")):
        assert again.parts == read.parts
    with pytest.raises(UserError, match="exists already"):
        write(read, place)


def test_names_that_no_format_is_written_under(walks: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"end it in \.columns, .*\.npz, .*\.parquet.*or give minari:NAME"):
        write(walks, tmp_path / "a.zarr")


def read_or_refused(path: Path, reading: Reading) -> Dataset | None:
    """None where it is refused, in one line; any other exception is a defect."""
    try:
        return load(path, reading, on_problem=lambda error: None)
    except UserError as error:
        if "\n" in str(error):
            raise AssertionError(f"more than a line: {error}") from error
        return None


def files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(Path(place, name) for place, _, names in os.walk(path) for name in names)


def choices(data: Dataset, **masks: np.ndarray) -> Dataset:
    """The same steps with one of three actions in each."""
    return replace(data, actions=np.arange(len(data), dtype=np.int64) % 3, **masks)


@pytest.mark.parametrize(
    "target", ["made.npz", "made.hdf5", "made.parquet", "made.columns", "minari:me/choices/made-v0"]
)
def test_discrete_actions_stay_what_they_are(target: str, walks: Dataset, tmp_path: Path) -> None:
    path = target if target.startswith("minari:") else str(tmp_path / target)
    data = choices(in_sequence(walks))
    write(data, path)
    found = load(path)
    assert found.discrete
    np.testing.assert_array_equal(found.actions, data.actions)


def test_masks_are_kept_or_refused(walks: Dataset, tmp_path: Path) -> None:
    allowed = np.ones((len(walks), 3), np.bool_)
    allowed[::2, 1] = np.arange(len(walks))[::2] % 3 == 1
    data = choices(in_sequence(walks), action_masks=allowed, next_action_masks=np.ones_like(allowed))
    for name in ("made.npz", "made.hdf5", "made.columns"):
        write(data, tmp_path / name)
        np.testing.assert_array_equal(load(tmp_path / name).action_masks, allowed)
    with pytest.raises(UserError, match=r"cannot keep masks of actions; end it in one of \.columns, \.npz"):
        write(data, tmp_path / "made.parquet")
    assert not (tmp_path / "made.parquet").exists()
