"""Bad datasets of every format: each kind of mistake, made in each format, is told in one line that names it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import zarr
from format_samples import (
    SAMPLES,
    TABLE,
    as_arrow,
    as_csv,
    as_lerobot,
    as_parquet,
    as_rlds,
    as_robomimic,
    as_zarr,
    record,
)

import corridor
from calql.data import Dataset, Reading, findings, load, write_minari
from calql.data.findings import episode_faults
from calql.data.formats import FORMATS
from calql.data.formats.column_folder import write_columns
from calql.data.write import d4rl_columns
from calql.system import archives
from calql.system.errors import UserError

Make = Callable[[Dataset, Path], Path]


def without(key: str) -> Callable[[dict[str, Any]], None]:
    def change(columns: dict[str, Any]) -> None:
        del columns[key]

    return change


def words(columns: dict[str, Any]) -> None:
    columns["action"] = np.full(columns["action"].shape, "left")


def short(columns: dict[str, Any]) -> None:
    columns["action"] = columns["action"][:-2]


def npz(change: Callable[[dict[str, Any]], None]) -> Make:
    def make(data: Dataset, folder: Path) -> Path:
        columns = d4rl_columns(data)
        change(columns)
        np.savez(folder / "bad.npz", **columns)  # type: ignore[arg-type]
        return folder / "bad.npz"

    return make


def hdf5(change: Callable[[dict[str, Any]], None]) -> Make:
    def make(data: Dataset, folder: Path) -> Path:
        columns: dict[str, Any] = d4rl_columns(data)
        change(columns)
        with h5py.File(folder / "bad.hdf5", "w") as file:
            for name, values in columns.items():
                file[name] = values.astype("S") if np.asarray(values).dtype.kind == "U" else values
        return folder / "bad.hdf5"

    return make


def d4rl(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def renamed(columns: dict[str, Any]) -> None:
        columns["action"] = columns.pop("actions")
        change(columns)
        if "action" in columns:
            columns["actions"] = columns.pop("action")

    return renamed


def minari(change: Callable[[h5py.Group], None]) -> Make:
    def make(data: Dataset, folder: Path) -> Path:
        write_minari(data, "tests/bad-v0")
        path = folder / "store" / "tests" / "bad-v0"
        with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
            change(file["episode_1"])
        return path

    return make


def _replaced(group: h5py.Group, values: Any) -> None:
    del group["actions"]
    if values is not None:
        group["actions"] = values


def changing(write: Callable[..., Path], change: Callable[[dict[str, Any]], None]) -> Make:
    return lambda data, folder: write(data, folder, change)


def dropped(write: Callable[..., Path], edit: Callable[[Path], None]) -> Make:
    """The good sample, then changed as a file."""

    def make(data: Dataset, folder: Path) -> Path:
        path = write(data, folder)
        edit(path)
        return path

    return make


def _table_without(path: Path) -> None:
    table = pyarrow.parquet.read_table(path).drop_columns(["action_0"])
    pyarrow.parquet.write_table(table, path)


def _feather_without(path: Path) -> None:
    pyarrow.feather.write_feather(pyarrow.feather.read_table(path).drop_columns(["action_0"]), path)


def _csv_without(path: Path) -> None:
    path.write_text(path.read_text().replace("action_0", "other_0", 1))


def _lerobot_without(path: Path) -> None:
    file = path / "data/chunk-000/file-000.parquet"
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(file).drop_columns(["action"]), file)


def _zarr_without(path: Path) -> None:
    import shutil

    shutil.rmtree(path / "data/action")


def _words_in(name: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        table = pyarrow.parquet.read_table(path)
        index = table.column_names.index(name)
        table = table.set_column(index, name, pa.array(["left"] * table.num_rows))
        pyarrow.parquet.write_table(table, path)

    return edit


def _feather_words(path: Path) -> None:
    table = pyarrow.feather.read_table(path)
    index = table.column_names.index("action_0")
    pyarrow.feather.write_feather(table.set_column(index, "action_0", pa.array(["left"] * table.num_rows)), path)


def _csv_words(path: Path) -> None:
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *(line.replace("run-", "x,run-") for line in lines[1:])]))


def _info(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        info = json.loads((path / "meta/info.json").read_text())
        change(info)
        (path / "meta/info.json").write_text(json.dumps(info))

    return edit


def _shorter_zarr(path: Path) -> None:
    group = zarr.open_group(path, mode="a")
    values = group["data/action"][:-2]
    del group["data/action"]
    group.create_array("data/action", data=values)


def _ragged(path: Path) -> None:
    table = pyarrow.parquet.read_table(path / "data/chunk-000/file-000.parquet")
    values = table["action"].to_pylist()
    values[3] = [1.0, 2.0]
    index = table.column_names.index("action")
    table = table.set_column(index, "action", pa.array(values, pa.list_(pa.float32())))
    pyarrow.parquet.write_table(table, path / "data/chunk-000/file-000.parquet")


# Kind of mistake -> format -> how it is made, and what is said. Rows of a table have one length by their nature.
def columns(edit: Callable[[Path], None]) -> Make:
    """A folder of columns with one of them changed."""
    return dropped(lambda data, folder: write_columns(data, folder / "bad.columns"), edit)


def _npy_hollow(path: Path) -> None:
    """Of a shape that is not that of its content."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**40,)})


