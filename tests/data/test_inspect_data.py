"""What `calql data inspect` says about a dataset."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from recordings import recording
from rich.console import Console

from calql.data import Dataset, concatenate, describe, from_d4rl_arrays, render
from calql.data.findings import broken_sequence, duplicate_rows
from calql.data.inspect import Range


@pytest.fixture
def sparse() -> Dataset:
    """Three episodes: reached in 3 steps, timed out after 2, reached in 1."""
    arrays = recording([0, 0, 1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0, 1, 0])
    return from_d4rl_arrays(arrays, "made")


def test_numbers(sparse: Dataset) -> None:
    seen = describe(sparse)
    assert (seen.transitions, seen.episodes) == (6, 3)
    assert seen.lengths == Range(1, 2, 3)
    assert seen.returns == Range(0, pytest.approx(2 / 3), 1)
    assert seen.success_rate == pytest.approx(2 / 3)
    assert seen.terminal_share == pytest.approx(2 / 3)
    assert seen.truncated_share == pytest.approx(1 / 3)
    assert seen.observation_shape == (2,)
    assert (seen.action_low, seen.action_high) == (0.0, pytest.approx(0.006))
    assert seen.not_finite == {}
    assert seen.duplicate_rows == 0
    assert seen.problems == ()


def test_success_is_not_guessed_from_dense_rewards(sparse: Dataset) -> None:
    dense = replace(sparse, rewards=np.arange(6, dtype=np.float32))
    assert describe(dense).success_rate is None


def test_problems_are_sentences(sparse: Dataset) -> None:
    observations = np.column_stack([np.ones(6), np.full(6, 2e4)]).astype(np.float32)
    bad = replace(
        sparse,
        observations=observations,
        next_observations=observations[::-1] + 1,
        rewards=np.zeros(6, np.float32),
        actions=np.full((6, 1), 1.2, np.float32),
        truncated=sparse.terminals | sparse.truncated,
        terminals=np.zeros(6, np.bool_),
    )
    text = " ".join(describe(bad).problems)
    for words in (
        "Every reward is 0",
        "No episode ends in a terminal step",
        "3 of 3 rows inside episodes have a next observation that is not the following row's",
        "2 observation features never change (0, 1)",
        "5 rows repeat an earlier row",
        "exceed 10000",
    ):
        assert words in text


def test_values_that_are_not_finite_do_not_spoil_the_rest(sparse: Dataset) -> None:
    rewards = sparse.rewards.copy()
    rewards[1] = np.nan
    seen = describe(replace(sparse, rewards=rewards))
    assert seen.not_finite == {"rewards": 1}
    assert seen.rewards.high == 1
    (problem,) = seen.problems
    assert problem.startswith("1 of ")
    assert "is bad: NaN or inf in 'rewards' (episode " in problem


def test_duplicates_and_sequence(sparse: Dataset) -> None:
    assert duplicate_rows(concatenate([sparse, sparse], source="twice")) == 6
    assert broken_sequence(sparse) == 0


def test_images() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (5, 8, 8, 3), np.uint8)
    arrays = {**recording([0, 1, 0, 0, 0], [0, 0, 0, 0, 1]), "observations": images}
    dataset = from_d4rl_arrays(arrays, "made")
    assert dataset.observations.dtype == np.uint8
    seen = describe(dataset)
    assert seen.observation_dtype == "uint8"
    assert seen.constant_features == ()


def test_rendering_says_it_all(sparse: Dataset) -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(render(describe(sparse, ["Something is odd."])))
    shown = out.getvalue()
    for words in ("made", "transitions", "66.7% of episodes reach", "66.7% terminal, 33.3% truncated"):
        assert words in shown
    assert "1 time-out row left out" in shown
    assert "Something is odd." in shown
