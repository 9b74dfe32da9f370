"""Least squares on aggregated tuples, kept as sufficient statistics so that a refit costs no pass over data.

`TabularData` is the regression on one feature per state and action, where every matrix is diagonal;
`LinearData` is the general one. With one-hot features both give the same numbers (tested).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from calql.theory.conditions import Instance
from calql.theory.mdp import MDP

RIDGE = 0.1
"""Ridge of every regression: it gives 0, where Algorithm 2 starts, to what no tuple speaks of."""


class Transition(NamedTuple):
    """One (s, a, r, s')."""

    state: Int[Array, ""]
    action: Int[Array, ""]
    reward: Float[Array, ""]
    next_state: Int[Array, ""]


class Data(Protocol):
    """The aggregated tuples of one step."""

    def add(self, seen: Transition) -> Self:
        """The data with one more tuple."""

    def fit(self, next_value: Float[Array, " s"]) -> tuple[Float[Array, "s a"], Float[Array, "s a"]]:
        """Ridge least squares of r + next_value(s'), and its width ||phi(s, a)||_{Lambda^-1}."""


class TabularData(eqx.Module):
    """Counts."""

    count: Float[Array, "s a next"]
    reward: Float[Array, "s a"]

    def add(self, seen: Transition) -> TabularData:
        where = (seen.state, seen.action)
        return TabularData(self.count.at[(*where, seen.next_state)].add(1.0), self.reward.at[where].add(seen.reward))

    def fit(self, next_value: Float[Array, " s"]) -> tuple[Float[Array, "s a"], Float[Array, "s a"]]:
        weight = self.count.sum(axis=-1) + RIDGE
        return (self.reward + self.count @ next_value) / weight, weight**-0.5


class LinearData(eqx.Module):
    """Inverse covariance (by rank-one updates) and moments, in features phi(s, a)."""

    features: Float[Array, "s a d"]
    inverse: Float[Array, "d d"]
    reward: Float[Array, " d"]
    """sum of phi r"""
    next_state: Float[Array, "d next"]
    """sum of phi 1[s' = next]"""

    def add(self, seen: Transition) -> LinearData:
        phi = self.features[seen.state, seen.action]
        along = self.inverse @ phi
        return LinearData(
            self.features,
            self.inverse - jnp.outer(along, along) / (1.0 + along @ phi),
            self.reward + phi * seen.reward,
            self.next_state.at[:, seen.next_state].add(phi),
        )

    def fit(self, next_value: Float[Array, " s"]) -> tuple[Float[Array, "s a"], Float[Array, "s a"]]:
        weights = self.inverse @ (self.reward + self.next_state @ next_value)
        spread = (self.features @ self.inverse * self.features).sum(axis=-1)
        return self.features @ weights, jnp.sqrt(jnp.maximum(spread, 0.0))


def from_counts(mdp: MDP, count: Float[Array, "s a next"], reward: Float[Array, "s a"]) -> TabularData | LinearData:
    """The data of one step's counts, in the form the MDP's features ask for."""
    if mdp.features is None:
        return TabularData(count, reward)
    phi = mdp.features
    covariance = jnp.einsum("sad,sa,sae->de", phi, count.sum(axis=-1), phi)
    return LinearData(
        features=phi,
        inverse=jnp.linalg.inv(covariance + RIDGE * jnp.eye(phi.shape[-1])),
        reward=jnp.einsum("sad,sa->d", phi, reward),
        next_state=jnp.einsum("sad,san->dn", phi, count),
    )


def sample_offline(
    instance: Instance, size: Int[Array, ""] | int, key: Key[Array, ""], *, buffer: int
) -> tuple[TabularData | LinearData, ...]:
    """`size` independent tuples for every step: (s, a) ~ nu_h, r ~ R(s, a), s' ~ P(s, a).

    `size` may be traced, so one compilation serves every size up to `buffer`.
    """
    mdp, offline = instance.mdp, instance.offline
    horizon, states, actions = offline.shape
    pick_key, reward_key, next_key = jax.random.split(key, 3)
    uniform = [jax.random.uniform(k, (horizon, buffer)) for k in (pick_key, reward_key, next_key)]
    pair = draw(jnp.cumsum(offline.reshape(horizon, 1, -1), axis=-1), uniform[0])  # [h, buffer]
    steps = jnp.arange(horizon)[:, None]
    state, action = pair // actions, pair % actions
    reward = uniform[1] < mdp.reward_mean[steps, state, action]
    next_state = draw(jnp.cumsum(mdp.transition, axis=-1)[steps, state, action], uniform[2])
    used = (jnp.arange(buffer) < size).astype(offline.dtype)
    count = jnp.zeros((horizon, states, actions, states)).at[steps, state, action, next_state].add(used)
    total = jnp.zeros_like(offline).at[steps, state, action].add(used * reward)
    return tuple(from_counts(mdp, count[h], total[h]) for h in range(horizon))


def draw(cumulative: Float[Array, "*n k"], uniform: Float[Array, "*n"]) -> Int[Array, "*n"]:
    """Inverse-distribution draw from uniform numbers in [0, 1); an entry of probability 0 is never drawn."""
    return (cumulative <= uniform[..., None] * cumulative[..., -1:]).sum(axis=-1)
