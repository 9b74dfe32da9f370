"""AWAC (Nair et al., 2020): a critic of the present policy, and a policy cloned by advantage."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp

from calql.data.rewards import PER_STEP, RewardRule
from calql.methods import losses
from calql.methods.base import (
    RATES,
    Carry,
    Metrics,
    TimeStep,
    Trained,
    Transitions,
    augment,
    last_minibatch,
    learn,
    own_defaults,
    require,
    traced,
)
from calql.methods.entry import Compared, Entry
from calql.methods.learner_options import LogStdRange, Widths
from calql.methods.off_policy import OffPolicy, WeightedCloningOptions, least_q, td_loss
from calql.methods.optimise import descend
from calql.networks import (
    Actor,
    Critics,
    Spec,
    Style,
    log_density,
    make_actor,
    make_encoder,
    move_towards,
)
from calql.networks.actors import LogStdForm
from calql.system.options import POOLED, CountOrZero, NotNegative, Range


@dataclass(frozen=True)
class AWACOptions(WeightedCloningOptions):
    """Options of AWAC; the defaults are the paper's baseline on AntMaze, a fork of jaxrl."""

    policy_widths: Widths = (256, 256, 256, 256)
    critic_widths: Widths = (256, 256, 256, 256)
    batch_size: int = 1024
    """Transitions in one batch; the softmax runs over it."""
    batch_size_online: CountOrZero = 0
    """The same after the switch; 0 keeps the offline number."""
    weight_decay: NotNegative = 1e-4
    """Decay of the policy's parameters."""
    decay_form: Literal["decoupled", "gradient"] = "decoupled"
    """Decay the parameters themselves (AdamW), or add it to their gradient (rlkit)."""
    temperature: NotNegative = 1.0
    """Lagrange multiplier lambda: weights follow A / lambda (adroit: 0.3)."""
    weighting: Literal["softmax", "exponential"] = "softmax"
    """Weights by a softmax over the batch (jaxrl, the paper's baseline), or by exp(A / lambda) (CORL)."""
    log_std_range: LogStdRange = (-10.0, 2.0)
    """Bounds of the policy's log standard deviation."""
    log_std_form: LogStdForm = "clipped"
    """Cut it to these bounds, or let a sigmoid span them (rlkit)."""
    clip_samples: bool = True
    """Cut the policy's actions in the TD target to the box (rlkit: no)."""
    value_action: Literal["sample", "mean"] = "sample"
    """V(s) is Q of an action drawn from the policy, or of its mean (rlkit)."""
    advantage_critics: Literal["new", "old"] = "new"
    """The advantage is judged by the critics after their step, or before it (rlkit)."""
    advantage_cap: Annotated[float, Range(0.0, infinite=True)] = math.inf
    """Largest advantage that counts (rlkit: 0.5)."""
    q_ceiling: Annotated[float, Range(infinite=True)] = math.inf
    """Critics give at most this (rlkit: 0, the best return of its Adroit tasks)."""
    ignore_terminals: bool = False
    """Let every TD target go on after the step, whatever the data say (rlkit on Adroit)."""
    targets_apart: bool = False
    """Target critics start from a draw of their own, not as copies (rlkit)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.temperature > 0.0, "temperature", self.temperature, "above 0")
        require(self.batch_size_online >= 0, "batch_size_online", self.batch_size_online, "at least 0")


# The method's own code (rlkit, its Adroit example), where the paper's baseline is another.
ORIGINAL = {
    "policy_widths": (256, 256),
    "critic_widths": (256, 256),
    "initialiser": "rlkit",
    "batch_size": 128,
    "batch_size_online": 1024,
    "decay_form": "gradient",
    "temperature": 0.5,
    "log_std_range": (-6.0, 0.0),
    "log_std_form": "sigmoid",
    "clip_samples": False,
    "value_action": "mean",
    "advantage_critics": "old",
    "advantage_cap": 0.5,
    "q_ceiling": 0.0,
    "ignore_terminals": True,
    "targets_apart": True,
    "offline_updates": 25_000,
}


class Numbers(NamedTuple):
    discount: jax.Array
    policy_rate: jax.Array
    critic_rate: jax.Array
    target_rate: jax.Array
    weight_decay: jax.Array
    temperature: jax.Array


class AWACState(NamedTuple):
    policy: Trained[Actor]
    critics: Trained[Critics]
    targets: Critics
    numbers: Numbers


@dataclass(frozen=True)
class AWAC(OffPolicy):
    options: AWACOptions
    varies: ClassVar[tuple[str, ...]] = (*RATES, "weight_decay", "temperature")

    def critic_loss(
        self, critics: Critics, state: AWACState, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Squared TD error towards r + discount min Q(s', a'), a' from the policy, no entropy."""
        o = self.options
        actions, _ = state.policy.parameters(batch.next_observations).sample(key, name="target/action")
        after = least_q(state.targets, batch.next_observations, actions, o.q_ceiling)
        if o.ignore_terminals:
            batch = batch._replace(terminals=jnp.zeros_like(batch.terminals))
        return td_loss(critics, batch, state.numbers.discount, after, ceiling=o.q_ceiling)

    def policy_loss(
        self,
        policy: Actor,
        critics: Critics,
        batch: Transitions,
        temperature: jax.Array,
        key: jax.Array,
    ) -> tuple[jax.Array, Metrics]:
        """Cloning of logged actions, weighted by their advantage over what the policy does."""
        o, distribution = self.options, policy(batch.observations)
        if o.value_action == "mean":
            own = distribution.mode()
        else:
            own = self.in_box(distribution.sample(key, name="policy/action")[0])
        both = (batch.actions, jax.lax.stop_gradient(own))
        logged, reached = (least_q(critics, batch.observations, actions, o.q_ceiling) for actions in both)
        advantages = jnp.minimum(logged - reached, o.advantage_cap)
        if o.weighting == "softmax":
            weights = losses.softmax_weights(advantages, temperature)
        else:
            capped = losses.exponential_weights(advantages, 1.0 / temperature, o.weight_cap)
            weights = capped / len(advantages)
        loss = losses.weighted_cloning(weights, log_density(distribution, batch.actions))
        return loss, {"policy_loss": loss, "advantage": jnp.mean(advantages), "largest_weight": jnp.max(weights)}

    def policy_step(
        self, state: AWACState, critics: Critics, batch: Transitions, key: jax.Array
    ) -> tuple[Trained[Actor], Metrics]:
        """One Adam step of the policy, with the decay of its parameters."""
        n, old = state.numbers, state.policy.parameters
        (_, metrics), gradient = jax.value_and_grad(self.policy_loss, has_aux=True)(
            old, critics, batch, n.temperature, key
        )
        if self.options.decay_form == "gradient":
            gradient = jax.tree.map(lambda g, p: g + n.weight_decay * p, gradient, old)
        policy = Trained(*descend(gradient, state.policy.adam, old, n.policy_rate))
        if self.options.decay_form == "decoupled":
            decayed = jax.tree.map(lambda new, p: new - n.policy_rate * n.weight_decay * p, policy.parameters, old)
            policy = policy._replace(parameters=decayed)
        return policy, metrics

    def act(
        self, policy: Actor, carry: Carry, time_step: TimeStep, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        action, carry = super().act(policy, carry, time_step, key, explore=explore)
        return self.in_box(action), carry

    def in_box(self, actions: jax.Array) -> jax.Array:
        """Without `clip_samples` the actor's lie beyond the box, but only the TD target takes them as they are."""
        return actions if self.options.clip_samples else jnp.clip(actions, -1.0, 1.0)

    def update(self, state: AWACState, batch: Transitions, key: jax.Array) -> tuple[AWACState, Metrics]:
        """Critics and their targets, then the policy."""
        key_augment, key_critic, key_policy = jax.random.split(key, 3)
        rows, n = last_minibatch(augment(batch, key_augment, state)), state.numbers
        critics, critic_metrics = learn(self.critic_loss, state.critics, n.critic_rate, state, rows, key_critic)
        targets = move_towards(state.targets, critics.parameters, n.target_rate)
        judges = critics if self.options.advantage_critics == "new" else state.critics
        policy, policy_metrics = self.policy_step(state, judges.parameters, rows, key_policy)
        return AWACState(policy, critics, targets, n), critic_metrics | policy_metrics

    def init(self, key: jax.Array, spec: Spec) -> AWACState:
        o, (policy_style, critic_style) = self.options, self.styles()
        key_policy, key_critic, key_encoders = jax.random.split(key, 3)
        encoders = [make_encoder(spec, k, standardise=o.standardise) for k in jax.random.split(key_encoders)]
        policy = make_actor(
            o.actor, *encoders[0], spec.action_dim, o.policy_widths, key=key_policy, style=policy_style, options=o
        )

        def fresh(key: jax.Array) -> Critics:
            return Critics(*encoders[1], spec.action_dim, o.critic_widths, count=o.critics, key=key, style=critic_style)

        critics = fresh(key_critic)
        targets = fresh(jax.random.fold_in(key_critic, 1)) if o.targets_apart else critics
        return AWACState(Trained.fresh(policy), Trained.fresh(critics), targets, traced(Numbers, o))

    def styles(self) -> tuple[Style, Style]:
        """Of the policy and of the critics."""
        kind = self.options.initialiser
        bounds = (1e-3, 3e-3) if kind == "rlkit" else (2.0**0.5, 2.0**0.5)
        return Style(kind, output_gain=bounds[0]), Style(kind, output_gain=bounds[1])

    def switch(self, state: AWACState) -> tuple[Self, AWACState]:
        """Another batch size online where asked for; nothing else changes."""
        o = self.options
        return replace(self, options=replace(o, batch_size=o.batch_size_online or o.batch_size)), state


SETS = own_defaults(AWACOptions, "policy_widths", "critic_widths", "batch_size") | {
    "mixing": POOLED,  # one buffer, which starts as the dataset
}

METHODS = {
    "awac": Entry(
        "critic of the policy, advantage-weighted cloning",
        AWACOptions,
        AWAC,
        sets=SETS,
        original=ORIGINAL,
        on={
            "antmaze": {"temperature": 1.0},
            "adroit": {"temperature": 0.3},
            "kitchen": {"temperature": 1.0},
            "pick-place": {"temperature": 1.0},
            "locomotion": {"temperature": 1.0},
            "halfcheetah-medium-expert": {"offline_updates": 1_000_000},
            "halfcheetah-expert": {"offline_updates": 1_000_000},
            "point-maze": {
                "policy_widths": (64, 64),
                "critic_widths": (64, 64),
                "batch_size": 128,
                "policy_rate": 1e-3,
                "temperature": 1.0,
            },
        },
        rewards={
            "antmaze": RewardRule(failure=0.0),
            "adroit": RewardRule(failure=-1.0),
            "pick-place": PER_STEP,
            "point-maze": PER_STEP,
        },
        update_cost=0.5,
        # Nothing holds its critics down: they diverge with the faster targets that all have there. It keeps the task's.
        compared=Compared((0.2, 1.0), "as IQL, with a critic of its own policy", {"target_rate": 0.02}),
        place=10,
        title="AWAC",
    )
}