BAD: dict[str, dict[str, tuple[Make, str]]] = {
    "missing": {
        "columns": (columns(lambda p: (p / "actions.npy").unlink()), "is no whole .npy file"),
        "npz": (npz(d4rl(without("action"))), "no 'actions' among its keys"),
        "hdf5": (hdf5(d4rl(without("action"))), "no 'actions' among its keys"),
        "minari": (minari(lambda group: _replaced(group, None)), "cannot be read"),
        "robomimic": (dropped(as_robomimic, lambda p: _h5_delete(p, "data/demo_1/actions")), "has no 'actions'"),
        "lerobot": (dropped(as_lerobot, _lerobot_without), "no column says that it is the action"),
        "rlds": (changing(as_rlds, lambda c: c.update(action=None)), "no column says that it is the action"),
        "zarr": (dropped(as_zarr, _zarr_without), "no column says that it is the action"),
        "parquet": (dropped(as_parquet, _table_without), "no column is called 'action_"),
        "arrow": (dropped(as_arrow, _feather_without), "no column is called 'action_"),
        "csv": (dropped(as_csv, _csv_without), "no column is called 'action_"),
    },
    "text": {
        "columns": (columns(lambda p: np.save(p / "rewards.npy", np.array(["left"] * 69))), "is no whole .npy file"),
        "npz": (npz(d4rl(words)), "not numbers"),
        "hdf5": (hdf5(d4rl(words)), "not numbers"),
        "minari": (minari(lambda group: _replaced(group, np.full((5, 1), b"left"))), "not numbers|cannot be read"),
        "robomimic": (
            dropped(as_robomimic, lambda p: _h5_set(p, "data/demo_1/actions", np.full((5, 1), b"left"))),
            "not numbers|'actions' holds",
        ),
        "lerobot": (
            dropped(as_lerobot, lambda p: _words_in("action")(p / "data/chunk-000/file-000.parquet")),
            "not numbers",
        ),
        "rlds": (changing(as_rlds, words), "not numbers|no column says|columns of different"),
        "zarr": (changing(as_zarr, words), "not numbers"),
        "parquet": (dropped(as_parquet, _words_in("action_0")), "'action_0' holds text, not numbers"),
        "arrow": (dropped(as_arrow, _feather_words), "'action_0' holds text, not numbers"),
        "csv": (
            dropped(as_csv, lambda p: p.write_text(p.read_text().replace("True", "x")) and _csv_left(p)),
            "not numbers",
        ),
    },
    "lengths": {
        "columns": (columns(lambda p: np.save(p / "rewards.npy", np.zeros(3, "f4"))), "does not go with the rest"),
        "npz": (npz(d4rl(short)), "lengths disagree"),
        "hdf5": (hdf5(d4rl(short)), "lengths disagree"),
        "minari": (minari(lambda group: _replaced(group, group["actions"][:-2])), "columns of different lengths"),
        "robomimic": (changing(as_robomimic, short), r"columns of different lengths .*\(episode demo_1\)"),
        "lerobot": (dropped(as_lerobot, _ragged), "'action' has 2 numbers in row 3 and others 1"),
        "rlds": (changing(as_rlds, short), r"columns of different lengths \('action' .*\(episode 1\)"),
        "zarr": (dropped(as_zarr, _shorter_zarr), "'meta/episode_ends' goes to row"),
    },
    "hostile": {
        "columns": (columns(lambda p: np.save(p / "rewards.npy", np.array([{}] * 69))), "is no whole .npy file"),
        "npz": (npz(lambda c: c.update(rewards=np.array([{}] * 4, object))), "never loaded"),
        "hdf5": (
            dropped(hdf5(lambda c: None), lambda p: _h5_link(p, "rewards")),
            "is a link to .*, which is not followed",
        ),
        "minari": (minari(lambda g: _link_in(g)), "is a link to .*, which is not followed"),
        "robomimic": (
            dropped(as_robomimic, lambda p: _h5_link(p, "data/demo_1/actions")),
            "is a link to .*, which is not followed",
        ),
        "lerobot": (
            dropped(as_lerobot, _info(lambda i: i["features"].update({"../../secret": i["features"]["action"]}))),
            "describes a feature '../../secret' that makes no sense",
        ),
        "rlds": (
            dropped(as_rlds, lambda p: (p / "features.json").write_text("[" * 100_000) and None),
            "cannot be read|is not a JSON object",
        ),
        "zarr": (dropped(as_zarr, lambda p: _zarr_says(p, dtype="|O", filters=[{"id": "pickle"}])), "not numbers"),
        "parquet": (
            dropped(as_parquet, lambda p: p.write_bytes(b"PAR1" + bytes(99) + b"PAR1") and None),
            "is not a whole",
        ),
        "arrow": (dropped(as_arrow, lambda p: p.write_bytes(b"ARROW1\0\0" + bytes(99)) and None), "is not a whole"),
        "csv": (dropped(as_csv, lambda p: p.write_text("a,a\n1,2\n") and None), "two columns are called 'a'"),
    },
    "bomb": {
        "columns": (columns(lambda p: _npy_hollow(p / "rewards.npy")), "its shape is not that of its content"),
        "npz": (lambda data, folder: _npz_bomb(folder), "unpacks from"),
        "hdf5": (dropped(hdf5(lambda c: None), lambda p: _hollow(p, "rewards", (2**22,))), "unpacks from"),
        "minari": (minari(lambda g: _replaced(g, None) or _hollow_in(g)), "unpacks from"),
        "robomimic": (dropped(as_robomimic, lambda p: _hollow(p, "data/demo_1/actions", (2**22, 1))), "unpacks from"),
        "lerobot": (dropped(as_lerobot, lambda p: _long_column(p / "data/chunk-000/file-000.parquet")), "unpacks from"),
        "rlds": (lambda data, folder: _long_record(folder), "the file is cut short"),
        "zarr": (dropped(as_zarr, lambda p: _zarr_says(p, shape=[2**40, 1])), "episode_ends|memory|unpacks from"),
        "parquet": (lambda data, folder: _long_column(folder / "long.parquet"), "unpacks from"),
        "arrow": (lambda data, folder: _long_feather(folder / "long.feather"), "unpacks from"),
    },
}


