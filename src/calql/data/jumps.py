"""Logged episodes cut where the recording jumps: the next row does not go on from this one's next observation.

For data whose flags miss some ends. CORL cuts so before it sums returns; the authors trust the flags.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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
        gap = data.next_observations[rows].astype(np.float32) - data.observations[rows + 1].astype(np.float32)
        found[rows] = np.linalg.norm(gap.reshape(len(gap), -1), axis=1) > TOLERANCE
    return found


def _stored_apart(data: Dataset) -> Ints:
    """Rows that are to be compared: of a file that holds both observations once, where they are the same is known."""
    now, after = data.observations, data.next_observations
    rows = np.arange(len(data) - 1)
    if not (isinstance(now, Stored) and isinstance(after, Stored) and now.source is after.source):
        return rows
    return rows[after.places[:-1] != now.places[1:]]
