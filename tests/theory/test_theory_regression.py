"""Least squares by hand; rank-one updates against a solve; tabular as the one-hot case of linear."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_mdps import drawn, random_mdp, two_state_chain

from calql.theory.conditions import make_instance, near_optimal
from calql.theory.regression import RIDGE, LinearData, TabularData, Transition, draw, from_counts, sample_offline


def empty(mdp: object) -> TabularData | LinearData:
    states, actions = mdp.reward_mean.shape[1:]  # type: ignore[attr-defined]
    return from_counts(mdp, jnp.zeros((states, actions, states)), jnp.zeros((states, actions)))  # type: ignore[arg-type]


def random_transitions(rng: np.random.Generator, states: int, actions: int, count: int) -> list[Transition]:
    limits = (states, actions, 2, states)
    return [
        Transition(*(jnp.asarray(rng.integers(n), jnp.float32 if i == 2 else jnp.int32) for i, n in enumerate(limits)))
        for _ in range(count)
    ]


def test_mean_of_two_targets_by_hand() -> None:
    data = empty(two_state_chain())
    for reward, next_state in ((1.0, 0), (0.0, 1)):
        data = data.add(Transition(jnp.array(0), jnp.array(1), jnp.array(reward), jnp.array(next_state)))
    estimate, width = data.fit(jnp.array([2.0, 4.0]))
    assert np.isclose(estimate[0, 1], (3.0 + 4.0) / (2 + RIDGE))
    assert np.isclose(width[0, 1], (2 + RIDGE) ** -0.5)
    assert float(estimate[1, 0]) == 0.0


@pytest.mark.slow
def test_tabular_is_linear_with_one_hot_features() -> None:
    rng = np.random.default_rng(0)
    tabular = random_mdp(rng)
    linear = eqx.tree_at(lambda m: m.features, tabular, tabular.feature_table(), is_leaf=lambda x: x is None)
    one, other = empty(tabular), empty(linear)
    assert isinstance(one, TabularData)
    assert isinstance(other, LinearData)
    for seen in random_transitions(rng, 3, 2, 200):
        one, other = one.add(seen), other.add(seen)
    value = jnp.asarray(rng.random(3), jnp.float32)
    for a, b in zip(one.fit(value), other.fit(value), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4)


def test_rank_one_updates_equal_a_solve() -> None:
    rng = np.random.default_rng(1)
    mdp = drawn("random-linear")
    data, phis, targets = empty(mdp), [], []
    value = rng.random(8)
    add = jax.jit(lambda d, t: d.add(t))
    for seen in random_transitions(rng, 8, 3, 300):
        data = add(data, seen)
        phis.append(np.asarray(mdp.features)[int(seen.state), int(seen.action)])
        targets.append(float(seen.reward) + value[int(seen.next_state)])
    x = np.array(phis, np.float64)
    weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(6), x.T @ np.array(targets))
    np.testing.assert_allclose(
        data.fit(jnp.asarray(value, jnp.float32))[0], np.asarray(mdp.features) @ weights, atol=2e-3
    )


def test_draw_never_takes_an_impossible_entry() -> None:
    cumulative = jnp.cumsum(jnp.array([0.0, 0.5, 0.0, 0.5, 0.0]))
    uniform = jnp.array([0.0, 0.4999, 0.5, 0.9999999])
    np.testing.assert_array_equal(draw(cumulative[None], uniform), [1, 1, 3, 3])


@pytest.mark.slow
def test_offline_tuples_follow_their_distributions() -> None:
    instance = make_instance(random_mdp(np.random.default_rng(2)), near_optimal)
    size = 20_000
    data = sample_offline(instance, size, jax.random.key(0), buffer=size)
    for h, step in enumerate(data):
        assert isinstance(step, TabularData)
        expected = instance.offline[h][..., None] * instance.mdp.transition[h]
        np.testing.assert_allclose(step.count / size, expected, atol=0.02)
        np.testing.assert_allclose(step.reward / size, instance.offline[h] * instance.mdp.reward_mean[h], atol=0.02)


@pytest.mark.slow
def test_a_smaller_size_uses_the_first_draws_only() -> None:
    instance = make_instance(two_state_chain(), near_optimal)
    step = sample_offline(instance, 7, jax.random.key(0), buffer=50)[0]
    assert isinstance(step, TabularData)
    assert float(step.count.sum()) == 7.0
