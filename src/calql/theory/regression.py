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


class Tuples(NamedTuple):
    """One (s, a, r, s') for each step."""

    state: Int[Array, " h"]
    action: Int[Array, " h"]
    reward: Float[Array, " h"]
    next_state: Int[Array, " h"]


class Data(Protocol):
    """Aggregated tuples of all steps."""

    def add(self, tuples: Tuples) -> Self:
        """The data with one more tuple at every step."""

    def fit(self, step: int, next_value: Float[Array, " s"]) -> tuple[Float[Array, "s a"], Float[Array, "s a"]]:
        """Ridge least squares of r + next_value(s') at one step, and its width ||phi||_{Lambda^-1}."""


class TabularData(eqx.Module):
    """Counts."""

    count: Float[Array, "h s a next"]
    reward: Float[Array, "h s a"]

    def add(self, tuples: Tuples) -> TabularData:
        steps = jnp.arange(self.count.shape[0])
        where = (steps, tuples.state, tuples.action)
        return TabularData(
            self.count.at[(*where, tuples.next_state)].add(1.0), self.reward.at[where].add(tuples.reward)
        )

    def fit(self, step: int, next_value: Float[Array, " s"]) -> tuple[Float[Array, "s a"], Float[Array, "s a"]]:
        weight = self.count[step].sum(axis=-1) + RIDGE
        return (self.reward[step] + self.count[step] @ next_value) / weight, weight**-0.5


class LinearData(eqx.Module):
    """Inverse covariance (by rank-one updates) and moments, in features phi(s, a)."""

    features: Float[Array, "s a d"]
    inverse: Float[Array, "h d d"]
    reward: Float[Array, "h d"]
    """sum of phi r"""
    next_state: Float[Array, "h d next"]
    """sum of phi 1[s' = next]"""

    def add(self, tuples: Tuples) -> LinearData:
        phi = self.features[tuples.state, tuples.action]  # [h, d]
        steps = jnp.arange(phi.shape[0])
        along = jnp.einsum("hde,he->hd", self.inverse, phi)
        shrink = 1.0 + jnp.einsum("hd,hd->h", along, phi)
        return LinearData(
            self.features,
            self.inverse - along[:, :, None] * along[:, None, :] / shrink[:, None, None],
            self.reward + phi * tuples.reward[:, None],
            self.next_state.at[steps, :, tuples.next_state].add(phi),
        )

    def fit(self, step: int, next_value: Float[Array, " s"]) -> tuple[Float[Array, "s a"], Float[Array, "s a"]]:
        weights = self.inverse[step] @ (self.reward[step] + self.next_state[step] @ next_value)
        spread = jnp.einsum("sad,de,sae->sa", self.features, self.inverse[step], self.features)
        return self.features @ weights, jnp.sqrt(spread)


def from_counts(mdp: MDP, count: Float[Array, "h s a next"], reward: Float[Array, "h s a"]) -> TabularData | LinearData:
    """The data of given counts, in the form the MDP's features ask for."""
    if mdp.features is None:
        return TabularData(count, reward)
    phi = mdp.features
    covariance = jnp.einsum("sad,hsa,sae->hde", phi, count.sum(axis=-1), phi)
    return LinearData(
        features=phi,
        inverse=jnp.linalg.inv(covariance + RIDGE * jnp.eye(phi.shape[-1])),
        reward=jnp.einsum("sad,hsa->hd", phi, reward),
        next_state=jnp.einsum("sad,hsan->hdn", phi, count),
    )


def sample_offline(
    instance: Instance, size: Int[Array, ""] | int, key: Key[Array, ""], *, buffer: int
) -> TabularData | LinearData:
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
    return from_counts(mdp, count, jnp.zeros_like(offline).at[steps, state, action].add(used * reward))


def draw(cumulative: Float[Array, "*n k"], uniform: Float[Array, "*n"]) -> Int[Array, "*n"]:
    """Inverse-distribution draw; rounding never draws past the last entry of positive probability."""
    return (cumulative < uniform[..., None] * cumulative[..., -1:]).sum(axis=-1)