def _h5_delete(path: Path, name: str) -> None:
    with h5py.File(path, "a") as file:
        del file[name]


def _h5_set(path: Path, name: str, values: Any) -> None:
    with h5py.File(path, "a") as file:
        del file[name]
        file[name] = values


def _h5_link(path: Path, name: str) -> None:
    _h5_set(path, name, h5py.ExternalLink("/etc/hostname", "/x"))


def _link_in(group: h5py.Group) -> None:
    del group["actions"]
    group["actions"] = h5py.ExternalLink("/etc/hostname", "/x")


def _hollow(path: Path, name: str, shape: tuple[int, ...]) -> None:
    with h5py.File(path, "a") as file:
        del file[name]
        file.create_dataset(name, shape, np.float32, chunks=(2**10, *shape[1:]))


def _hollow_in(group: h5py.Group) -> None:
    group.create_dataset("actions", (2**22, 1), np.float32, chunks=(2**10, 1))


def _csv_left(path: Path) -> None:
    header, *lines = path.read_text().splitlines()
    place = header.split(",").index("action_0")
    rows = [line.split(",") for line in lines]
    path.write_text("\n".join([header, *(",".join([*r[:place], "left", *r[place + 1 :]]) for r in rows)]))


def _zarr_says(path: Path, **changes: Any) -> None:
    file = path / "data/action/.zarray"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def _npz_bomb(folder: Path) -> Path:
    names = ("observations", "actions", "rewards", "terminals")
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            with archive.open(f"{name}.npy", "w") as file:
                header = {"descr": "|u1", "fortran_order": False, "shape": (2**22,)}
                np.lib.format.write_array_header_1_0(file, header)
                file.write(bytes(2**22))
    return folder / "bomb.npz"


