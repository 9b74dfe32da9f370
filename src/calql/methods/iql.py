"""IQL (Kostrikov et al., 2021): values of the best logged actions, and a policy cloned by advantage.

Nothing is ever asked of Q outside the data, so nothing has to be pushed down; the price is a policy
that leaves the data slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp

from calql.data.rewards import PER_STEP, RewardRule
from calql.methods import losses
from calql.methods.base import (
    RATES,
    Metrics,
    Trained,
    Transitions,
    allowing,
    augment,
    last_minibatch,
    learn,
    own_defaults,
    traced,
)
from calql.methods.entry import Compared, Entry
from calql.methods.off_policy import OffPolicy, WeightedCloningOptions, least_q, td_loss
from calql.networks import (
    DISCRETE,
    GRADIENTS,
    Actor,
    ChoiceCritics,
    Critics,
    Spec,
    Style,
    Value,
    log_density,
    make_actor,
    make_encoder,
    move_towards,
)
from calql.system.options import POOLED, CountOrZero, KeptIfMinusOne, NotNegative, OpenShare, ShareBelowOne, refused


@dataclass(frozen=True)
class IQLOptions(WeightedCloningOptions):
    """Options of IQL; the defaults are the paper's on AntMaze."""

    policy_std: NotNegative = 0.0
    """Standard deviation of the policy, kept at this value; 0 trains one number per action dimension."""
    policy_dropout: ShareBelowOne = 0.0
    """Share of hidden units of the policy that drop out in updates (kitchen: 0.1)."""
    policy_decay_updates: CountOrZero = 0
    """Updates over which a cosine takes the policy's step size to 0; 0 keeps it (the original offline: 1,000,000)."""
    expectile: OpenShare = 0.9
    """Level tau of the expectile that V regresses to: 1/2 is the mean over logged actions, 1 their best."""
    temperature: NotNegative = 10.0
    """Inverse temperature beta of the policy's weights exp(beta A)."""
    temperature_online: KeptIfMinusOne = -1.0
    """The same after the switch; negative keeps the offline one."""
    ascent_weight: NotNegative = 0.0
    """Weight of direct ascent on Q by the policy's own actions, next to the cloning."""
    ascent_weight_online: KeptIfMinusOne = -1.0
    """The same after the switch; negative keeps it. Above 0: the aggressive policy update of the paper's appendix E."""

    @property
    def ascends(self) -> bool:
        return self.ascent_weight > 0 or self.ascent_weight_online > 0

    @property
    def actor_needs(self) -> frozenset[str]:
        return super().actor_needs | ({GRADIENTS} if self.ascends else frozenset())


class Numbers(NamedTuple):
    discount: jax.Array
    policy_rate: jax.Array
    critic_rate: jax.Array
    target_rate: jax.Array
    expectile: jax.Array
    temperature: jax.Array
    ascent_weight: jax.Array


class IQLState(NamedTuple):
    policy: Trained[Actor]
    critics: Trained[Critics]
    value: Trained[Value]
    targets: Critics
    numbers: Numbers


