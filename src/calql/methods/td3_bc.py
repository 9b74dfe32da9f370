"""TD3+BC (Fujimoto and Gu, 2021): TD3 whose policy also stays close to the logged actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from calql.methods import losses
from calql.methods.actor_options import ActorName
from calql.methods.base import (
    RATES,
    Carry,
    Metrics,
    TimeStep,
    Trained,
    Transitions,
    augment,
    learn,
    own_defaults,
    traced,
)
from calql.methods.entry import Compared, Entry
from calql.methods.off_policy import OffPolicy, OffPolicyOptions, least_q, td_loss
from calql.networks import (
    GRADIENTS,
    Actor,
    Critics,
    Initialiser,
    Spec,
    Style,
    draws,
    make_actor,
    make_encoder,
    move_towards,
    q_values,
)
from calql.system.options import Count, NotNegative


@dataclass(frozen=True)
class TD3Options(OffPolicyOptions):
    """Options of TD3 with a policy kept close to the data; targets move when the policy does."""

    actor: ActorName = "deterministic"
    critic_layer_norm: bool = False
    """Layer norm after each hidden layer of the critics."""
    initialiser: Initialiser = "torch"
    """How layers start, named after the code bases that have it."""
    standardise: bool = True
    policy_delay: Count = 2
    """Critic updates to one of the policy."""
    policy_first: bool = False
    """The policy moves with the first of these critic updates (ReBRAC) and not with the last."""
    target_noise: NotNegative = 0.2
    """Standard deviation of the noise on the target policy's actions."""
    target_noise_clip: NotNegative = 0.5
    """Largest such noise."""
    exploration_noise: NotNegative = 0.1
    """Standard deviation of the noise on actions taken online."""

    @property
    def actor_needs(self) -> frozenset[str]:
        return frozenset({GRADIENTS})


@dataclass(frozen=True)
class TD3BCOptions(TD3Options):
    """TD3+BC, with the values of its paper."""

    ascent_weight: NotNegative = 2.5
    """Weight of Q, in units of its mean size, against the distance to logged actions."""


class Numbers(NamedTuple):
    discount: jax.Array
    policy_rate: jax.Array
    critic_rate: jax.Array
    target_rate: jax.Array
    target_noise: jax.Array
    target_noise_clip: jax.Array


class TD3State(NamedTuple):
    policy: Trained[Actor]
    critics: Trained[Critics]
    policy_target: Actor
    critic_targets: Critics
    numbers: Numbers
    online_updates: jax.Array  # int32: critic updates since the switch; -1 before it


