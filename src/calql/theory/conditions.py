"""What the learner is given: a reference policy mu and a distribution nu of offline data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from calql.theory.mdp import MDP, occupancy, one_hot_greedy, optimal_q, policy_q


class Instance(eqx.Module):
    """An MDP, what is exactly true of it, and what the learner is given."""

    mdp: MDP
    optimal_q: Float[Array, "h s a"]
    reference_q: Float[Array, "h s a"]
    """Q^mu of the reference policy: the learner knows it, as line 9 of Algorithm 2 supposes."""
    reference_policy: Float[Array, "h s a"]
    offline: Float[Array, "h s a"]
    """nu_h(s, a): the distribution the offline tuples of step h are drawn from."""


Condition = Callable[[MDP, Array], tuple[Array, Array]]
"""(MDP, Q*) -> (reference policy, offline distribution)."""


def make_instance(mdp: MDP, condition: Condition) -> Instance:
    """The exact values of an MDP under one condition."""
    best = optimal_q(mdp)
    policy, offline = condition(mdp, best)
    return Instance(mdp, best, policy_q(mdp, policy), policy, offline)


def near_optimal(mdp: MDP, best: Float[Array, "h s a"]) -> tuple[Array, Array]:
    """The optimal action, but one at random in 5 steps of 100; the data is its own behaviour."""
    policy = _slipping(best, 0.05)
    return policy, occupancy(mdp, policy)


def near_optimal_thin(mdp: MDP, best: Float[Array, "h s a"]) -> tuple[Array, Array]:
    """The same reference, but the data comes from acting at random: it covers the optimal path thinly."""
    return _slipping(best, 0.05), occupancy(mdp, _uniform(best))


def narrow_and_poor(mdp: MDP, best: Float[Array, "h s a"]) -> tuple[Array, Array]:
    """The worst action, but one at random in 10 steps of 100; the data is its own behaviour."""
    policy = _slipping(-best, 0.1)
    return policy, occupancy(mdp, policy)


def broad_and_poor(mdp: MDP, best: Float[Array, "h s a"]) -> tuple[Array, Array]:
    """Actions at random, and data spread evenly over all states and actions at every step."""
    return _uniform(best), jnp.full_like(best, 1 / (best.shape[-1] * best.shape[-2]))


def _uniform(best: Float[Array, "h s a"]) -> Float[Array, "h s a"]:
    return jnp.full_like(best, 1 / best.shape[-1])


def _slipping(q: Float[Array, "h s a"], slip: float) -> Float[Array, "h s a"]:
    return (1 - slip) * one_hot_greedy(q) + slip * _uniform(q)


CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "near-optimal": near_optimal,
        "near-optimal-thin": near_optimal_thin,
        "narrow-and-poor": narrow_and_poor,
        "broad-and-poor": broad_and_poor,
    }
)
