"""Statistics over seeds: rliable's numbers, with intervals that stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rliable import metrics

from calql.reproduce import statistics
from calql.reproduce.statistics import Estimate

QUICK = settings(max_examples=15, deadline=None)
shares = st.floats(0.0, 1.0, allow_nan=False)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(statistics, "DRAWS", 200)
    monkeypatch.setattr(statistics, "PROFILE_DRAWS", 50)


def scores(seed: int, seeds: int = 5, tasks: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).random((seeds, tasks))


@QUICK
@given(value=shares, seeds=st.integers(2, 6), tasks=st.integers(1, 4))
def test_constant_data_have_an_interval_of_one_point(value, seeds, tasks):
    data = np.full((seeds, tasks), value)
    for estimate in (*statistics.means(data), statistics.mean(data), statistics.interquartile_mean(data)):
        assert estimate.covers(value, margin=1e-12)
        assert estimate.high - estimate.low <= 1e-12


@QUICK
@given(st.lists(shares, min_size=2, max_size=6))
def test_the_interval_of_a_mean_stays_within_the_data(values):
    (estimate,) = statistics.means(np.array(values)[:, None])
    assert min(values) - 1e-12 <= estimate.low <= estimate.high <= max(values) + 1e-12
    assert estimate.value == pytest.approx(np.mean(values))


def test_numbers_are_rliables():
    data, other = scores(0), scores(1)
    assert statistics.interquartile_mean(data).value == pytest.approx(metrics.aggregate_iqm(data))
    improvement = statistics.probability_of_improvement(data, other)
    assert improvement.value == pytest.approx(metrics.probability_of_improvement(data, other))
    assert improvement.low <= improvement.value <= improvement.high


@QUICK
@given(st.integers(0, 1_000), st.integers(1, 5), st.integers(1, 5))
def test_pairs_are_counted_as_rliable_ranks_them(seed, ours, theirs):
    x, y = (np.round(scores(seed + shift, seeds, 3), 1) for shift, seeds in ((0, ours), (1, theirs)))
    assert statistics.share_above(x, y) == pytest.approx(metrics.probability_of_improvement(x, y))


def test_better_everywhere_is_certain_improvement():
    assert statistics.probability_of_improvement(scores(0) + 2.0, scores(1)) == Estimate(1.0, 1.0, 1.0)


def test_one_seed_has_no_interval():
    estimate = statistics.mean(scores(0, seeds=1))
    assert (estimate.low, estimate.high) == (None, None)
    assert not estimate.covers(estimate.value)
    assert statistics.probability_of_improvement(scores(0, seeds=1), scores(1)).low is None


def test_the_same_data_have_the_same_interval_and_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert statistics.means(scores(0)) == statistics.means(scores(0))
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_profiles_fall_from_one_to_none():
    thresholds = np.array([-0.1, 0.5, 1.1])
    found = statistics.performance_profiles({"a": scores(0)}, thresholds)["a"]
    assert found.share[0] == 1.0
    assert found.share[-1] == 0.0
    assert found.share[1] == pytest.approx((scores(0) > 0.5).mean())
    assert np.all((found.low <= found.share) & (found.share <= found.high))
