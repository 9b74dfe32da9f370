"""What AWAC, IQL and the TD3 family share: options, and critics trained by TD."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from calql.methods import losses
from calql.methods.actor_options import ActorName, ActorOptions
from calql.methods.base import Defaults, Metrics, State, Transitions
from calql.methods.learner_options import Widths
from calql.networks import DENSITY, Critics, Initialiser, q_values
from calql.system.options import Count, Positive, ShareAboveZero, ShareBelowOne


@dataclass(frozen=True)
class OffPolicyOptions(ActorOptions):
    """Options of a policy and an ensemble of critics, each with its Adam."""

    policy_widths: Widths = (256, 256)
    """Hidden widths of the policy."""
    critic_widths: Widths = (256, 256)
    """Hidden widths of each critic (and of the value network, where there is one)."""
    critics: Count = 2
    """Q-functions in the ensemble."""
    batch_size: Count = 256
    """Transitions in one minibatch."""
    discount: ShareBelowOne = 0.99
    policy_rate: Positive = 3e-4
    """Adam step size of the policy."""
    critic_rate: Positive = 3e-4
    """Adam step size of the critics (and of the value network)."""
    target_rate: ShareAboveZero = 0.005
    """Share of the new networks in their targets, each time these move."""
    target_bounds: bool = False
    """Cut TD targets to what rewards like those seen so far can add up to."""


@dataclass(frozen=True)
class WeightedCloningOptions(OffPolicyOptions):
    """Options of a policy that clones logged actions, the better ones more."""

    actor: ActorName = "gaussian"
    initialiser: Initialiser = "orthogonal"
    """How layers start, named after the code bases that have it."""
    weight_cap: Positive = 100.0
    """Largest exponential weight of one transition in the policy's loss."""

    @property
    def actor_needs(self) -> frozenset[str]:
        return frozenset({DENSITY})


class OffPolicy(Defaults):
    """A method with critics."""

    def value(self, state: State, observations: jax.Array, actions: jax.Array) -> jax.Array:
        critics = state.critics.parameters
        return jnp.mean(q_values(critics, critics.encode(observations), actions), axis=0)


def td_loss(
    critics: Critics,
    batch: Transitions,
    discount: jax.Array,
    next_values: jax.Array,
    *,
    below: jax.Array | float = 0.0,
    ceiling: float = math.inf,
) -> tuple[jax.Array, Metrics]:
    """Squared error towards r + discount (1 - terminal) V(s'), summed over critics.

    `below`: how far V may lie below all possible returns; `ceiling`: what Q is cut off at.
    """
    bounds = None if batch.returns is None else losses.target_bounds(batch.returns, below=below)
    target = losses.backup(batch.rewards, batch.terminals, discount, next_values, bounds)
    q = losses.at_most(q_values(critics, critics.encode(batch.observations), batch.actions), ceiling)
    errors = losses.squared_error(q, target)
    loss = jnp.sum(errors)
    return loss, {
        "critic_loss": loss,
        "td_loss": jnp.mean(errors),
        "average_q_batch": jnp.mean(q),
        "average_target": jnp.mean(target),
        **({} if bounds is None else {"bounded_targets": losses.bounded_share(target, bounds)}),
    }


def least_q(critics: Critics, observations: jax.Array, actions: jax.Array, ceiling: float = math.inf) -> jax.Array:
    """min over critics of Q(s, a) [batch]."""
    q = losses.at_most(q_values(critics, critics.encode(observations), actions), ceiling)
    return jnp.min(q, axis=0)
