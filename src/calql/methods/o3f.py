"""O3F (Mark et al., 2022): the offline objective goes on unchanged; only the choice of actions is optimistic.

Online, candidates around the policy's action are scored by the mean of a critic ensemble and the best
one is played. The offline learner underneath is TD3+BC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from calql.methods.base import Carry, Moment, Transitions, own_defaults
from calql.methods.td3_bc import TD3BC, TD3BCOptions, TD3State
from calql.networks import Critics, DeterministicPolicy, draws, q_values


@dataclass(frozen=True)
class O3FOptions(TD3BCOptions):
    """O3F on TD3+BC; the paper of Cal-QL publishes no values, these are a public re-implementation's."""

    critics: int = 5
    critic_layer_norm: bool = True
    candidates: int = 100
    """Actions scored for each one played."""
    candidate_noise: float = 0.2
    """Standard deviation of the candidates around the policy's action."""
    optimism: float = 0.0
    """Weight of the ensemble's standard deviation in the score, next to its mean."""
    optimistic_backup: bool = False
    """Let the TD target use the best of the candidates at s' too, valued by the least critic."""


class Explorer(NamedTuple):
    policy: DeterministicPolicy
    critics: Critics


@dataclass(frozen=True)
class O3F(TD3BC):
    options: O3FOptions

    def score(self, q: jax.Array) -> jax.Array:
        """Mean over critics [critic, ...], plus optimism times their spread."""
        return jnp.mean(q, axis=0) + self.options.optimism * jnp.std(q, axis=0)

    def candidates(self, actions: jax.Array, key: jax.Array) -> jax.Array:
        """[batch, action] to [batch, candidate, action], cut to the box."""
        shape = (actions.shape[0], self.options.candidates, actions.shape[1])
        noise = self.options.candidate_noise * draws.normal("candidates", key, shape)
        return jnp.clip(actions[:, None] + noise, -1.0, 1.0)

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
        self, policy: Any, carry: Carry, moment: Moment, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        observation = moment.observation[None]
        action = policy.policy(observation)
        if not explore:
            return action[0], carry
        options = self.candidates(action, key)
        q = q_values(policy.critics, policy.critics.encode(observation), options)
        return options[0, jnp.argmax(self.score(q)[0])], carry


SETS = own_defaults(O3FOptions, "policy_widths", "critic_widths")
