"""Statistics over seeds: the numbers and the intervals of rliable, which is the oracle here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rliable import library, metrics

from calql.results import statistics
from calql.results.statistics import Estimate

QUICK = settings(max_examples=15, deadline=None)
TIGHT = {"rel": 0.0, "abs": 1e-12}
shares = st.floats(0.0, 1.0, allow_nan=False)
seeds_and_tasks = {"seed": st.integers(0, 1_000), "seeds": st.integers(2, 7), "tasks": st.integers(1, 6)}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(statistics, "DRAWS", 200)
    monkeypatch.setattr(statistics, "PROFILE_DRAWS", 50)


def scores(seed: int, seeds: int = 5, tasks: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).random((seeds, tasks))


@contextmanager
def oracle_draws() -> Iterator[None]:
    """rliable draws from NumPy's global generator, whatever random state it is given: it gets our seed."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(statistics.SEED)  # noqa: NPY002
    yield
    np.random.set_state(before)  # noqa: NPY002


def oracle(function, *tables: np.ndarray) -> list[Estimate]:
    """What rliable makes of the same tables and the same draws."""
    given = tables[0] if len(tables) == 1 else list(tables)
    with oracle_draws():
        values, intervals = library.get_interval_estimates(
            {"x": given}, lambda *sample: np.atleast_1d(function(*sample)), reps=statistics.DRAWS
        )
    return [Estimate(*map(float, each)) for each in zip(values["x"], *intervals["x"], strict=True)]


def assert_equal(ours: list[Estimate], theirs: list[Estimate]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.value, mine.low, mine.high) == pytest.approx((other.value, other.low, other.high), **TIGHT)


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


def test_a_difference_of_means_by_hand_and_its_interval_holds_it():
    found = statistics.difference(np.array([0.2, 0.4]), np.array([0.1, 0.1, 0.4]))
    assert found.value == pytest.approx(0.3 - 0.2)
    assert found.low < 0.1 < found.high
    assert found.low >= 0.2 - 0.4  # no draw leaves the seeds
    assert found.high <= 0.4 - 0.1
    assert statistics.difference(np.array([0.5]), np.array([0.1, 0.2])).low is None  # one seed has no interval


def test_numbers_are_rliables():
    data, other = scores(0), scores(1)
    assert statistics.interquartile_mean(data).value == pytest.approx(metrics.aggregate_iqm(data))
    improvement = statistics.probability_of_improvement(data, other)
    assert improvement.value == pytest.approx(metrics.probability_of_improvement(data, other))
    assert improvement.low <= improvement.value <= improvement.high


@QUICK
@given(**seeds_and_tasks)
def test_means_and_their_intervals_are_rliables(seed, seeds, tasks):
    data = scores(seed, seeds, tasks)
    assert_equal([statistics.mean(data)], oracle(metrics.aggregate_mean, data))
    assert_equal([statistics.interquartile_mean(data)], oracle(metrics.aggregate_iqm, data))
    assert_equal(statistics.means(data), oracle(lambda sample: sample.mean(axis=0), data))


@pytest.mark.slow
@settings(max_examples=5, deadline=None)  # rliable ranks every task of every draw
@given(**seeds_and_tasks, others=st.integers(2, 7))
def test_improvement_and_its_interval_are_rliables(seed, seeds, tasks, others):
    ours, theirs = np.round(scores(seed, seeds, tasks), 1), np.round(scores(seed + 1, others, tasks), 1)  # with ties
    found = [statistics.probability_of_improvement(ours, theirs)]
    assert_equal(found, oracle(metrics.probability_of_improvement, ours, theirs))


@QUICK
@given(**seeds_and_tasks, others=st.integers(2, 7))
def test_profiles_and_their_bands_are_rliables(seed, seeds, tasks, others):
    data = {"a": scores(seed, seeds, tasks), "b": scores(seed + 1, others, tasks)}
    thresholds = np.linspace(-0.1, 1.1, 13)
    with oracle_draws():
        expected, bands = library.create_performance_profile(data, thresholds, reps=statistics.PROFILE_DRAWS)
    for name, found in statistics.performance_profiles(data, thresholds).items():
        np.testing.assert_allclose([found.share, found.low, found.high], [expected[name], *bands[name]], 0.0, 1e-12)


@pytest.mark.parametrize("count", range(1, 14))
def test_the_middle_half_is_what_is_left_of_a_trim_of_a_quarter(count):
    data = scores(count, 1, count) ** 3
    assert statistics.middle_half(data) == pytest.approx(metrics.aggregate_iqm(data), **TIGHT)


def test_another_seed_draws_other_samples(monkeypatch):
    before = statistics.interquartile_mean(scores(0))
    monkeypatch.setattr(statistics, "SEED", 1)
    after = statistics.interquartile_mean(scores(0))
    assert after.value == before.value
    assert (after.low, after.high) != (before.low, before.high)


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
