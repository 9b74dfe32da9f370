"""O3F (Mark et al., 2022): the offline objective goes on unchanged; only the choice of actions is optimistic.

Online, candidates around the policy's action are scored by the mean of a critic ensemble and the best
one is played. The offline learner underneath is TD3+BC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from calql.methods.base import Carry, TimeStep, Transitions, own_defaults
from calql.methods.entry import Compared, Entry
from calql.methods.td3_bc import TD3BC, TD3BCOptions, TD3State, of_actor
from calql.networks import ActionDistribution, Actor, Critics, draws, q_values
from calql.system.options import Count, Finite, NotNegative


@dataclass(frozen=True)
class O3FOptions(TD3BCOptions):
    """O3F on TD3+BC; the paper of Cal-QL publishes no values, these are a public re-implementation's."""

    critics: int = 5
    critic_layer_norm: bool = True
    candidates: Count = 100
    """Actions scored for each one played."""
    candidate_noise: NotNegative = 0.2
    """Standard deviation of the candidates around the policy's action."""
    optimism: Finite = 0.0
    """Weight of the ensemble's standard deviation in the score, next to its mean."""
    optimistic_backup: bool = False
    """Let the TD target use the best of the candidates at s' too, valued by the least critic."""


class Explorer(NamedTuple):
    policy: Actor
    critics: Critics


@dataclass(frozen=True)
class O3F(TD3BC):
    options: O3FOptions

    def score(self, q: jax.Array) -> jax.Array:
        """Mean over critics [critic, ...], plus optimism times their spread."""
        return jnp.mean(q, axis=0) + self.options.optimism * jnp.std(q, axis=0)

    def candidates(self, distribution: ActionDistribution, key: jax.Array) -> jax.Array:
        """Around actions of the policy [batch, candidate, action], cut to the box."""
        actions, _ = distribution.sample(of_actor(key), self.options.candidates, "candidates/actions")
        noise = self.options.candidate_noise * draws.normal("candidates", key, actions.shape)
        return jnp.clip(actions + noise, -1.0, 1.0)

    def next_value(self, state: TD3State, batch: Transitions, key: jax.Array) -> jax.Array:
        if not self.options.optimistic_backup:
            return super().next_value(state, batch, key)
        actions = self.candidates(state.policy_target(batch.next_observations), key)
        targets = state.critic_targets
        q = q_values(targets, targets.encode(batch.next_observations), actions)  # [critic, batch, candidate]
        best = jnp.argmax(self.score(q), axis=-1)
        return jnp.take_along_axis(jnp.min(q, axis=0), best[:, None], axis=-1)[:, 0]

    def policy(self, state: TD3State) -> Explorer:
        return Explorer(state.policy.parameters, state.critics.parameters)

    def act(
        self, policy: Any, carry: Carry, time_step: TimeStep, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        observation = time_step.observation[None]
        distribution = policy.policy(observation)
        if not explore:
            return distribution.mode()[0], carry
        options = self.candidates(distribution, key)
        q = q_values(policy.critics, policy.critics.encode(observation), options)
        return options[0, jnp.argmax(self.score(q)[0])], carry


SETS = own_defaults(O3FOptions, "policy_widths", "critic_widths")

METHODS = {
    "o3f": Entry(
        "TD3+BC that collects with optimistic actions",
        O3FOptions,
        O3F,
        sets=SETS,
        on={
            "point-maze": {
                "policy_widths": (64, 64),
                "critic_widths": (64, 64),
                "policy_rate": 1e-3,
                "candidates": 20,
            }
        },
        update_cost=0.6,
        small={"candidates": 20},
        smoke={"critics": 2, "candidates": 2},
        compared=Compared((0.2, 1.0), "TD3+BC with better data online"),
        place=12,
        title="O3F",
    )
}
