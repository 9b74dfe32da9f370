"""Parquet tables: one row a step, columns by what they are called or by `--columns`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.arrow_tables import ABOUT, about, arrays_of, is_text, leaf_width
from calql.data.assemble import assemble
from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset, Part
from calql.data.flat import flat_recording, wanted
from calql.data.formats.base import Format, begins
from calql.data.parquet_footer import MAGIC, values_of
from calql.data.reading import AS_IT_IS, Reading
from calql.data.write import by_part, written
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError
from calql.system.extras import Extra

pa = Extra("pyarrow", "a Parquet file")
parquet = Extra("pyarrow.parquet", "a Parquet file")

SHAPES = "shapes"  # in the note that a written table has


def read_parquet(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """Only the columns that have a role are read."""
    table = read_columns(path, lambda names: wanted(names, reading, str(path)))
    arrays = arrays_of(table, str(path), _shapes(table.schema))
    made = assemble(flat_recording(arrays, reading, str(path)), reading, str(path), on_problem)
    return made if reading.chooses else replace(made, parts=_parts(table.schema) or made.parts)


def read_columns(path: Path, choose: Callable[[list[str]], list[str]]) -> Any:
    """A table of the columns that are chosen among all names; what they unpack to is known before they are."""
    rows, values = values_of(path)
    with opened(path) as file:
        names = choose(list(file.schema_arrow.names))
        kinds = {name: file.schema_arrow.field(name).type for name in names}
        require_room(sum(max(values.get(n, 0), rows) * leaf_width(kind) for n, kind in kinds.items()), path)
    texts = [name for name, kind in kinds.items() if is_text(kind)]
    with opened(path, read_dictionary=texts) as file:  # a text that stands in every row is kept once
        table = file.read(columns=names)
        table.validate(full=True)
        return table


def batches(path: Path, name: str, rows: int) -> Iterator[list[Any]]:
    """The values of one column, so many rows at a time: pictures are large, and one may stand in many rows."""
    with opened(path) as file:
        if name not in file.schema_arrow.names:
            raise UserError(f"has no column '{name}'", where=str(path), mend=AGAIN)
        for batch in file.iter_batches(batch_size=rows, columns=[name]):
            yield batch.column(0).to_pylist()


@contextmanager
def opened(path: Path, **how: Any) -> Iterator[Any]:
    """A Parquet file to read; whatever its damage makes the library raise is told in one line."""
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True, **how) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise UserError(f"is not a whole Parquet file ({_first_line(error)})", where=str(path), mend=AGAIN) from None


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


def _parts(schema: Any) -> tuple[Part, ...]:
    """What observations were put together from before they were written here."""
    try:
        return tuple(Part(str(name), int(start), int(stop)) for name, start, stop in about(schema).get("parts", ()))
    except (TypeError, ValueError):
        return ()


def write_parquet(dataset: Dataset, path: Path) -> Path:
    """Under the names that are known without a map of columns; there whole or not at all."""
    episode = np.repeat(np.arange(len(dataset.episode_ends)), dataset.episode_lengths)
    seen = by_part(dataset, "observations", "observation")
    after = by_part(dataset, "next_observations", "next_observation")
    columns = {
        "episode": pa.array(episode),
        **{name: _listed(values) for name, values in seen.items()},
        "action": _listed(dataset.actions),
        "reward": pa.array(dataset.rewards),
        **{name: _listed(values) for name, values in after.items()},
        "terminal": pa.array(dataset.terminals),
        "timeout": pa.array(dataset.truncated),
    }
    shapes = {name: list(values.shape[1:]) for name, values in (seen | after).items()}
    note = {SHAPES: shapes, "parts": () if dataset.layout else dataset.parts}
    table = pa.table(columns).replace_schema_metadata({ABOUT: json.dumps(note).encode()})
    with written(path) as file:
        parquet.write_table(table, file)
    return path


def _listed(values: NDArray[Any]) -> Any:
    """Rows as lists; one number a row as it is."""
    if values.ndim == 1:
        return pa.array(values)
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
