"""Intervals. The MDP is the unit: seeds are averaged within it, and MDPs are resampled within families."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3g} [{self.low:.3g}, {self.high:.3g}]"


def bootstrap(statistic: Callable[..., Numbers], *samples: Numbers, seed: int = 0) -> Interval:
    """Percentile interval of a statistic of arrays [family, instance, ...], all resampled alike.

    The statistic maps arrays with one more leading axis (the resample) to one number per resample.
    """
    families, instances = samples[0].shape[:2]
    rng = np.random.default_rng(seed)
    chosen = rng.integers(instances, size=(RESAMPLES, families, instances))
    within = np.arange(families)[:, None]
    values = statistic(*(sample[within, chosen] for sample in samples))
    estimate = statistic(*(sample[None] for sample in samples))[0]
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(values, [tail, 100 - tail])
    return Interval(float(estimate), float(low), float(high))


def mean(sample: Numbers) -> Numbers:
    """Mean over families and instances."""
    return np.asarray(sample.mean(axis=(1, 2)))


def ratio(above: Numbers, below: Numbers) -> Numbers:
    """Ratio of a family's mean regrets, averaged (geometrically) over families."""
    per_family = np.log(above.mean(axis=2)) - np.log(below.mean(axis=2))
    return np.asarray(np.exp(per_family.mean(axis=1)))


def exponent(budgets: tuple[int, ...]) -> Callable[[Numbers], Numbers]:
    """Least-squares slope of log mean regret on log K, of samples [family, instance, budget]."""
    log_k = np.log(budgets) - np.log(budgets).mean()

    def slope(sample: Numbers) -> Numbers:
        log_regret = np.log(np.maximum(sample.mean(axis=(1, 2)), 1e-9))
        return np.asarray(log_regret @ log_k / (log_k @ log_k))

    return slope
