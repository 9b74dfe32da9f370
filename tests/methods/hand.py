"""Networks with known numbers, for losses that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from calql.methods.base import Transitions
from calql.networks import Critics, Identity
from calql.networks.actors import ActionDistribution, Deterministic, Gaussian, TanhGaussian

Q1, Q2 = (1.0, 1.0, 0.0), (0.0, 2.0, 0.0)  # weights of state and action, and bias: Q1 = s + a, Q2 = 2 a


def linear_critics(*members: tuple[float, float, float]) -> Critics:
    """One state, one action: Q_i = w_s s + w_a a + b."""
    critics = Critics(Identity(), 1, 1, (), count=len(members), key=jax.random.key(0))
    rows = jnp.array(members)
    critics = eqx.tree_at(lambda c: c.members.output.weight, critics, rows[:, None, :2])
    return eqx.tree_at(lambda c: c.members.output.bias, critics, rows[:, 2:])


def gaussian_policy(
    mean: float, log_std: float, kind: Callable[..., ActionDistribution] = Gaussian
) -> Callable[..., ActionDistribution]:
    """The same Gaussian at every state."""

    def policy(observations: jax.Array, key: jax.Array | None = None) -> ActionDistribution:
        full = jnp.full((*observations.shape[:-1], 1), 1.0)
        return kind(mean * full, log_std * full)

    return policy


def squashed_policy(mean: float, log_std: float) -> Callable[..., ActionDistribution]:
    return gaussian_policy(mean, log_std, TanhGaussian)


def constant_policy(action: float) -> Callable[..., ActionDistribution]:
    return lambda observations: Deterministic(jnp.full((*observations.shape[:-1], 1), action))


def rows(actions: tuple[float, ...] = (0.5,), **columns: Any) -> Transitions:
    """States 1, next states 2, reward 1, no terminal."""
    count = len(actions)
    batch = Transitions(
        observations=jnp.full((count, 1), 1.0),
        actions=jnp.array(actions)[:, None],
        rewards=jnp.ones(count),
        next_observations=jnp.full((count, 1), 2.0),
        terminals=jnp.zeros(count),
        reference=jnp.full(count, -jnp.inf),
    )
    return batch._replace(**columns)


def agrees(loss: Callable[[Any], jax.Array], network: Any, step: float = 1e-2) -> None:
    """Along its own gradient a loss rises as fast as the gradient is long."""
    gradient = jax.grad(loss)(network)
    length = float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))))
    direction = jax.tree.map(lambda g: step * g / length, gradient)
    ahead = jax.tree.map(jnp.add, network, direction)
    behind = jax.tree.map(jnp.subtract, network, direction)
    assert float((loss(ahead) - loss(behind)) / (2 * step)) == pytest.approx(length, rel=0.05)
