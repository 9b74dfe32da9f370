"""Each family is what it says: a model, linear where it claims to be, hard where it claims to be."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_mdps import drawn, quick_jit

from calql.theory.conditions import CONDITIONS, make_instance
from calql.theory.families import FAMILIES, HORIZON, near_ties
from calql.theory.mdp import greedy_value, optimal_q, policy_value


@pytest.mark.parametrize("family", FAMILIES)
def test_distributions_and_rewards(family: str) -> None:
    mdp = drawn(family, 1)
    np.testing.assert_allclose(mdp.start.sum(), 1.0, atol=1e-5)
    np.testing.assert_allclose(mdp.transition.sum(-1), 1.0, atol=1e-5)
    assert (mdp.transition >= 0).all()
    assert (mdp.reward_mean >= 0).all()
    assert (mdp.reward_mean <= 1).all()
    assert mdp.horizon == HORIZON


@pytest.mark.parametrize("family", ["random-linear", "lock"])
def test_linear_families_are_linear_and_anchored(family: str) -> None:
    mdp = drawn(family, 2)
    features = np.asarray(mdp.feature_table(), np.float64).reshape(24, -1)
    onto = features @ np.linalg.pinv(features)
    for table in (mdp.reward_mean.reshape(HORIZON, 24, 1), mdp.transition.reshape(HORIZON, 24, -1)):
        np.testing.assert_allclose(np.einsum("xy,hyn->hxn", onto, table), table, atol=1e-5)
    anchors = (features > 1 - 1e-6).any(axis=0)
    assert anchors.all()


def test_the_lock_opens_only_to_its_code() -> None:
    mdp = drawn("lock")
    assert np.isclose(greedy_value(mdp, optimal_q(mdp)), 0.9, atol=1e-5)
    uniform = jnp.full(mdp.reward_mean.shape, 1 / 3)
    assert float(policy_value(mdp, uniform)) < 0.25


def test_near_ties_shrink_with_the_budget() -> None:
    key = jax.random.key(0)
    near = quick_jit(near_ties)
    spread = [float(jnp.ptp(near(key, k).reward_mean)) for k in (100, 400)]
    assert np.isclose(spread[0], 2 * spread[1], rtol=1e-3)
    np.testing.assert_allclose(near(key, 100).transition, drawn("random-tabular").transition, atol=1e-6)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_give_a_policy_a_distribution_and_its_exact_value(condition: str) -> None:
    instance = make_instance(drawn("chain"), CONDITIONS[condition])
    np.testing.assert_allclose(instance.reference_policy.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(instance.offline.sum((1, 2)), 1.0, atol=1e-5)
    assert (instance.reference_q <= instance.optimal_q + 1e-5).all()
