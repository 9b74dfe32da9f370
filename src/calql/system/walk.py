"""Columns [row, ...] walked from the first row to the last by chunks, whether they are in memory or on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 2**26  # bytes of a chunk


def chunks(column: Any, rows: int | None = None) -> Iterator[slice]:
    """All rows of a column, or the first so many, by slices of about `AT_ONCE` bytes; at least one row each."""
    count, each = len(column) if rows is None else rows, max(column.nbytes // max(len(column), 1), 1)
    step = max(AT_ONCE // each, 1)
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


def extremes(column: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The least and the largest of each feature over all rows."""
    found = [(column[part].min(axis=0), column[part].max(axis=0)) for part in chunks(column)]
    return np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0)


def moments(
    column: Any, part_of: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each feature, to the bit as NumPy has them for vectors of several features.

    It adds row to row, and so can go on from the sum of the chunks before. `part_of` gives the features of rows, where
    a row holds more.
    """
    total = _summed(column, part_of)
    mean = total / len(column)
    squares = _summed(column, lambda rows: np.square(part_of(rows).astype(np.float64) - mean))
    return mean, np.sqrt(squares / len(column))


def _summed(column: Any, of: Any) -> NDArray[np.float64]:
    total: NDArray[np.float64] | None = None
    for part in chunks(column):
        values = of(column[part]).astype(np.float64)
        total = np.add.reduce(values if total is None else np.concatenate([total[None], values]), axis=0)
    assert total is not None  # a dataset has rows
    return total
