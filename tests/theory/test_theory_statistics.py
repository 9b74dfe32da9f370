"""Intervals on data whose answer is known."""

from __future__ import annotations

import numpy as np

from calql.theory.claims import _above, _below, _within
from calql.theory.statistics import Interval, bootstrap, exponent, mean, ratio


def test_interval_of_a_mean_is_that_of_the_central_limit() -> None:
    sample = np.random.default_rng(0).normal(3.0, 1.0, size=(1, 400))
    found = bootstrap(mean, sample)
    half_width = 1.96 * sample.std() / 20
    assert np.isclose(found.estimate, sample.mean())
    assert np.isclose(found.high - found.low, 2 * half_width, rtol=0.1)


def test_families_are_resampled_apart() -> None:
    sample = np.array([[0.0] * 5, [10.0] * 5])
    assert bootstrap(mean, sample) == Interval(5.0, 5.0, 5.0)


def test_ratio_averages_over_families_geometrically() -> None:
    above, below = np.array([[2.0, 2.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [8.0, 8.0]])
    assert np.isclose(bootstrap(ratio, above, below).estimate, 0.5)


def test_exponent_of_a_power_law() -> None:
    budgets = (10, 100, 1000)
    sample = np.array([7.0, 3.0])[None, :, None] * np.array(budgets) ** 0.37
    assert np.isclose(bootstrap(exponent(budgets), sample).estimate, 0.37)


def test_outcomes_can_go_every_way() -> None:
    below, across, above = Interval(0, -1, 0.5), Interval(1, 0.5, 1.5), Interval(2, 1.5, 2.5)
    assert [_below(i, 1.0) for i in (below, across, above)] == ["holds", "undecided", "fails"]
    assert [_above(i, 1.0) for i in (below, across, above)] == ["fails", "undecided", "holds"]
    assert [_within(i, (0.8, 1.25)) for i in (below, across, above)] == ["fails", "undecided", "fails"]
    assert _within(Interval(1, 0.9, 1.1), (0.8, 1.25)) == "holds"
