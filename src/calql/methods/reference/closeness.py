"""How near policies stay to logged actions, on episodes that training never saw.

A value from logs alone is a guess where a policy does what nobody logged, so it is never shown without these. Of
continuous actions: the squared distance. Of discrete ones, between which there is none: how often the policy chooses
what was logged, and how likely the logged choices are to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from calql.data import Dataset
from calql.methods.base import Method, Policy, allowing
from calql.methods.reference.fqe import actions_of, chunks
from calql.methods.vocabulary import ACTION_DISTANCE, HELD_OUT_AGREEMENT, HELD_OUT_LIKELIHOOD
from calql.networks import DENSITY, Actor


def closeness(method: Method, policies: Policy, logged: Dataset) -> list[dict[str, float | None]]:
    """Of each policy [policy, ...] that looks at the observation alone."""
    acted = actions_of(method, policies, logged.observations, logged.action_masks)
    if not logged.discrete:
        return [{ACTION_DISTANCE: float(each.mean())} for each in np.square(acted - logged.actions)]
    same = np.all(acted == logged.actions, axis=2).mean(axis=1)
    return [
        {HELD_OUT_AGREEMENT: float(share), HELD_OUT_LIKELIHOOD: likelihood}
        for share, likelihood in zip(same, log_likelihoods(policies, logged, len(same)), strict=True)
    ]


def log_likelihoods(policies: Policy, logged: Dataset, count: int) -> Sequence[float | None]:
    """Mean log-probability of the logged choices to each of so many policies; None to those without probabilities."""
    if not (isinstance(policies, Actor) and DENSITY in policies.gives):
        return [None] * count

    def one(policy: Any, observations: jax.Array, actions: jax.Array, masks: jax.Array | None) -> jax.Array:
        return jnp.sum(allowing(policy(observations), masks).log_prob(actions))

    every = jax.jit(jax.vmap(one, in_axes=(0, None, None, None)))
    masks = logged.action_masks
    sums = [
        np.asarray(every(policies, logged.observations[r], logged.actions[r], None if masks is None else masks[r]))
        for r in chunks(len(logged))
    ]
    means = np.stack(sums).sum(axis=0, dtype=np.float64) / len(logged)
    return [float(mean) for mean in means.tolist()]
