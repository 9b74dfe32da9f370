"""Statistics over seeds and tasks, by the definitions of Agarwal et al. 2021 (arXiv:2108.13264), on NumPy alone.

Scores are tables [seed, task]. Intervals are percentiles of a stratified bootstrap: within each task, each seed of a
draw is one of the task's seeds, chosen on its own; tasks stay as they are. Draws come from `RandomState`, whose
stream NumPy promises never to change, so the same table has the same intervals on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
DRAWS = 2_000  # bootstrap samples
PROFILE_DRAWS = 500  # for a band that is only looked at, at dozens of thresholds
SEED = 0  # of the draws


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; a single seed has no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    def covers(self, number: float, margin: float = 0.0) -> bool:
        """Whether the interval, widened by a margin, holds a number."""
        if self.low is None or self.high is None:
            return False
        return self.low - margin <= number <= self.high + margin


def means(values: Floats) -> list[Estimate]:
    """The mean over seeds of every entry, each with its own interval.  values  # [seed, entry]"""
    return _estimates(lambda sample: sample.mean(axis=0), values)


def mean(values: Floats) -> Estimate:
    """The mean over tasks of the mean over seeds; tasks are strata.  values  # [seed, task]"""
    return _estimates(lambda sample: sample.mean(axis=0).mean(keepdims=True), values)[0]


def difference(ours: Floats, theirs: Floats) -> Estimate:
    """The mean of ours less that of theirs, a value for each seed; the two are drawn apart.  # [seed]"""
    return _estimates(lambda *pair: pair[0].mean(axis=0) - pair[1].mean(axis=0), ours[:, None], theirs[:, None])[0]


def interquartile_mean(values: Floats) -> Estimate:
    """The mean of the middle half of all seeds of all tasks.  values  # [seed, task]"""
    return _estimates(lambda sample: np.array([middle_half(sample)]), values)[0]


def middle_half(values: Floats) -> float:
    """The mean without the lowest and the highest quarter, each rounded down to whole values."""
    cut = values.size // 4
    return float(np.sort(values, axis=None)[cut : values.size - cut].mean())


def probability_of_improvement(ours: Floats, theirs: Floats) -> Estimate:
    """How likely a seed of ours is above one of theirs, a tie counting half; averaged over tasks, [seed, task].

    The two are drawn apart from each other, and may have different numbers of seeds.
    """
    return _estimates(lambda *pair: np.array([share_above(*pair)]), ours, theirs)[0]


def share_above(ours: Floats, theirs: Floats) -> float:
    """Of all pairs of a seed of ours and one of theirs on the same task, [seed, task]: Mann and Whitney's U, scaled."""
    return float((0.5 + 0.5 * np.sign(ours[:, None] - theirs[None])).mean())


@dataclass(frozen=True)
class Profile:
    """The share of seeds and tasks with a score above each threshold."""

    share: Floats
    low: Floats
    high: Floats


def performance_profiles(scores: Mapping[str, Floats], thresholds: Floats) -> dict[str, Profile]:
    """One profile for each method, all over the same tasks, [seed, task]."""
    random = np.random.RandomState(SEED)

    def shares(sample: Floats) -> Floats:
        return np.asarray((sample[..., None] > thresholds).mean(axis=(0, 1)))

    return {
        name: Profile(shares(values), *interval(shares, draws(random, PROFILE_DRAWS, values)))
        for name, values in scores.items()
    }


def draws(random: np.random.RandomState, count: int, *tables: Floats) -> Iterator[list[Floats]]:
    """Bootstrap samples of tables [seed, task], each table drawn apart: every entry is a seed of its own task."""
    for _ in range(count):
        chosen = (random.randint(len(table), size=table.shape) for table in tables)
        yield [np.take_along_axis(table, seeds, axis=0) for table, seeds in zip(tables, chosen, strict=True)]


def interval(statistic: Callable[..., Floats], samples: Iterator[list[Floats]]) -> Floats:
    """The percentiles between which CONFIDENCE of a statistic's values on the samples lie.  # [2, entry]"""
    tail = 50 * (1 - CONFIDENCE)
    return np.percentile(np.stack([statistic(*sample) for sample in samples]), [tail, 100 - tail], axis=0)


def _estimates(statistic: Callable[..., Floats], *tables: Floats) -> list[Estimate]:
    found = statistic(*tables)
    if min(map(len, tables)) < 2:
        return [Estimate(float(value)) for value in found]
    low, high = interval(statistic, draws(np.random.RandomState(SEED), DRAWS, *tables))
    return [Estimate(*map(float, each)) for each in zip(found, low, high, strict=True)]


def band(values: Floats) -> tuple[Floats, Floats] | None:
    """The interval of the mean over seeds at every point of a curve; None for a single seed.  values  # [seed, point]

    Seeds are drawn whole, the same for all points: each point has the interval that it would have by itself, and a
    curve takes one product. It cannot leave the range of the seeds.
    """
    if len(values) < 2:
        return None
    tail = 50 * (1 - CONFIDENCE)
    ends = np.percentile(_shares(len(values), DRAWS) @ values, [tail, 100 - tail], axis=0)
    low, high = np.clip(ends, values.min(axis=0), values.max(axis=0))  # a product may be off in its last digit
    return low, high


@cache
def _shares(seeds: int, count: int) -> Floats:
    """How much each seed counts in the mean of each draw.  # [draw, seed]"""
    chosen = np.random.RandomState(SEED).randint(seeds, size=(count, seeds))
    return np.stack([(chosen == seed).mean(axis=1) for seed in range(seeds)], axis=1)
