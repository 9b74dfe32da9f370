"""Arrow tables as arrays: numbers, lists of numbers of one length, and names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.system.errors import UserError
from calql.system.extras import Extra

pa = Extra("pyarrow", "reading tables")
types = Extra("pyarrow.types", "reading tables")

ABOUT = b"calql"  # what this package notes about a table that it wrote


def arrays_of(table: Any, source: str, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, NDArray[Any]]:
    """Every column, as far as it is numbers or names; others are left to whoever asks for them by name."""
    shapes = shapes or {}
    return {
        name: column_values(table.column(index), name, source, shapes.get(name))
        for index, name in enumerate(table.column_names)
    }


def column_values(column: Any, name: str, source: str, shape: Sequence[int] | None = None) -> NDArray[Any]:
    """[row] or [row, ...]; a missing number is NaN, which is found as such later."""
    kind = column.type
    if types.is_dictionary(kind):
        return _named(column)
    if _is_list(kind):
        return _lists(column, name, source, shape)
    if is_text(kind):
        return np.asarray(column.to_pylist(), object)
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind):
        return np.asarray(column.to_numpy(), "int64")
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise UserError(f"'{name}' holds {kind}, not numbers", where=source, mend="choose other columns")
    values = np.asarray(column.to_numpy(zero_copy_only=False)) if column.null_count == 0 else _with_gaps(column)
    if shape and int(np.prod(shape)) != 1:
        raise UserError(f"'{name}' has 1 number a row and not {tuple(shape)}", where=source, mend="write it again")
    return values


def _named(column: Any) -> NDArray[Any]:
    """Names as objects: one that stands in many rows is kept once."""
    parts = []
    for chunk in column.chunks:
        names = np.asarray([*chunk.dictionary.to_pylist(), None], object)
        parts.append(names[np.asarray(chunk.indices.fill_null(len(names) - 1))])
    return np.concatenate(parts) if parts else np.zeros(0, object)


def is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _with_gaps(column: Any) -> NDArray[Any]:
    return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), np.float64)


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _lists(column: Any, name: str, source: str, shape: Sequence[int] | None) -> NDArray[Any]:
    """Lists of one length, also of lists; else which row has another one."""
    if column.null_count:
        raise UserError(f"'{name}' lacks a list in {column.null_count} rows", where=source, mend="fill them in")
    rows = len(column)
    pieces = [_flat(chunk) for chunk in column.chunks if len(chunk)]
    if any(not (types.is_integer(p.type) or types.is_floating(p.type) or types.is_boolean(p.type)) for p in pieces):
        raise UserError(f"'{name}' holds {column.type}, not numbers", where=source, mend="choose other columns")
    if not pieces:
        return np.zeros((0, *(shape or ())))
    values = np.concatenate([p.to_numpy(zero_copy_only=False) for p in pieces])
    width = len(values) // rows
    _require_width(column, width, name, source)
    if shape is not None and int(np.prod(shape)) != width:
        raise UserError(
            f"'{name}' has {width} numbers a row and not {tuple(shape)}", where=source, mend="write it again"
        )
    return values.reshape(rows, *(shape or (width,)))


def _flat(chunk: Any) -> Any:
    while _is_list(chunk.type):
        chunk = chunk.flatten()
    return chunk


def _require_width(column: Any, width: int, name: str, source: str) -> None:
    row = 0
    for chunk in column.chunks:
        if not types.is_fixed_size_list(chunk.type) and not _is_list(chunk.type.value_type):
            lengths = np.asarray(chunk.value_lengths().to_numpy(zero_copy_only=False))
            wrong = np.flatnonzero(lengths != width)
            if len(wrong):
                at = row + int(wrong[0])
                raise UserError(
                    f"'{name}' has {int(lengths[wrong[0]])} numbers in row {at} and others {width}",
                    where=source,
                    mend="lists must have one length",
                )
        row += len(chunk)


def leaf_width(kind: Any) -> int:
    """Bytes that one value takes in memory, at most; names are counted as what they point to."""
    while _is_list(kind):
        kind = kind.value_type
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return 16


def about(schema: Any) -> dict[str, Any]:
    """What this package noted when it wrote the table; nothing of anybody else's is believed."""
    try:
        found = json.loads((schema.metadata or {}).get(ABOUT, b"{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
