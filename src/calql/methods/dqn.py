"""Double DQN (van Hasselt et al., 2016) for discrete actions, on logged data and then online: no regulariser, no actor.

What it has learnt where the data are silent is what others guard against: the baseline of discrete methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from calql.methods import choice_losses, losses
from calql.methods.base import (
    Carry,
    Checked,
    Metrics,
    Policy,
    TimeStep,
    Trained,
    Transitions,
    augment,
    last_minibatch,
    learn,
    traced,
)
from calql.methods.entry import Entry
from calql.methods.learner_options import Widths
from calql.methods.off_policy import OffPolicy
from calql.networks import ChoiceCritics, Spec, Style, at_actions, best_allowed, draws, make_encoder, move_towards
from calql.system.options import Count, Positive, Share, ShareAboveZero, ShareBelowOne


@dataclass(frozen=True)
class DQNOptions(Checked):
    """Options of double DQN."""

    critic_widths: Widths = (256, 256)
    """Hidden widths of the Q-function, which is the policy too."""
    critic_layer_norm: bool = False
    """Layer norm after each of its hidden layers."""
    batch_size: Count = 256
    """Transitions in one minibatch."""
    discount: ShareBelowOne = 0.99
    critic_rate: Positive = 3e-4
    """Adam step size."""
    target_rate: ShareAboveZero = 0.005
    """Share of the new Q-function in its target at every update."""
    target_bounds: bool = False
    """Cut TD targets to what rewards like those seen so far can add up to."""
    epsilon: Share = 0.05
    """Probability of an allowed action drawn at random when it collects."""
    standardise: bool = False
    """Give observations to the networks in units of their spread in the logged data; images stay as they are."""


class Numbers(NamedTuple):
    discount: jax.Array
    critic_rate: jax.Array
    target_rate: jax.Array
    epsilon: jax.Array


class DQNPolicy(NamedTuple):
    critics: ChoiceCritics
    epsilon: jax.Array


class DQNState(NamedTuple):
    critics: Trained[ChoiceCritics]
    targets: ChoiceCritics
    numbers: Numbers


@dataclass(frozen=True)
class DQN(OffPolicy):
    options: DQNOptions
    varies: ClassVar[tuple[str, ...]] = ("critic_rate", "target_rate", "epsilon")

    def critic_loss(
        self, critics: ChoiceCritics, targets: ChoiceCritics, batch: Transitions, discount: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Squared error towards r + discount Q_target(s', argmax of Q(s', allowed))."""
        assert batch.next_action_masks is not None
        now, slow = (c.of_choices(c.encode(batch.next_observations))[0] for c in (critics, targets))
        value = choice_losses.double_target(now, slow, batch.next_action_masks)
        bounds = None if batch.returns is None else losses.target_bounds(batch.returns)
        target = losses.backup(batch.rewards, batch.terminals, discount, value, bounds)
        q = at_actions(critics.of_choices(critics.encode(batch.observations)), batch.actions)
        loss = jnp.sum(losses.squared_error(q, target))
        named = {
            "critic_loss": loss,
            "td_loss": loss,
            "average_q_batch": jnp.mean(q),
            "average_target": jnp.mean(target),
        }
        return loss, named | ({} if bounds is None else {"bounded_targets": losses.bounded_share(target, bounds)})

    def update(self, state: DQNState, batch: Transitions, key: jax.Array) -> tuple[DQNState, Metrics]:
        rows, n = last_minibatch(augment(batch, key, state)), state.numbers
        critics, metrics = learn(self.critic_loss, state.critics, n.critic_rate, state.targets, rows, n.discount)
        targets = move_towards(state.targets, critics.parameters, n.target_rate)
        return state._replace(critics=critics, targets=targets), metrics

    def policy(self, state: DQNState) -> DQNPolicy:
        return DQNPolicy(state.critics.parameters, state.numbers.epsilon)

    def act(
        self, policy: Policy, carry: Carry, time_step: TimeStep, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        """The allowed action of the largest Q; when exploring, any of them now and then."""
        q = policy.critics.of_choices(policy.critics.encode(time_step.observation))[0]
        best = best_allowed(q, time_step.action_mask)
        if not explore:
            return best, carry
        key_whether, key_which = jax.random.split(key)
        other = best_allowed(draws.gumbel("other", key_which, q.shape), time_step.action_mask)
        strays = jax.random.bernoulli(key_whether, policy.epsilon)
        return jnp.where(strays, other, best), carry

    def init(self, key: jax.Array, spec: Spec) -> DQNState:
        o, (key_critic, key_encoder) = self.options, jax.random.split(key)
        critics = ChoiceCritics(
            *make_encoder(spec, key_encoder, standardise=o.standardise),
            spec.action_dim,
            o.critic_widths,
            count=1,
            key=key_critic,
            layer_norm=o.critic_layer_norm,
            style=Style(),
        )
        return DQNState(Trained.fresh(critics), critics, traced(Numbers, o))


METHODS = {
    "dqn": Entry(
        "double DQN, for discrete actions alone",
        DQNOptions,
        DQN,
        discrete=DQN,
        continuous=False,
        update_cost=0.3,
        place=15,
        title="Double DQN",
    )
}