@dataclass(frozen=True)
class TD3BC(OffPolicy):
    """TD3 as a whole; what keeps the policy near the data is in `policy_loss` and `next_value`."""

    options: Any  # TD3BCOptions, or those of a method built on this one
    varies: ClassVar[tuple[str, ...]] = (*RATES, "target_noise", "target_noise_clip")

    @property
    def minibatches(self) -> int:  # type: ignore[override]
        return int(self.options.policy_delay)

    def critic_loss(
        self, critics: Critics, state: TD3State, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Squared TD error towards r + discount V(s')."""
        discount, below = state.numbers.discount, self.below_returns(batch) / (1.0 - state.numbers.discount)
        return td_loss(critics, batch, discount, self.next_value(state, batch, key), below=below)

    def below_returns(self, batch: Transitions) -> float:
        """How much of each step's reward `next_value` may take away."""
        return 0.0

    def next_value(self, state: TD3State, batch: Transitions, key: jax.Array) -> jax.Array:
        """Least target critic at the target policy's action, smoothed by clipped noise."""
        actions = self.smoothed_action(state, batch, key)
        return least_q(state.critic_targets, batch.next_observations, actions)

    def smoothed_action(self, state: TD3State, batch: Transitions, key: jax.Array) -> jax.Array:
        n = state.numbers
        noise = n.target_noise * draws.normal("target/noise", key, batch.actions.shape)
        noise = jnp.clip(noise, -n.target_noise_clip, n.target_noise_clip)
        actions, _ = state.policy_target(batch.next_observations).sample(of_actor(key), name="target/action")
        return jnp.clip(actions + noise, -1.0, 1.0)

    def policy_loss(
        self, policy: Actor, state: TD3State, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """-weight Q1 / mean |Q1| + mean squared distance to the logged action."""
        actions, _ = policy(batch.observations).sample(key, name="policy/action")
        critics = state.critics.parameters
        q = q_values(critics, critics.encode(batch.observations), actions)[0]
        distance = jnp.mean((actions - batch.actions) ** 2)
        loss = losses.normalised_ascent(q, self.options.ascent_weight) + distance
        return loss, {"policy_loss": loss, "cloning_distance": distance}

    def critic_step(self, state: TD3State, batch: Transitions, key: jax.Array) -> tuple[TD3State, Metrics]:
        """One step of the critics. Targets stand still."""
        critics, metrics = learn(self.critic_loss, state.critics, state.numbers.critic_rate, state, batch, key)
        online = state.online_updates
        return state._replace(critics=critics, online_updates=online + (online >= 0)), metrics

    def full_step(self, state: TD3State, batch: Transitions, key: jax.Array) -> tuple[TD3State, Metrics]:
        """One step of the critics, one of the policy against the new critics, then the targets."""
        after, critic_metrics = self.critic_step(state, batch, key)
        before = after._replace(online_updates=state.online_updates)
        rate, key_policy = state.numbers.policy_rate, jax.random.fold_in(key, 2)
        policy, policy_metrics = learn(self.policy_loss, state.policy, rate, before, batch, key_policy)
        return self.move_targets(after._replace(policy=policy), state), critic_metrics | policy_metrics

    def move_targets(self, state: TD3State, before: TD3State) -> TD3State:
        """Targets a little nearer to the new networks; `before` is the state that the update started from."""
        rate = state.numbers.target_rate
        return state._replace(
            policy_target=move_towards(state.policy_target, state.policy.parameters, rate),
            critic_targets=move_towards(state.critic_targets, state.critics.parameters, rate),
        )

    def update(self, state: TD3State, batch: Transitions, key: jax.Array) -> tuple[TD3State, Metrics]:
        """`policy_delay` updates of the critics, with the first or the last of them one of policy and targets."""
        key_augment, key_critic = jax.random.split(key)
        inputs = (augment(batch, key_augment, state), jax.random.split(key_critic, self.minibatches))
        chosen = 0 if self.options.policy_first else self.minibatches - 1
        full = jax.tree.map(lambda leaf: leaf[chosen], inputs)
        others = jax.tree.map(lambda leaf: leaf[1:] if self.options.policy_first else leaf[:-1], inputs)

        def step(state: TD3State, inputs: tuple[Transitions, jax.Array]) -> tuple[TD3State, Metrics]:
            return self.critic_step(state, *inputs)

        if self.options.policy_first:
            state, full_metrics = self.full_step(state, *full)
        state, stacked = jax.lax.scan(step, state, others)
        if not self.options.policy_first:
            state, full_metrics = self.full_step(state, *full)
        return state, full_metrics | _averages(stacked, full_metrics)

    def act(
        self, policy: Any, carry: Carry, time_step: TimeStep, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        action, carry = super().act(policy, carry, time_step, of_actor(key), explore=explore)
        if explore:
            noise = self.options.exploration_noise * jax.random.normal(key, action.shape)
            action = jnp.clip(action + noise, -1.0, 1.0)
        return action, carry

    def init(self, key: jax.Array, spec: Spec) -> TD3State:
        o = self.options
        policy_style, critic_style = self.styles()
        key_policy, key_critic, key_encoders = jax.random.split(key, 3)
        encoders = [make_encoder(spec, k, standardise=o.standardise) for k in jax.random.split(key_encoders)]
        policy = make_actor(
            o.actor, *encoders[0], spec.action_dim, o.policy_widths, key=key_policy, style=policy_style, options=o
        )
        critics = Critics(
            *encoders[1],
            spec.action_dim,
            o.critic_widths,
            count=o.critics,
            key=key_critic,
            layer_norm=o.critic_layer_norm,
            style=critic_style,
        )
        return TD3State(
            policy=Trained.fresh(policy),
            critics=Trained.fresh(critics),
            policy_target=policy,
            critic_targets=critics,
            numbers=traced(Numbers, o),
            online_updates=jnp.int32(-1),
        )

    def styles(self) -> tuple[Style, Style]:
        """Of the policy and of the critics."""
        return Style(self.options.initialiser), Style(self.options.initialiser)


def of_actor(key: jax.Array) -> jax.Array:
    """For what an actor draws itself, beside the noise that TD3 adds under the key; a deterministic one draws none."""
    return jax.random.fold_in(key, 1)


def _averages(stacked: Metrics, one: Metrics) -> Metrics:
    """Means over all minibatches of what each of them has: those of a loop [minibatch], and the one beside it."""
    return {name: jnp.mean(jnp.append(values, one[name])) for name, values in stacked.items()}


SETS = own_defaults(TD3BCOptions, "policy_widths", "critic_widths")

METHODS = {
    "td3-bc": Entry(
        "TD3 with a policy kept near the data",
        TD3BCOptions,
        TD3BC,
        sets=SETS,
        on={
            "antmaze": {"standardise": False},
            "point-maze": {"policy_widths": (64, 64), "critic_widths": (64, 64), "policy_rate": 1e-3},
        },
        update_cost=0.4,
        compared=Compared((0.2, 1.0), "held to data that go everywhere"),
        place=11,
        title="TD3+BC",
    )
}
