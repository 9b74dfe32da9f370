"""Statistics over seeds and tasks: rliable's estimators, with intervals that do not change from call to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rliable import library, metrics

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
DRAWS = 2_000  # bootstrap samples
PROFILE_DRAWS = 500  # for a band that is only looked at, at dozens of thresholds


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
    return _estimates(values, lambda sample: sample.mean(axis=0))


def mean(values: Floats) -> Estimate:
    """The mean over seeds and tasks; tasks are strata.  values  # [seed, task]"""
    return _estimates(values, lambda sample: np.array([metrics.aggregate_mean(sample)]))[0]


def interquartile_mean(values: Floats) -> Estimate:
    """The mean of the middle half of all seeds of all tasks.  values  # [seed, task]"""
    return _estimates(values, lambda sample: np.array([metrics.aggregate_iqm(sample)]))[0]


def probability_of_improvement(ours: Floats, theirs: Floats) -> Estimate:
    """How likely a seed of ours is above one of theirs, a tie counting half; averaged over tasks, [seed, task].

    The number is rliable's, and so are the draws; on each draw the same share is counted directly, because rliable's
    rank test costs milliseconds a task.
    """
    value = float(metrics.probability_of_improvement(ours, theirs))
    if min(len(ours), len(theirs)) < 2:
        return Estimate(value)
    with _repeatable():
        _, intervals = library.get_interval_estimates(
            {"pair": (ours, theirs)}, share_above, reps=DRAWS, confidence_interval_size=CONFIDENCE
        )
    low, high = intervals["pair"][:, 0]
    return Estimate(value, float(low), float(high))


def share_above(ours: Floats, theirs: Floats) -> float:
    """Of all pairs of a seed of ours and one of theirs on the same task, [seed, task]."""
    return float((0.5 + 0.5 * np.sign(ours[:, None] - theirs[None])).mean())


@dataclass(frozen=True)
class Profile:
    """The share of seeds and tasks with a score above each threshold."""

    share: Floats
    low: Floats
    high: Floats


def performance_profiles(scores: Mapping[str, Floats], thresholds: Floats) -> dict[str, Profile]:
    """One profile for each method, all over the same tasks, [seed, task]."""
    with _repeatable():
        shares, intervals = library.create_performance_profile(
            dict(scores), thresholds, reps=PROFILE_DRAWS, confidence_interval_size=CONFIDENCE
        )
    return {name: Profile(shares[name], *intervals[name]) for name in scores}


def _estimates(values: Floats, function: Callable[[Floats], Floats]) -> list[Estimate]:
    if len(values) < 2:
        return [Estimate(float(value)) for value in function(values)]
    with _repeatable():
        found, intervals = library.get_interval_estimates(
            {"values": values}, function, reps=DRAWS, confidence_interval_size=CONFIDENCE
        )
    low, high = intervals["values"]
    return [Estimate(*map(float, each)) for each in zip(found["values"], low, high, strict=True)]


@contextmanager
def _repeatable() -> Iterator[None]:
    """rliable draws from numpy's global generator, whatever random state it is given."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
