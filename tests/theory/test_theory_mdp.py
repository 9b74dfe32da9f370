"""Exact planning against values worked by hand, and the performance-difference lemmas on random MDPs."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from small_mdps import quickly, random_mdp, random_policy, random_table, seeds, two_state_chain

from calql.theory.mdp import (
    bellman,
    greedy_value,
    occupancy,
    one_hot_greedy,
    optimal_q,
    policy_q,
    policy_value,
)


def test_value_iteration_of_the_hand_worked_chain() -> None:
    expected = [[[0.2, 1.2], [2.0, 0.2]], [[0.0, 0.2], [1.0, 0.0]]]
    np.testing.assert_allclose(optimal_q(two_state_chain()), expected, atol=1e-6)


def test_value_of_the_uniform_policy_by_hand() -> None:
    # V_1 = [.1, .5]; Q_0(0, .) = [0 + .1, .2 + .5]; V_0(0) = .4
    mdp = two_state_chain()
    uniform = jnp.full((2, 2, 2), 0.5)
    np.testing.assert_allclose(policy_q(mdp, uniform)[0, 0], [0.1, 0.7], atol=1e-6)
    assert np.isclose(policy_value(mdp, uniform), 0.4)


def test_occupancy_by_hand() -> None:
    # always move: (0, move), then (1, move)
    moving = jnp.zeros((2, 2, 2)).at[..., 1].set(1.0)
    expected = [[[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    np.testing.assert_allclose(occupancy(two_state_chain(), moving), expected)


def test_greedy_ties_go_to_the_lowest_action() -> None:
    np.testing.assert_array_equal(one_hot_greedy(jnp.zeros((1, 1, 3))), [[[1.0, 0.0, 0.0]]])


@quickly
@given(seeds)
def test_optimum_is_a_fixed_point_and_is_attained(seed: int) -> None:
    mdp = random_mdp(np.random.default_rng(seed))
    best = optimal_q(mdp)
    np.testing.assert_allclose(bellman(mdp, best), best, atol=1e-5)
    assert np.isclose(policy_value(mdp, one_hot_greedy(best)), greedy_value(mdp, best), atol=1e-5)


@quickly
@given(seeds)
def test_value_is_expected_reward_under_the_occupancy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    policy = random_policy(rng, mdp)
    assert np.isclose(policy_value(mdp, policy), (occupancy(mdp, policy) * mdp.reward_mean).sum(), atol=1e-5)


@quickly
@given(seeds)
def test_performance_difference_with_a_comparator(seed: int) -> None:
    """Lemma I.3: E[V^e - max f_0] <= sum_h E_{d^e}[T f_{h+1} - f_h], for any policy and any f."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    policy, f = random_policy(rng, mdp), random_table(rng, mdp)
    left = policy_value(mdp, policy) - greedy_value(mdp, f)
    right = (occupancy(mdp, policy) * (bellman(mdp, f) - f)).sum()
    assert left <= right + 1e-4


@quickly
@given(seeds)
def test_performance_difference_of_the_greedy_policy(seed: int) -> None:
    """Lemma I.4: for pi^f it is an equality of signed errors, hence at most the sum of their sizes."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    f = random_table(rng, mdp)
    greedy = one_hot_greedy(f)
    signed = (occupancy(mdp, greedy) * (f - bellman(mdp, f))).sum(axis=(1, 2))
    left = greedy_value(mdp, f) - policy_value(mdp, greedy)
    assert np.isclose(left, signed.sum(), atol=1e-4)
    assert left <= np.abs(signed).sum() + 1e-4


def test_the_comparator_lemma_needs_the_first_step() -> None:
    """As printed the sum starts at step 1; leaving out step 0 makes the lemma false on the chain."""
    mdp = two_state_chain()
    best = optimal_q(mdp)
    f = best.at[0].set(0.0)
    error = occupancy(mdp, one_hot_greedy(best)) * (bellman(mdp, f) - f)
    left = greedy_value(mdp, best) - greedy_value(mdp, f)
    assert np.isclose(left, 1.2)
    assert left <= error.sum() + 1e-6
    assert left > error[1:].sum() + 1.0