def _long_column(path: Path) -> Path:
    """Four million times the same number, in a few bytes."""
    names = (
        pyarrow.parquet.read_schema(path).names
        if path.exists()
        else ["reward", "run", "observation_0", "action_0", "next_observation_0"]
    )
    values = np.zeros(2**22, np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), 1)
    kinds = {"action": lists, "observation.state": lists}
    table = pa.table({name: kinds.get(name, pa.array(values)) for name in names})
    pyarrow.parquet.write_table(table, path, compression="zstd")
    return path


def _long_feather(path: Path) -> Path:
    values = pa.array(np.zeros(2**22, np.float32))
    names = ["reward", "run", "observation_0", "action_0", "next_observation_0"]
    pyarrow.feather.write_feather(pa.table(dict.fromkeys(names, values)), path, compression="zstd")
    return path


def _long_record(folder: Path) -> Path:
    """A record that says it is longer than any memory."""
    path = folder / "long.tfrecord"
    path.write_bytes(record(b"")[:0] + _header(2**50) + b"x" * 50)
    return path


def _header(length: int) -> bytes:
    from calql.data.tfrecord import masked

    raw = length.to_bytes(8, "little")
    return raw + masked(raw).to_bytes(4, "little")


READINGS = {name: sample.reading for name, sample in SAMPLES.items()} | {"parquet": TABLE}
CASES = [(kind, name) for kind, made in BAD.items() for name in made]


@pytest.fixture(scope="module")
def walks() -> Dataset:
    return corridor.demonstrations(6)


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGE", 2**20)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: str(value))
def test_mistakes(kind: str, name: str, walks: Dataset, tmp_path: Path) -> None:
    """Refused when it is read, or, where it is a matter of single episodes, by the checks of train and inspect."""
    make, said = BAD[kind][name]
    path = make(walks, tmp_path)
    with pytest.raises(UserError, match=said) as raised:
        findings.require_sound(load(path, READINGS.get(name, Reading())), 1000)
    assert "\n" not in str(raised.value)
    assert raised.value.mend


def test_every_format_has_every_kind() -> None:
    missing = {(kind, name) for kind, made in BAD.items() for name in FORMATS if name not in made}
    assert missing == {
        ("lengths", "parquet"), ("lengths", "arrow"), ("lengths", "csv"),  # rows of a table are of one length
        ("bomb", "csv"),  # text unpacks to a few times its size
    }  # fmt: skip


# Bad episodes


def with_nan(columns: dict[str, Any]) -> None:
    columns["observation"] = columns["observation"].copy()
    columns["observation"][1] = np.nan


@pytest.mark.parametrize("name", SAMPLES)
def test_bad_episodes_are_told_and_dropped(name: str, walks: Dataset, tmp_path: Path) -> None:
    chosen = SAMPLES[name]
    path = chosen.write(walks, tmp_path, with_nan)
    with pytest.raises(UserError, match=r"'observations' holds \d NaN value"):
        load(path, chosen.reading)
    left = load(path, replace(chosen.reading, drop_bad_episodes=True))
    assert len(left.episode_ends) == 5
    called = {"robomimic": "demo_1", "csv": "run-1", "arrow": "run-1"}.get(name, "1")
    assert f"1 of 6 episodes dropped: NaN or inf in 'observations' (episode {called})" in left.notes
    assert findings.findings(left).errors == ()
    kept = walks.select_episodes([0, 2, 3, 4, 5])
    np.testing.assert_array_equal(left.observations, kept.observations)


