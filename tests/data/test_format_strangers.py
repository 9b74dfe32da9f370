"""What the libraries of the formats would do with a stranger's file, and are kept from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr
from format_samples import TABLE, as_parquet, as_zarr

import corridor
from calql.data import Dataset, load
from calql.data.parquet_footer import values_of
from calql.system import archives
from calql.system.errors import UserError


@pytest.fixture(scope="module")
def walks() -> Dataset:
    return corridor.demonstrations(6)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGE", 2**20)


def chunk_of(path: Path) -> Path:
    return next(
        file for file in (path / "data/action").rglob("*") if file.name not in ("zarr.json", ".zarray", ".zattrs")
    )


def zarr_with(walks: Dataset, folder: Path, compressors: Any, version: int = 2) -> Path:
    group = zarr.open_group(folder / "made.zarr", mode="w", zarr_format=version)  # type: ignore[arg-type]
    for name, values in {"action": walks.actions, "state": walks.observations, "reward": walks.rewards}.items():
        group.create_array(f"data/{name}", data=values, compressors=compressors)
    group.create_array("data/terminal", data=walks.terminals, compressors=compressors)
    group.create_array("meta/episode_ends", data=walks.episode_ends + 1, compressors=compressors)
    return folder / "made.zarr"


@pytest.mark.parametrize("packing", ["Blosc", "Zstd", "Zlib", "GZip", "LZ4", "none"])
def test_ways_of_packing_in_version_2(packing: str, walks: Dataset, tmp_path: Path) -> None:
    path = zarr_with(walks, tmp_path, None if packing == "none" else getattr(numcodecs, packing)())
    np.testing.assert_array_equal(load(path).actions, walks.actions)


@pytest.mark.parametrize("packing", ["BloscCodec", "ZstdCodec", "GzipCodec", "none"])
def test_ways_of_packing_in_version_3(packing: str, walks: Dataset, tmp_path: Path) -> None:
    made = None if packing == "none" else getattr(zarr.codecs, packing)()
    np.testing.assert_array_equal(load(zarr_with(walks, tmp_path, made, 3)).actions, walks.actions)


@pytest.mark.parametrize("packing", ["Blosc", "Zstd", "Zlib", "GZip", "LZ4", "none"])
def test_a_chunk_that_unpacks_to_more_than_a_chunk(packing: str, walks: Dataset, tmp_path: Path) -> None:
    codec = None if packing == "none" else getattr(numcodecs, packing)()
    path = zarr_with(walks, tmp_path, codec)
    large = np.zeros(2**22, np.uint8)
    chunk_of(path).write_bytes(bytes(large) if codec is None else bytes(codec.encode(large)))
    with pytest.raises(UserError, match="is damaged, or unpacks to more than a chunk"):
        load(path)


def test_a_second_part_behind_a_packed_chunk(walks: Dataset, tmp_path: Path) -> None:
    path = zarr_with(walks, tmp_path, numcodecs.GZip())
    with chunk_of(path).open("ab") as file:
        file.write(gzip.compress(bytes(2**22)))
    with pytest.raises(UserError, match="is damaged, or unpacks to more than a chunk"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"filters": [{"id": "pickle"}]},
        {"compressor": {"id": "pickle"}},
        {"dtype": "|O"},
        {"dtype": [["a", "<f4"]]},
        {"chunks": [0, 1]},
        {"shape": [-1, 1]},
    ],
)
def test_zarr_descriptions_that_are_refused(change: dict[str, Any], walks: Dataset, tmp_path: Path) -> None:
    path = as_zarr(walks, tmp_path)
    file = path / "data/action/.zarray"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UserError, match=r"not unpacked|not numbers|makes no sense"):
        load(path)


def test_a_footer_that_ends_the_librarys_process(walks: Dataset, tmp_path: Path) -> None:
    """Its counts are read here, and not by asking the library for the metadata of a column."""
    path = as_parquet(walks, tmp_path)
    rows, values = values_of(path)
    metadata = pyarrow.parquet.read_metadata(path)
    assert rows == metadata.num_rows == len(walks)
    wanted: dict[str, int] = {}
    for index in range(metadata.num_columns):
        column = metadata.row_group(0).column(index)
        name = column.path_in_schema.partition(".")[0]
        wanted[name] = wanted.get(name, 0) + column.num_values
    assert values == wanted


def test_long_lists_are_counted_value_by_value(tmp_path: Path) -> None:
    """One row of four million zeros takes a few bytes in the file."""
    zeros = pa.array([np.zeros(2**22, np.float32)] * 2)
    table = pa.table({"episode": [0, 0], "reward": [0.0, 1.0], "action": [[0.0], [1.0]], "observation": zeros})
    pyarrow.parquet.write_table(table, tmp_path / "long.parquet")
    assert (tmp_path / "long.parquet").stat().st_size < 100_000
    with pytest.raises(UserError, match="unpacks from"):
        load(tmp_path / "long.parquet")


def test_a_long_name_in_every_row_is_kept_once(walks: Dataset, tmp_path: Path) -> None:
    path = as_parquet(walks, tmp_path)
    table = pyarrow.parquet.read_table(path)
    names = [f"{value} {'x' * 100_000}" for value in table["run"].to_pylist()]
    pyarrow.parquet.write_table(table.set_column(table.column_names.index("run"), "run", pa.array(names)), path)
    assert len(load(path, TABLE).episode_ends) == 6
