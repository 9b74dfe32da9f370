"""A dataset in numbers: counted over all rows, thinned only where it is listed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import recording

from calql.data import Dataset, concatenate, describe, from_d4rl_arrays
from calql.data.concerned import concerned, episodes_of, repeated_rows
from calql.data.overview import LEVELS, Episodes, episodes, features, histogram, listed, sample


def made(rewards: list[float]) -> Dataset:
    """Two episodes: rows 0 to 2 end as terminal, rows 3 and 4 are cut."""
    return from_d4rl_arrays(recording([0, 0, 1, 0, 0], [0, 0, 0, 0, 1], rewards, stored=True), "made")


def test_episodes_by_hand() -> None:
    found = episodes(made([0.0, 0.0, 1.0, 0.0, 0.0]))
    assert found.totals.tolist() == [1.0, 0.0]
    assert found.lengths.tolist() == [3, 2]
    assert found.terminal.tolist() == [True, False]
    assert found.success is not None
    assert found.success.tolist() == [True, False]
    assert episodes(made([0.5, 1.0, 2.0, 3.0, 4.0])).success is None


def test_ranges_by_hand() -> None:
    (feature,) = features(np.array([[-1.0], [0.0], [0.5], [1.0], [np.nan], [1.0]]), ["a"])
    assert (feature.low, feature.mean, feature.high) == (-1.0, pytest.approx(0.3), 1.0)
    assert feature.at_ends == pytest.approx(3 / 5)  # the NaN is no value


def numbers(count: int) -> Episodes:
    rng = np.random.default_rng(0)
    lengths = rng.permutation(count) + 1
    return Episodes(rng.permutation(count).astype(float), lengths, np.ones(count, bool), None)


def test_few_episodes_are_all_listed_and_of_many_the_telling_ones() -> None:
    assert listed(numbers(30), [], 30).tolist() == list(range(30))
    found, suspicious = numbers(5000), [7, 77, 777]
    shown = listed(found, suspicious, 300)
    assert len(shown) <= 300
    assert np.array_equal(shown, np.unique(shown))
    wanted = {*suspicious, *map(int, (found.totals.argmin(), found.totals.argmax(), found.lengths.argmax()))}
    assert wanted <= set(shown.tolist())
    assert np.diff(shown).max() < 100  # and the rest from everywhere


def test_suspicious_episodes_never_crowd_out_the_others() -> None:
    assert len(listed(numbers(5000), list(range(4000)), 300)) <= 300


@given(st.integers(1, 400), st.integers(1, 5), st.integers(0, 1000))
def test_sampled_values_are_within_half_a_step(rows: int, width: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32) * 10.0**seed**0.1
    taken = sample(values, [str(place) for place in range(width)])
    assert taken.codes.shape == (width, rows)
    step = (taken.high - taken.low) / LEVELS
    back = taken.low + taken.codes.T * step
    assert np.all(np.abs(back - values) <= step / 2 + 1e-6 * np.abs(values).max())


def test_a_sample_is_small_and_takes_what_is_not_finite() -> None:
    values = np.full((1_000_000, 30), np.nan, np.float32)
    values[::2] = 1.0
    taken = sample(values, [str(place) for place in range(30)])
    assert taken.codes.size <= 240_000
    assert taken.rows == 1_000_000
    assert np.isfinite(taken.low).all()
    assert np.isfinite(taken.high).all()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_histograms_count_every_value(values: list[float]) -> None:
    edges, counts = histogram(np.array(values))
    assert counts.sum() == len(values)
    assert len(edges) == len(counts) + 1
    assert np.all(np.diff(edges) > 0)


def test_whole_numbers_of_few_values_get_a_bin_each() -> None:
    edges, counts = histogram(np.array([0, 0, 2]))
    assert edges.tolist() == [-0.5, 0.5, 1.5, 2.5]
    assert counts.tolist() == [2, 0, 1]


def test_rows_belong_to_episodes() -> None:
    data = made([0.0, 0.0, 1.0, 0.0, 0.0])
    assert episodes_of(data, [0, 2]) == (0,)
    assert episodes_of(data, [3, 2, 2]) == (0, 1)
    assert episodes_of(data, []) == ()


def test_findings_name_the_episodes_that_show_them() -> None:
    rows = 400
    ends = [int(row % 100 == 99) for row in range(rows)]
    data = from_d4rl_arrays(recording(ends, [0] * rows, stored=True), "made")
    following = np.concatenate([data.observations[1:], data.observations[-1:]])
    following[250] += 3.0  # a jump inside the third episode
    observations = data.observations.copy()
    observations[120] = 1e5
    following[119] = observations[120]
    bad = replace(data, observations=observations, next_observations=following)
    shown_by = concerned(bad, describe(bad, episode_limit=99).problems, 99)
    assert {text.partition(":")[0]: episodes for text, episodes in shown_by.items()} == {
        "1 row has a next observation that is not the following row's": (2,),
        "Some observations exceed 10000 in size": (1,),
        "4 of 4 episodes are longer than the time limit of 99 steps (100 to 100)": (0, 1, 2, 3),
    }


def test_rows_that_repeat_and_rows_out_of_order_are_found() -> None:
    data = made([0.0, 0.0, 1.0, 0.0, 0.0])
    again = concatenate([data, data], source="twice")
    assert repeated_rows(again).tolist() == [5, 6, 7, 8, 9]
    shown_by = concerned(again, describe(again).problems, None)  # and each stored successor is another's
    assert {text.split()[-1]: episodes for text, episodes in shown_by.items()} == {
        "row.": (2, 3),
        "--split-at-jumps.": (0, 1, 2, 3),
    }


def test_values_that_are_not_finite_are_linked_too() -> None:
    data = made([0.0, 0.0, 1.0, 0.0, 0.0])
    rewards = data.rewards.copy()
    rewards[3] = np.nan
    told = "'rewards' holds 1 NaN value in 1 row, the first in row 3; leave out the episodes that hold them."
    assert concerned(replace(data, rewards=rewards), [told, "Something else."], None) == {told: (1,)}