def test_time_that_goes_backwards(walks: Dataset, tmp_path: Path) -> None:
    path = as_lerobot(walks, tmp_path)
    file = path / "data/chunk-000/file-000.parquet"
    table = pyarrow.parquet.read_table(file)
    time = np.array(table["timestamp"]).copy()
    time[walks.episode_ends[2]] = 0.0
    pyarrow.parquet.write_table(
        table.set_column(table.column_names.index("timestamp"), "timestamp", pa.array(time)), file
    )
    read = load(path)
    assert [(f.name, f.what) for f in episode_faults(read)] == [("2", "'timestamp' goes backwards")]
    with pytest.raises(
        UserError, match=r"1 of 6 episodes is bad: 'timestamp' goes backwards \(episode 2\); .*--drop-bad"
    ):
        findings.require_sound(read, 1000)
    assert len(load(path, Reading(drop_bad_episodes=True)).episode_ends) == 5


def test_rows_that_are_missing_of_an_episode(walks: Dataset, tmp_path: Path) -> None:
    path = as_lerobot(walks, tmp_path)
    file = path / "data/chunk-000/file-000.parquet"
    table = pyarrow.parquet.read_table(file)
    at = int(walks.episode_starts[3]) + 1
    pyarrow.parquet.write_table(pa.concat_tables([table.slice(0, at), table.slice(at + 1)]), file)
    faults = episode_faults(load(path))
    assert {fault.name for fault in faults} == {"3"}
    assert [fault.what.split("(")[0] for fault in faults] == [
        f"{walks.episode_lengths[3] - 1} rows where meta/episodes says {walks.episode_lengths[3]}",
        "frames missing or out of order ",
    ]


def test_episodes_of_different_shapes(walks: Dataset, tmp_path: Path) -> None:
    path = minari(lambda group: _replaced(group, np.zeros((len(group["actions"]), 3), np.float32)))(walks, tmp_path)
    with pytest.raises(UserError, match=r"'actions' has shapes \(1,\) and \(3,\)|cannot be read"):
        load(path)
    path = as_robomimic(walks, tmp_path)
    _h5_set(path, "data/demo_1/obs/object", np.zeros((walks.episode_lengths[1], 3)))
    with pytest.raises(UserError, match=r"'obs/object' has shape \(1,\) in one demonstration and \(3,\) in another"):
        load(path, Reading(observations=("object",)))


def test_nothing_left(walks: Dataset) -> None:
    bad = replace(walks, rewards=np.full_like(walks.rewards, np.nan))
    with pytest.raises(UserError, match="every one of its 6 episodes is bad: NaN or inf in 'rewards'"):
        findings.without_bad_episodes(bad)


def test_columns_that_never_change_or_were_clipped() -> None:
    rng = np.random.default_rng(0)
    data = corridor.demonstrations(20)
    clipped = np.clip(rng.normal(size=(len(data), 2)), -1, 1).astype(np.float32)
    clipped[:, 1] = rng.normal(size=len(data))
    actions = np.concatenate([data.actions, np.zeros_like(data.actions)], 1)
    observations = np.concatenate([data.observations, clipped], 1)
    seen = replace(data, observations=observations, next_observations=observations, actions=actions)
    warnings = findings.findings(seen).warnings
    assert any(w.startswith("1 action never changes (1)") for w in warnings)
    assert any(w.startswith("1 observation feature (2) stands at the largest or smallest") for w in warnings)


def test_faults_follow_their_episodes(walks: Dataset) -> None:
    from calql.data.dataset import Fault, concatenate

    bad = replace(walks, faults=(Fault(1, "one", "torn"), Fault(4, "four", "torn")))
    assert bad.select_episodes([4, 0]).faults == (Fault(0, "four", "torn"),)
    assert [f.episode for f in concatenate([walks, bad], source="both").faults] == [7, 10]