@dataclass(frozen=True)
class IQL(OffPolicy):
    options: IQLOptions
    varies: ClassVar[tuple[str, ...]] = (*RATES, "expectile", "temperature", "temperature_online")

    def value_loss(self, value: Value, batch: Transitions, q: jax.Array, level: jax.Array) -> tuple[jax.Array, Metrics]:
        """Expectile of the target Q of logged actions."""
        v = value(batch.observations)
        loss = jnp.mean(losses.expectile(q - v, level))
        return loss, {"value_loss": loss, "average_value": jnp.mean(v)}

    def critic_loss(
        self, critics: Critics, value: Value, batch: Transitions, discount: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Squared TD error towards r + discount V(s')."""
        return td_loss(critics, batch, discount, value(batch.next_observations))

    def policy_loss(
        self, policy: Actor, state: IQLState, batch: Transitions, q: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Cloning of logged actions, weighted by exp(beta (Q - V)); with ascent on Q where that is asked for."""
        distribution = allowing(policy(batch.observations, key), batch.action_masks)
        advantages = q - state.value.parameters(batch.observations)
        weights = losses.exponential_weights(advantages, state.numbers.temperature, self.options.weight_cap)
        loss = losses.weighted_cloning(weights / len(q), log_density(distribution, batch.actions))
        if self.options.ascends:
            reached = least_q(state.targets, batch.observations, distribution.mode())
            loss = loss + losses.normalised_ascent(reached, state.numbers.ascent_weight)
        return loss, {"policy_loss": loss, "advantage": jnp.mean(advantages), "weight": jnp.mean(weights)}

    def update(self, state: IQLState, batch: Transitions, key: jax.Array) -> tuple[IQLState, Metrics]:
        """V, then the policy, then Q against the new V, then the targets."""
        key_augment, key_policy = jax.random.split(key)
        rows, n = last_minibatch(augment(batch, key_augment, state)), state.numbers
        q = least_q(state.targets, rows.observations, rows.actions)
        value, value_metrics = learn(self.value_loss, state.value, n.critic_rate, rows, q, n.expectile)
        state = state._replace(value=value)
        rate = self.policy_rate(state)
        policy, policy_metrics = learn(self.policy_loss, state.policy, rate, state, rows, q, key_policy)
        critics, critic_metrics = learn(
            self.critic_loss, state.critics, n.critic_rate, value.parameters, rows, n.discount
        )
        targets = move_towards(state.targets, critics.parameters, n.target_rate)
        state = state._replace(policy=policy, critics=critics, targets=targets)
        return state, value_metrics | policy_metrics | critic_metrics

    def policy_rate(self, state: IQLState) -> jax.Array:
        """The policy's step size at this update."""
        rate, last = state.numbers.policy_rate, self.options.policy_decay_updates
        if not last:
            return rate
        share = jnp.minimum(state.policy.adam.count / last, 1.0)
        return rate * 0.5 * (1.0 + jnp.cos(jnp.pi * share))

    def init(self, key: jax.Array, spec: Spec) -> IQLState:
        o, style = self.options, Style(self.options.initialiser, output_gain=2.0**0.5)
        key_policy, key_critic, key_value, key_encoders = jax.random.split(key, 4)
        encoders = [make_encoder(spec, k, standardise=o.standardise) for k in jax.random.split(key_encoders, 3)]
        actor, kind = (DISCRETE, ChoiceCritics) if spec.discrete else (o.actor, Critics)
        policy = make_actor(
            actor, *encoders[0], spec.action_dim, o.policy_widths, key=key_policy, style=style, options=o
        )
        critics: Any = kind(
            *encoders[1], spec.action_dim, o.critic_widths, count=o.critics, key=key_critic, style=style
        )
        value = Value(*encoders[2], o.critic_widths, key=key_value, style=style)
        return IQLState(
            Trained.fresh(policy), Trained.fresh(critics), Trained.fresh(value), critics, traced(Numbers, o)
        )

    def switch(self, state: IQLState) -> tuple[Self, IQLState]:
        """Another temperature or ascent online where asked for; nothing else changes."""
        o, n = self.options, state.numbers
        if o.temperature_online >= 0:
            n = n._replace(temperature=jnp.full_like(n.temperature, o.temperature_online))
        if o.ascent_weight_online >= 0:
            n = n._replace(ascent_weight=jnp.full_like(n.ascent_weight, o.ascent_weight_online))
        return self, state._replace(numbers=n)


def discrete(options: IQLOptions) -> IQL:
    """For discrete actions: a categorical policy and critics of all choices, the same losses."""
    if options.ascends:
        weight = max(options.ascent_weight, options.ascent_weight_online)
        raise refused("ascent_weight", weight, "0 with discrete actions, along which Q has no slope")
    return IQL(options)


SETS = own_defaults(IQLOptions, "policy_widths", "critic_widths")

# The method's own code for fine-tuning, where the paper's baseline is a fork: one buffer, no share kept for the data,
# a standard deviation that is always trained.
ORIGINAL = {"mixing": POOLED, "policy_std": 0.0}

METHODS = {
    "iql": Entry(
        "expectile values, advantage-weighted cloning",
        IQLOptions,
        IQL,
        discrete=discrete,
        sets=SETS,
        original=ORIGINAL,
        on={
            "antmaze": {"expectile": 0.9, "temperature": 10.0},
            "adroit": {"expectile": 0.8, "temperature": 3.0, "mixing": 0.2, "policy_std": 0.03},
            "kitchen": {"expectile": 0.7, "temperature": 0.5, "mixing": 0.25, "policy_dropout": 0.1},
            "pick-place": {"expectile": 0.7, "temperature": 10.0},
            "locomotion": {"expectile": 0.7, "temperature": 3.0},
            "point-maze": {
                "policy_widths": (64, 64),
                "critic_widths": (64, 64),
                "policy_rate": 1e-3,
                "expectile": 0.9,
                "temperature": 3.0,
            },
        },
        # Weights by advantage are in units of reward: a cost of 1 a step where rewards are 0 and 1. On locomotion its
        # code, the original and the paper's fork, scales logged rewards and inserts collected ones as they are.
        rewards={
            "antmaze": PER_STEP,
            "adroit": RewardRule(failure=-1.0),
            "pick-place": PER_STEP,
            "locomotion": RewardRule(scale=1_000.0, by_return_range=True, logged_only=True),
            "point-maze": PER_STEP,
        },
        update_cost=0.4,
        compared=Compared((0.2, 1.0), "improves slowly: its policy stays with logged actions"),
        place=9,
        title="IQL",
    )
}
