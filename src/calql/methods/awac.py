"""AWAC (Nair et al., 2020): a critic of the present policy, and a policy cloned by advantage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from calql import losses
from calql.methods.base import (
    Metrics,
    Trained,
    Transitions,
    augment,
    last_minibatch,
    learn,
    own_defaults,
    require,
    traced,
)
from calql.methods.learner_options import Widths
from calql.methods.off_policy import WeightedCloning, WeightedCloningOptions, least_q, td_loss
from calql.networks import (
    BoundedGaussianPolicy,
    Critics,
    Spec,
    Style,
    clipped_sample,
    make_encoder,
    move_towards,
    normal_log_prob,
)

LOG_STD_RANGE = (-10.0, 2.0)


@dataclass(frozen=True)
class AWACOptions(WeightedCloningOptions):
    """Options of AWAC; the defaults are the paper's baseline on AntMaze."""

    policy_widths: Widths = (256, 256, 256, 256)
    critic_widths: Widths = (256, 256, 256, 256)
    batch_size: int = 1024
    """Transitions in one batch; the softmax runs over it."""
    weight_decay: float = 1e-4
    """Decoupled decay of the policy's parameters (AdamW)."""
    temperature: float = 1.0
    """Lagrange multiplier lambda: weights follow A / lambda (adroit: 0.3)."""
    weighting: Literal["softmax", "exponential"] = "softmax"
    """Weights by a softmax over the batch (jaxrl, the paper's baseline), or by exp(A / lambda) (CORL)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.temperature > 0.0, "temperature", self.temperature, "above 0")


class Numbers(NamedTuple):
    discount: jax.Array
    policy_rate: jax.Array
    critic_rate: jax.Array
    target_rate: jax.Array
    weight_decay: jax.Array
    temperature: jax.Array


class AWACState(NamedTuple):
    policy: Trained[BoundedGaussianPolicy]
    critics: Trained[Critics]
    targets: Critics
    numbers: Numbers


@dataclass(frozen=True)
class AWAC(WeightedCloning):
    options: AWACOptions

    def critic_loss(
        self, critics: Critics, state: AWACState, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Squared TD error towards r + discount min Q(s', a'), a' from the policy, no entropy."""
        actions = clipped_sample(state.policy.parameters(batch.next_observations), key)
        after = least_q(state.targets, batch.next_observations, actions)
        return td_loss(critics, batch, state.numbers.discount, after)

    def policy_loss(
        self,
        policy: BoundedGaussianPolicy,
        critics: Critics,
        batch: Transitions,
        temperature: jax.Array,
        key: jax.Array,
    ) -> tuple[jax.Array, Metrics]:
        """Cloning of logged actions, weighted by their advantage over one action of the policy."""
        gaussian = policy(batch.observations)
        own_actions = jax.lax.stop_gradient(clipped_sample(gaussian, key))
        logged, drawn = (least_q(critics, batch.observations, a) for a in (batch.actions, own_actions))
        advantages = logged - drawn
        if self.options.weighting == "softmax":
            weights = losses.softmax_weights(advantages, temperature)
        else:
            capped = losses.exponential_weights(advantages, 1.0 / temperature, self.options.weight_cap)
            weights = capped / len(advantages)
        loss = losses.weighted_cloning(weights, normal_log_prob(gaussian, batch.actions))
        return loss, {"policy_loss": loss, "advantage": jnp.mean(advantages), "largest_weight": jnp.max(weights)}

    def update(self, state: AWACState, batch: Transitions, key: jax.Array) -> tuple[AWACState, Metrics]:
        """Critics, their targets, then the policy against the new critics."""
        key_augment, key_critic, key_policy = jax.random.split(key, 3)
        rows, n = last_minibatch(augment(batch, key_augment)), state.numbers
        critics, critic_metrics = learn(self.critic_loss, state.critics, n.critic_rate, state, rows, key_critic)
        targets = move_towards(state.targets, critics.parameters, n.target_rate)
        policy, policy_metrics = learn(
            self.policy_loss, state.policy, n.policy_rate, critics.parameters, rows, n.temperature, key_policy
        )
        decayed = jax.tree.map(
            lambda new, old: new - n.policy_rate * n.weight_decay * old, policy.parameters, state.policy.parameters
        )
        state = AWACState(policy._replace(parameters=decayed), critics, targets, n)
        return state, critic_metrics | policy_metrics

    def init(self, key: jax.Array, spec: Spec) -> AWACState:
        o, style = self.options, Style(self.options.initialiser, output_gain=2.0**0.5)
        key_policy, key_critic, key_encoders = jax.random.split(key, 3)
        encoders = [make_encoder(spec, k) for k in jax.random.split(key_encoders)]
        policy = BoundedGaussianPolicy(
            *encoders[0],
            spec.action_dim,
            o.policy_widths,
            key=key_policy,
            log_std_range=LOG_STD_RANGE,
            style=style,
        )
        critics = Critics(*encoders[1], spec.action_dim, o.critic_widths, count=o.critics, key=key_critic, style=style)
        return AWACState(Trained.fresh(policy), Trained.fresh(critics), critics, traced(Numbers, o))


SETS = own_defaults(AWACOptions, "policy_widths", "critic_widths", "batch_size") | {
    "mixing": -1.0,  # one buffer, which starts as the dataset
}
