"""TD3+BC (Fujimoto and Gu, 2021): TD3 whose policy also stays close to the logged actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from calql import losses
from calql.methods.base import (
    Carry,
    Metrics,
    Moment,
    Trained,
    Transitions,
    augment,
    last_minibatch,
    learn,
    own_defaults,
    traced,
)
from calql.methods.off_policy import OffPolicy, OffPolicyOptions, least_q, td_loss
from calql.networks import Critics, DeterministicPolicy, Spec, Style, make_encoder, move_towards, q_values


@dataclass(frozen=True)
class TD3Options(OffPolicyOptions):
    """Options of TD3 with a policy kept close to the data; targets move when the policy does."""

    critic_layer_norm: bool = False
    """Layer norm after each hidden layer of the critics."""
    standardise: bool = True
    """Give observations to the networks in units of their spread in the logged data."""
    policy_delay: int = 2
    """Critic updates to one of the policy."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target policy's actions."""
    target_noise_clip: float = 0.5
    """Largest such noise."""
    exploration_noise: float = 0.1
    """Standard deviation of the noise on actions taken online."""


@dataclass(frozen=True)
class TD3BCOptions(TD3Options):
    """TD3+BC, with the values of its paper."""

    ascent_weight: float = 2.5
    """Weight of Q, in units of its mean size, against the distance to logged actions."""


class Numbers(NamedTuple):
    discount: jax.Array
    policy_rate: jax.Array
    critic_rate: jax.Array
    target_rate: jax.Array
    target_noise: jax.Array
    target_noise_clip: jax.Array


class TD3State(NamedTuple):
    policy: Trained[DeterministicPolicy]
    critics: Trained[Critics]
    policy_target: DeterministicPolicy
    critic_targets: Critics
    numbers: Numbers
    online_updates: jax.Array  # int32: policy updates since the switch; -1 before it


@dataclass(frozen=True)
class TD3BC(OffPolicy):
    """TD3 as a whole; what keeps the policy near the data is in `policy_loss` and `next_value`."""

    options: Any  # TD3BCOptions, or those of a method built on this one

    @property
    def minibatches(self) -> int:  # type: ignore[override]
        return int(self.options.policy_delay)

    def critic_loss(
        self, critics: Critics, state: TD3State, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Squared TD error towards r + discount V(s')."""
        return td_loss(critics, batch, state.numbers.discount, self.next_value(state, batch, key))

    def next_value(self, state: TD3State, batch: Transitions, key: jax.Array) -> jax.Array:
        """Least target critic at the target policy's action, smoothed by clipped noise."""
        actions = self.smoothed_action(state, batch, key)
        return least_q(state.critic_targets, batch.next_observations, actions)

    def smoothed_action(self, state: TD3State, batch: Transitions, key: jax.Array) -> jax.Array:
        n = state.numbers
        noise = n.target_noise * jax.random.normal(key, batch.actions.shape)
        noise = jnp.clip(noise, -n.target_noise_clip, n.target_noise_clip)
        return jnp.clip(state.policy_target(batch.next_observations) + noise, -1.0, 1.0)

    def policy_loss(
        self, policy: DeterministicPolicy, state: TD3State, batch: Transitions
    ) -> tuple[jax.Array, Metrics]:
        """-weight Q1 / mean |Q1| + mean squared distance to the logged action."""
        actions, critics = policy(batch.observations), state.critics.parameters
        q = q_values(critics, critics.encode(batch.observations), actions)[0]
        distance = jnp.mean((actions - batch.actions) ** 2)
        loss = losses.normalised_ascent(q, self.options.ascent_weight) + distance
        return loss, {"policy_loss": loss, "cloning_distance": distance}

    def update(self, state: TD3State, batch: Transitions, key: jax.Array) -> tuple[TD3State, Metrics]:
        """`policy_delay` updates of the critics, one of the policy on the last minibatch, then the targets."""
        key_augment, key_critic = jax.random.split(key)
        batch, n = augment(batch, key_augment), state.numbers

        def step(critics: Trained[Critics], inputs: tuple[Transitions, jax.Array]) -> tuple[Trained[Critics], Metrics]:
            rows, key = inputs
            return learn(self.critic_loss, critics, n.critic_rate, state, rows, key)

        keys = jax.random.split(key_critic, self.minibatches)
        critics, stacked = jax.lax.scan(step, state.critics, (batch, keys))
        state = state._replace(critics=critics)
        policy, policy_metrics = learn(self.policy_loss, state.policy, n.policy_rate, state, last_minibatch(batch))
        state = state._replace(
            policy=policy,
            policy_target=move_towards(state.policy_target, policy.parameters, n.target_rate),
            critic_targets=move_towards(state.critic_targets, critics.parameters, n.target_rate),
            online_updates=state.online_updates + (state.online_updates >= 0),
        )
        return state, jax.tree.map(jnp.mean, stacked) | policy_metrics

    def act(
        self, policy: Any, carry: Carry, moment: Moment, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        action = policy(moment.observation)
        if explore:
            noise = self.options.exploration_noise * jax.random.normal(key, action.shape)
            action = jnp.clip(action + noise, -1.0, 1.0)
        return action, carry

    def init(self, key: jax.Array, spec: Spec) -> TD3State:
        o, style = self.options, Style("lecun")
        key_policy, key_critic, key_encoders = jax.random.split(key, 3)
        encoders = [make_encoder(spec, k, standardise=o.standardise) for k in jax.random.split(key_encoders)]
        policy = DeterministicPolicy(*encoders[0], spec.action_dim, o.policy_widths, key=key_policy, style=style)
        critics = Critics(
            *encoders[1],
            spec.action_dim,
            o.critic_widths,
            count=o.critics,
            key=key_critic,
            layer_norm=o.critic_layer_norm,
            style=style,
        )
        return TD3State(
            policy=Trained.fresh(policy),
            critics=Trained.fresh(critics),
            policy_target=policy,
            critic_targets=critics,
            numbers=traced(Numbers, o),
            online_updates=jnp.int32(-1),
        )


SETS = own_defaults(TD3BCOptions, "policy_widths", "critic_widths")
