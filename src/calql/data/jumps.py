"""Logged episodes cut where the recording jumps: the next row does not go on from this one's next observation.

For data whose flags miss some ends. CORL cuts so before it sums returns; the authors trust the flags.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import counted
from calql.data.dataset import Bools, Dataset, Ints
from calql.data.stored import Stored
from calql.system.walk import chunks

TOLERANCE = 1e-6  # Euclidean distance between the two observations


def split_at_jumps(data: Dataset) -> Dataset:
    """The same rows; a row before a jump ends its episode as truncated."""
    cuts = jumps(data) & ~(data.terminals | data.truncated)
    if not cuts.any():
        return data
    note = f"{counted(int(cuts.sum()), 'episode')} cut where the observation jumps"
    return replace(data, truncated=data.truncated | cuts, notes=(*data.notes, note))


def jumps(data: Dataset) -> Bools:
    """[row]: whether the observation of the following row is another than the one recorded as next."""
    found = np.zeros(len(data), np.bool_)
    apart = _stored_apart(data)
    for part in chunks(data.observations, len(apart)):
        rows = apart[part]
        gap = _as_numbers(data, data.next_observations[rows]) - _as_numbers(data, data.observations[rows + 1])
        found[rows] = np.linalg.norm(gap.reshape(len(gap), -1), axis=1) > TOLERANCE
    return found


def _as_numbers(data: Dataset, rows: NDArray[Any]) -> NDArray[np.float32]:
    """Observations whose distance means something: bytes of packed numbers would not."""
    if data.layout is None:
        return rows.astype(np.float32)
    pictures = rows[:, : data.layout.pictures].astype(np.float32)
    return np.concatenate([pictures, data.layout.vectors_of(rows)], axis=1)


def _stored_apart(data: Dataset) -> Ints:
    """Rows that are to be compared: of a file that holds both observations once, where they are the same is known."""
    now, after = data.observations, data.next_observations
    rows = np.arange(len(data) - 1)
    if not (isinstance(now, Stored) and isinstance(after, Stored) and now.source is after.source):
        return rows
    return rows[after.places[:-1] != now.places[1:]]
