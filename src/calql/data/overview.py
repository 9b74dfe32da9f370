"""A dataset small enough to look at: its episodes in numbers, its features in ranges, its rows in a sample.

What is large is counted over all rows; only what is shown row by row is thinned, always the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Bools, Dataset, Ints
from calql.data.inspect import successes

LEVELS = 255  # that a sampled value is rounded to, between the least and the largest
CODES = 240_000  # values of the sample in all: 320 kB in a page
EXTREMES = 25  # episodes with the most and the least return, and with the most and the fewest steps, each

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Episodes:
    """Every episode in one number a column."""

    totals: Array  # [episode] undiscounted return, as recorded
    lengths: Ints
    terminal: Bools  # the others are cut
    success: Bools | None  # None: rewards do not tell


@dataclass(frozen=True)
class Feature:
    """One number of an observation or of an action over all rows."""

    name: str
    low: float
    from_: float  # 1% lie below
    mean: float
    to: float  # 1% lie above
    high: float
    spread: float  # standard deviation
    at_ends: float  # share of rows at exactly the least or the largest value


@dataclass(frozen=True)
class Sample:
    """Rows evenly spaced over the data, each value as one of 256 steps between the least and the largest."""

    names: Sequence[str]
    low: Array  # [feature]
    high: Array  # [feature]
    codes: NDArray[np.uint8]  # [feature, row]
    rows: int  # of the data


def episodes(dataset: Dataset) -> Episodes:
    totals = np.add.reduceat(dataset.rewards.astype(np.float64), dataset.episode_starts)
    ends = dataset.terminals[dataset.episode_ends]
    return Episodes(np.asarray(totals), dataset.episode_lengths, ends, successes(dataset))


def listed(found: Episodes, suspicious: Collection[int], most: int) -> Ints:
    """The episodes to show, in recorded order: all, or the suspicious, the extreme and some in even steps between."""
    count = len(found.totals)
    if count <= most:
        return np.arange(count)
    by_return, by_length = np.argsort(found.totals, kind="stable"), np.argsort(found.lengths, kind="stable")
    first = [int(each) for order in (by_return, by_length) for each in (*order[:EXTREMES], *order[-EXTREMES:])]
    first += sorted(suspicious)[: most // 2]
    left = max(most - len(set(first)), 0)
    spaced = np.linspace(0, count - 1, left).round().astype(np.int64)
    return np.unique(np.concatenate([np.asarray(first, np.int64), spaced]))


def features(values: NDArray[np.generic], names: Sequence[str]) -> list[Feature]:
    """Of vectors [row, feature], over the values that are finite."""
    return [_feature(name, values[:, place]) for place, name in enumerate(names)]


def _feature(name: str, column: NDArray[np.generic]) -> Feature:
    values = column.astype(np.float64)
    values = values[np.isfinite(values)]
    if not values.size:
        return Feature(name, *[float("nan")] * 7)
    low, high = float(values.min()), float(values.max())
    from_, to = (float(each) for each in np.quantile(values, (0.01, 0.99)))
    at_ends = float(((values == low) | (values == high)).mean())
    return Feature(name, low, from_, float(values.mean()), to, high, float(values.std()), at_ends)


def sample(columns: NDArray[np.generic], names: Sequence[str]) -> Sample:
    """At most `CODES` values of vectors [row, feature]; what is not finite counts as the least."""
    rows = max(CODES // max(len(names), 1), 1)
    chosen = np.unique(np.linspace(0, len(columns) - 1, min(rows, len(columns))).round().astype(np.int64))
    taken = columns[chosen].astype(np.float64)
    finite = np.isfinite(taken)
    low = np.where(finite, taken, np.inf).min(axis=0)
    high = np.where(finite, taken, -np.inf).max(axis=0)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    width = np.where(high > low, high - low, 1.0)
    scaled = np.where(finite, (taken - low) / width, 0.0)
    codes = np.round(scaled * LEVELS).astype(np.uint8).T
    return Sample(names, low, high, np.ascontiguousarray(codes), len(columns))


def histogram(values: NDArray[np.generic], most_bins: int = 40) -> tuple[Array, Ints]:
    """Edges and counts; whole numbers of few values get a bin each."""
    finite = values.astype(np.float64)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return np.array([0.0, 1.0]), np.zeros(1, np.int64)
    low, high = finite.min(), finite.max()
    if low == high or (np.array_equal(finite, finite.round()) and high - low < most_bins):
        edges = np.arange(np.floor(low) - 0.5, np.ceil(high) + 1.0) if low != high else np.array([low - 0.5, low + 0.5])
    else:
        edges = np.linspace(low, high, most_bins + 1)
    counts, edges = np.histogram(finite, edges)
    return np.asarray(edges), counts.astype(np.int64)
