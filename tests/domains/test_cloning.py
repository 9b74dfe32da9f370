"""Behaviour cloning: it fits, it takes observations as they are, and the seed decides it."""

from __future__ import annotations

import numpy as np
import pytest

from calql.domains.common.cloning import clone
from calql.domains.common.policies import StoredPolicy

RNG = np.random.default_rng(0)
OBSERVATIONS = (RNG.normal(0, 1, (600, 3)) * [0.1, 1.0, 10.0] + [5.0, 0.0, -20.0]).astype(np.float32)
ACTIONS = (0.8 * np.tanh((OBSERVATIONS - OBSERVATIONS.mean(0)) / OBSERVATIONS.std(0)))[:, :2].astype(np.float32)


@pytest.fixture(scope="module")
def policy() -> StoredPolicy:
    return clone(OBSERVATIONS, ACTIONS, seed=0, noise=0.1, updates=400)


@pytest.mark.slow
def test_it_imitates_on_raw_observations(policy: StoredPolicy) -> None:
    error = policy.mode(OBSERVATIONS) - ACTIONS
    assert np.sqrt(np.mean(error**2)) < 0.1 * ACTIONS.std()
    assert (len(policy.hidden[0][0]), policy.action_size) == (3, 2)


def test_its_noise_is_as_asked(policy: StoredPolicy) -> None:
    rng = np.random.default_rng(0)
    centre = np.argmin(np.abs(ACTIONS).sum(1))
    draws = np.stack([policy.sample(OBSERVATIONS[centre], rng) for _ in range(500)])
    assert 0.08 < draws.std(axis=0).mean() < 0.11


def test_the_seed_decides_it(policy: StoredPolicy) -> None:
    again = clone(OBSERVATIONS, ACTIONS, seed=0, noise=0.1, updates=400)
    assert np.array_equal(again.mode(OBSERVATIONS), policy.mode(OBSERVATIONS))
