"""Parquet tables: one row a step, columns by what they are called or by `--columns`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.arrow_tables import ABOUT, about, arrays_of, leaf_width
from calql.data.assemble import assemble
from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset
from calql.data.flat import flat_recording, wanted
from calql.data.formats.base import Format, begins
from calql.data.reading import AS_IT_IS, Reading
from calql.data.write import written
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError
from calql.system.extras import Extra

pa = Extra("pyarrow", "a Parquet file")
parquet = Extra("pyarrow.parquet", "a Parquet file")

MAGIC = b"PAR1"
SHAPES = "shapes"  # in the note that a written table has


def read_parquet(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """Only the columns that have a role are read."""
    table = read_columns(path, lambda names: wanted(names, reading, str(path)))
    arrays = arrays_of(table, str(path), _shapes(table.schema))
    return assemble(flat_recording(arrays, reading, str(path)), reading, str(path), on_problem)


def read_columns(path: Path, choose: Any) -> Any:
    """A table of the columns that are chosen among all names; what they unpack to is known before they are."""
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            names = choose(list(file.schema_arrow.names))
            _require_room(file, names, path)
            return file.read(columns=names)
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise UserError(f"is not a whole Parquet file ({_first_line(error)})", where=str(path), mend=AGAIN) from None


def _require_room(file: Any, names: list[str], path: Path) -> None:
    """Runs of one value take no bytes in the file: what counts is how many values there are."""
    kinds = {name: file.schema_arrow.field(name).type for name in names}
    total = 0
    for group in range(file.metadata.num_row_groups):
        row_group = file.metadata.row_group(group)
        for index in range(row_group.num_columns):
            column = row_group.column(index)
            top = column.path_in_schema.partition(".")[0]
            name = column.path_in_schema if column.path_in_schema in kinds else top
            if name in kinds:
                total += max(column.num_values * leaf_width(kinds[name]), column.total_uncompressed_size)
    require_room(total, path)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


def _shapes(schema: Any) -> dict[str, tuple[int, ...]]:
    """Of images, which a table holds as lists."""
    found = about(schema).get(SHAPES, {})
    shapes = found.items() if isinstance(found, dict) else ()
    return {
        str(name): tuple(shape)
        for name, shape in shapes
        if isinstance(shape, list) and all(isinstance(side, int) and side > 0 for side in shape)
    }


def write_parquet(dataset: Dataset, path: Path) -> Path:
    """Under the names that are known without a map of columns; there whole or not at all."""
    episode = np.repeat(np.arange(len(dataset.episode_ends)), dataset.episode_lengths)
    columns = {
        "episode": pa.array(episode),
        "observation": _listed(dataset.observations),
        "action": _listed(dataset.actions),
        "reward": pa.array(dataset.rewards),
        "next_observation": _listed(dataset.next_observations),
        "terminal": pa.array(dataset.terminals),
        "timeout": pa.array(dataset.truncated),
    }
    shape = list(dataset.observations.shape[1:])
    note = {SHAPES: {"observation": shape, "next_observation": shape}, "parts": dataset.parts}
    table = pa.table(columns).replace_schema_metadata({ABOUT: json.dumps(note).encode()})
    with written(path) as file:
        parquet.write_table(table, file)
    return path


def _listed(values: NDArray[Any]) -> Any:
    flat = np.ascontiguousarray(values).reshape(len(values), -1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])


FORMAT = Format(
    summary="Parquet table",
    sniff=lambda path: begins(path, 4) == MAGIC,
    read=read_parquet,
    write=write_parquet,
    suffixes=(".parquet", ".pq"),
    general=True,
)
