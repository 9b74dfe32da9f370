"""The scripted policy succeeds about half the time, and a seed decides the whole set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calql.data.store import BuildContext
from calql.domains.certify import certify
from calql.domains.pick_place.data import RECIPES, episodes, successes


@pytest.mark.slow
def test_about_half_of_the_episodes_succeed() -> None:
    dataset = episodes(range(150))
    share = successes(dataset).mean()
    assert 0.4 < share < 0.6
    assert dataset.rewards.sum() == successes(dataset).sum()
    assert dataset.episode_lengths.max() <= 40
    assert dataset.truncated[dataset.episode_ends].sum() == (~successes(dataset)).sum()


@pytest.mark.slow
def test_a_seed_decides_the_set_whatever_the_number_of_processes() -> None:
    recipe = RECIPES["pick-place"]
    one = recipe.build(BuildContext(seed=3, size=900))
    two = recipe.build(BuildContext(seed=3, size=900, processes=2))
    other = recipe.build(BuildContext(seed=4, size=900))
    assert np.array_equal(one.observations, two.observations)
    assert np.array_equal(one.actions, two.actions)
    assert not np.array_equal(one.observations[0], other.observations[0])
    assert 900 <= len(one) < 940  # whole episodes


def test_observations_are_images_that_follow_each_other() -> None:
    dataset = episodes(range(3))
    assert dataset.observations.dtype == np.uint8
    assert dataset.observations.shape[1:] == (48, 48, 3)
    rows = next(iter(dataset.episodes()))
    assert np.array_equal(dataset.observations[rows][1:], dataset.next_observations[rows][:-1])


def test_certify_accepts_what_was_recorded_and_finds_a_lost_end() -> None:
    dataset = episodes(range(6))
    assert certify("pick-place", dataset).passed
    paid = np.flatnonzero(dataset.terminals)[:1]
    assert len(paid)
    wrong = replace(dataset, rewards=np.where(np.isin(np.arange(len(dataset)), paid), 0, dataset.rewards))
    assert not certify("pick-place", wrong).passed
