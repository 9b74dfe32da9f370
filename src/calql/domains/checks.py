"""What a domain's `check.py` is made of: measured quantities with their limits, and predicted steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Dataset, Ints

Predictor = Callable[[NDArray[Any], NDArray[Any]], tuple[NDArray[Any], float, bool]]  # o, a -> o', r, terminal


@dataclass(frozen=True)
class Check:
    """One measured quantity and the most (or least) it may be."""

    what: str
    value: float
    limit: float
    at_least: bool = False
    detail: str = ""

    @property
    def passed(self) -> bool:
        if np.isnan(self.value):
            return False
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        bound = f"{'at least' if self.at_least else 'at most'} {self.limit:g}"
        line = f"{'ok  ' if self.passed else 'FAIL'}  {self.what}: {self.value:.6g} ({bound})"
        return f"{line}  {self.detail}" if self.detail else line


@dataclass(frozen=True)
class Recording:
    """What is certified: the transitions, and the file they came from where a domain needs more of it."""

    dataset: Dataset
    path: Path | None = None


@dataclass(frozen=True)
class Certifier:
    """A domain's way to check a recording; shapes are compared before it is asked."""

    observation: tuple[int, ...]
    action: tuple[int, ...]
    check: Callable[[Recording], Sequence[Check]]
    read: Callable[[Path], Dataset | None] = lambda path: None  # files of a layout that only the domain knows


@dataclass(frozen=True)
class Drift:
    """How one predicted step differs from the recorded one, row by row."""

    rows: Ints
    state: NDArray[np.float64]  # [row, feature], absolute
    reward: NDArray[np.float64]  # [row], absolute
    terminal: NDArray[np.bool_]  # [row], predicted as recorded


def one_step_drift(dataset: Dataset, predict: Predictor, rows: Ints) -> Drift:
    """Predict one step from each of the given recorded rows."""
    state, reward, terminal = [], [], []
    for row in rows:
        following, earned, ended = predict(dataset.observations[row], dataset.actions[row])
        state.append(np.abs(following - dataset.next_observations[row].astype(np.float64)))
        reward.append(abs(earned - float(dataset.rewards[row])))
        terminal.append(ended == bool(dataset.terminals[row]))
    return Drift(rows, np.asarray(state), np.asarray(reward), np.asarray(terminal, bool))


def spread_rows(count: int, most: int) -> Ints:
    """At most `most` row numbers, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
