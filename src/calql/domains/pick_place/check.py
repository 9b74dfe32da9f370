"""Whether recorded pick-and-place episodes hang together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calql.data.dataset import Dataset
from calql.domains.checks import Certifier, Check, Recording, spread_rows
from calql.domains.pick_place.env import STEPS

MOST_ROWS = 2000  # looked at when certifying


def check(recording: Recording) -> Sequence[Check]:
    """Images do not tell the state they were taken of, so what can be compared is how episodes hang together."""
    dataset = recording.dataset
    goes_on = ~(dataset.terminals | dataset.truncated)[:-1]
    rows = np.flatnonzero(goes_on)
    rows = rows[spread_rows(len(rows), MOST_ROWS)]
    torn = np.any(dataset.next_observations[rows] != dataset.observations[rows + 1], axis=(1, 2, 3))
    return [
        Check("rows that are rewarded but not terminal or the reverse", _unlike(dataset), 0),
        Check("longest episode", float(dataset.episode_lengths.max()), STEPS),
        Check("share of next images that are not the next row's", float(np.mean(torn)), 0.0),
    ]


def _unlike(dataset: Dataset) -> int:
    return int(((dataset.rewards == 1.0) != dataset.terminals).sum())


CERTIFIERS = {"pick-place": Certifier((48, 48, 3), (4,), check)}
