"""Loss terms of discrete actions as pure functions of numbers: sums over all allowed actions, and no samples.

q [batch, choice] is Q of every action, masks [batch, choice] says which are allowed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from calql.networks import Categorical


def conservative_gap(
    q: jax.Array,
    q_data: jax.Array,
    masks: jax.Array,
    *,
    reference: jax.Array | None = None,
    temperature: float = 1.0,
    subtract_log_count: bool = False,
) -> jax.Array:
    """How far the soft maximum of Q over the allowed actions stands above Q of the logged one [batch].

    Cal-QL's bound holds for every action of the sum: max(Q, reference [batch]). Q of the logged action that is taken
    off, q_data [batch], is as it is.
    """
    bounded = q if reference is None else jnp.maximum(q, reference[:, None])
    terms = jnp.where(masks, bounded / temperature, -jnp.inf)
    soft_maximum = temperature * jax.nn.logsumexp(terms, axis=-1)
    if subtract_log_count:
        soft_maximum = soft_maximum - temperature * jnp.log(jnp.sum(masks, axis=-1))
    return soft_maximum - q_data


def bound_rate(q: jax.Array, reference: jax.Array, distribution: Categorical) -> jax.Array:
    """Probability that an action of the policy has a Q below the reference [batch], on average over the batch."""
    return jnp.mean(distribution.expectation((q < reference[:, None]).astype(jnp.float32)))


def policy_loss(distribution: Categorical, q: jax.Array, alpha: jax.Array | float) -> jax.Array:
    """Mean over states of sum_a pi(a|s) (alpha log pi(a|s) - Q(s, a))."""
    return jnp.mean(distribution.expectation(alpha * distribution.log_probs - q))


def double_target(q: jax.Array, q_target: jax.Array, masks: jax.Array) -> jax.Array:
    """Double DQN's value of a state [batch]: the target's Q of the action that the online Q holds for the best."""
    best = jnp.argmax(jnp.where(masks, q, -jnp.inf), axis=-1, keepdims=True)
    return jnp.take_along_axis(q_target, best, axis=-1)[..., 0]
