"""AWAC (Nair et al., 2020): a critic of the present policy, and a policy cloned by advantage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from calql import losses
from calql.methods.base import (
    Carry,
    Defaults,
    Metrics,
    Moment,
    Trained,
    Transitions,
    augment,
    last_minibatch,
    learn,
    require,
    traced,
)
from calql.methods.learner_options import Widths
from calql.networks import (
    BoundedGaussianPolicy,
    Critics,
    Initialiser,
    Spec,
    Style,
    clipped_sample,
    make_encoder,
    move_towards,
    normal_log_prob,
    q_values,
)

LOG_STD_RANGE = (-10.0, 2.0)


@dataclass(frozen=True)
class AWACOptions:
    """Options of AWAC; the defaults are the paper's baseline on AntMaze."""

    policy_widths: Widths = (256, 256, 256, 256)
    """Hidden widths of the policy."""
    critic_widths: Widths = (256, 256, 256, 256)
    """Hidden widths of each critic."""
    critics: int = 2
    """Q-functions."""
    initialiser: Initialiser = "orthogonal"
    """Kernel initialiser; biases start at 0."""
    batch_size: int = 1024
    """Transitions in one batch; the softmax runs over it."""
    discount: float = 0.99
    policy_rate: float = 3e-4
    """Adam step size of the policy."""
    critic_rate: float = 3e-4
    """Adam step size of the critics."""
    target_rate: float = 0.005
    """Share of the new critic in its target at every update."""
    weight_decay: float = 1e-4
    """Decoupled decay of the policy's parameters (AdamW)."""
    temperature: float = 1.0
    """Lagrange multiplier lambda: weights follow A / lambda (adroit: 0.3)."""
    weighting: Literal["softmax", "exponential"] = "softmax"
    """Weights by a softmax over the batch (jaxrl, the paper's baseline), or by exp(A / lambda) (CORL)."""
    weight_cap: float = 100.0
    """Largest exponential weight of one transition."""

    def __post_init__(self) -> None:
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
class AWAC(Defaults):
    options: AWACOptions

    def critic_loss(
        self, critics: Critics, state: AWACState, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Squared TD error towards r + discount min Q(s', a'), a' from the policy, no entropy."""
        actions = clipped_sample(state.policy.parameters(batch.next_observations), key)
        after = q_values(state.targets, state.targets.encode(batch.next_observations), actions)
        target = losses.backup(batch.rewards, batch.terminals, state.numbers.discount, jnp.min(after, axis=0))
        q = q_values(critics, critics.encode(batch.observations), batch.actions)
        loss = jnp.sum(losses.squared_error(q, target))
        return loss, {"critic_loss": loss, "average_q_batch": jnp.mean(q), "average_target": jnp.mean(target)}

    def policy_loss(
        self,
        policy: BoundedGaussianPolicy,
        critics: Critics,
        batch: Transitions,
        temperature: jax.Array,
        key: jax.Array,
    ) -> tuple[jax.Array, Metrics]:
        """Cloning of logged actions, weighted by their advantage over one action of the policy."""
        gaussian, features = policy(batch.observations), critics.encode(batch.observations)
        own = jax.lax.stop_gradient(clipped_sample(gaussian, key))
        advantages = jnp.min(q_values(critics, features, batch.actions), axis=0) - jnp.min(
            q_values(critics, features, own), axis=0
        )
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

    def act(
        self, policy: BoundedGaussianPolicy, carry: Carry, moment: Moment, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        gaussian = policy(moment.observation)
        return (clipped_sample(gaussian, key) if explore else gaussian.mean), carry

    def value(self, state: AWACState, observations: jax.Array, actions: jax.Array) -> jax.Array:
        critics = state.critics.parameters
        return jnp.mean(q_values(critics, critics.encode(observations), actions), axis=0)

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


SETS = {"mixing": -1.0}  # one buffer, which starts as the dataset
