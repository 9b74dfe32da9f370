"""ReBRAC (Tarasov et al., 2023): TD3 with a penalty on distance to the data in the policy and in the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import jax
import jax.numpy as jnp

from calql.data.rewards import RewardRule
from calql.methods import losses
from calql.methods.base import Metrics, Transitions, own_defaults
from calql.methods.entry import Compared, Entry
from calql.methods.learner_options import Widths
from calql.methods.off_policy import least_q
from calql.methods.td3_bc import TD3BC, TD3Options, TD3State
from calql.networks import Actor, Initialiser, Style, move_towards
from calql.system.options import Count, NotNegative, Share


@dataclass(frozen=True)
class ReBRACOptions(TD3Options):
    """ReBRAC, with the structure of its paper; its two weights are tuned per dataset there."""

    policy_widths: Widths = (256, 256, 256)
    critic_widths: Widths = (256, 256, 256)
    critic_layer_norm: bool = True
    initialiser: Initialiser = "rebrac"
    policy_first: bool = True
    standardise: bool = False
    policy_penalty: NotNegative = 0.003
    """Weight beta_1 of the squared distance to the logged action in the policy's loss."""
    target_penalty: NotNegative = 0.002
    """Weight beta_2 of the squared distance to the logged next action in the TD target."""
    exploration_noise: float = 0.03
    final_penalty: Share = 0.0
    """Online both weights fall in a straight line, and stay at this factor once they reach it (CORL: 0.5)."""
    penalty_updates: Count = 1_000_000
    """Gradient steps online at which that line would be at 0."""
    target_penalty_online: NotNegative = 0.0
    """Factor of beta_2 after the switch, on top of that."""


@dataclass(frozen=True)
class ReBRAC(TD3BC):
    """TD3+BC's updates with two penalties of its own."""

    options: ReBRACOptions

    columns: ClassVar[frozenset[str]] = frozenset({"next_actions", "has_next_action"})

    def next_value(self, state: TD3State, batch: Transitions, key: jax.Array) -> jax.Array:
        """Least target critic, less the penalty; the last step of an episode has no next action and no penalty."""
        actions = self.smoothed_action(state, batch, key)
        q = least_q(state.critic_targets, batch.next_observations, actions)
        assert batch.next_actions is not None
        assert batch.has_next_action is not None
        distance = batch.has_next_action * losses.squared_distance(actions, batch.next_actions)
        factor = jnp.where(state.online_updates < 0, 1.0, self.options.target_penalty_online)
        return q - factor * self.decay(state) * self.options.target_penalty * distance

    def below_returns(self, batch: Transitions) -> float:
        """The penalty of two actions at opposite ends of the box."""
        return 4.0 * batch.actions.shape[-1] * self.options.target_penalty

    def policy_loss(
        self, policy: Actor, state: TD3State, batch: Transitions, key: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """beta_1 times the squared distance to the logged action - min Q / mean |min Q|."""
        actions, _ = policy(batch.observations).sample(key, name="policy/action")
        q = least_q(state.critics.parameters, batch.observations, actions)
        distance = jnp.mean(losses.squared_distance(actions, batch.actions))
        loss = self.decay(state) * self.options.policy_penalty * distance + losses.normalised_ascent(q)
        return loss, {"policy_loss": loss, "cloning_distance": distance}

    def decay(self, state: TD3State) -> jax.Array:
        """1 offline; online a straight line down, until `final_penalty`."""
        steps = jnp.maximum(state.online_updates, 0)
        return jnp.maximum(1.0 - steps / self.options.penalty_updates, self.options.final_penalty)

    def move_targets(self, state: TD3State, before: TD3State) -> TD3State:
        """The policy's target follows the policy before its step, as in the authors' code."""
        moved = super().move_targets(state, before)
        rate = state.numbers.target_rate
        return moved._replace(policy_target=move_towards(state.policy_target, before.policy.parameters, rate))

    def styles(self) -> tuple[Style, Style]:
        """Outputs start within 0.001 in the policy and 0.003 in the critics, whose norms follow the ReLU."""
        initialiser = self.options.initialiser
        return Style(initialiser, output_gain=1e-3), Style(initialiser, output_gain=3e-3, norm_after=True)

    def switch(self, state: TD3State) -> tuple[Self, TD3State]:
        """From here on the penalties decay."""
        return self, state._replace(online_updates=jnp.zeros_like(state.online_updates))


SETS = own_defaults(ReBRACOptions, "policy_widths", "critic_widths")

# Weights of the distance to logged actions, in the policy's loss and in the target, as its authors tuned them for each
# set: those of Adroit for D4RL's cloned data; those of the narrow maze are ours, medium-play's.
PENALTIES = {
    "antmaze-umaze": (0.003, 0.002),
    "antmaze-medium-play": (0.001, 0.0005),
    "antmaze-medium-diverse": (0.001, 0.0),
    "antmaze-medium-narrow": (0.001, 0.0005),
    "antmaze-large-play": (0.002, 0.001),
    "antmaze-large-diverse": (0.002, 0.002),
    "pen-binary": (0.05, 0.5),
    "door-binary": (0.01, 0.1),
    "relocate-binary": (0.1, 0.01),
    "halfcheetah-random": (0.001, 0.1),
    "halfcheetah-medium": (0.001, 0.01),
    "halfcheetah-medium-replay": (0.01, 0.001),
    "halfcheetah-medium-expert": (0.01, 0.1),
    "halfcheetah-expert": (0.01, 0.01),
    "hopper-random": (0.001, 0.01),
    "hopper-medium": (0.01, 0.01),
    "hopper-medium-replay": (0.05, 0.5),
    "hopper-medium-expert": (0.1, 0.01),
    "hopper-expert": (0.1, 0.1),
    "walker2d-random": (0.01, 0.0),
    "walker2d-medium": (0.05, 0.1),
    "walker2d-medium-replay": (0.05, 0.01),
    "walker2d-medium-expert": (0.01, 0.01),
    "walker2d-expert": (0.01, 0.5),
}

METHODS = {
    "rebrac": Entry(
        "TD3 with penalties on distance to the data in policy and target",
        ReBRACOptions,
        ReBRAC,
        sets=SETS,
        on={
            "antmaze": {"discount": 0.999, "critic_rate": 5e-5},
            "locomotion": {"batch_size": 1024, "policy_rate": 1e-3, "critic_rate": 1e-3},
            **{
                task: {"policy_penalty": policy, "target_penalty": target}
                for task, (policy, target) in PENALTIES.items()
            },
            "point-maze": {
                "policy_widths": (64, 64),
                "critic_widths": (64, 64),
                "policy_rate": 1e-3,
                "policy_penalty": 0.01,
                "target_penalty": 0.01,
                "penalty_updates": 5_000,
            },
        },
        rewards={"antmaze": RewardRule(scale=100.0, failure=0.0)},
        compared=Compared((0.3, 1.0), "TD3 with penalties on both sides"),
        place=17,
        title="ReBRAC",
    )
}
