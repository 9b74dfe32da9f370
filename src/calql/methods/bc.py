"""Behaviour cloning: the most likely policy for the logged actions, and nothing else. The honest floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from calql.methods.base import (
    Carry,
    Checked,
    Defaults,
    Metrics,
    Moment,
    Trained,
    Transitions,
    augment,
    last_minibatch,
    learn,
    traced,
)
from calql.methods.learner_options import Widths
from calql.networks import Spec, Style, TanhGaussianPolicy, log_prob, make_encoder, mode, sample


@dataclass(frozen=True)
class BCOptions(Checked):
    """Options of behaviour cloning."""

    policy_widths: Widths = (256, 256)
    """Hidden widths of the policy."""
    batch_size: int = 256
    """Transitions in one batch."""
    policy_rate: float = 3e-4
    """Adam step size."""
    objective: Literal["likelihood", "squared"] = "likelihood"
    """Maximise the likelihood of logged actions, or bring the mean action close to them in least squares."""
    standardise: bool = False
    """Give observations to the network in units of their spread in the logged data."""


class Numbers(NamedTuple):
    policy_rate: jax.Array


class BCState(NamedTuple):
    policy: Trained[TanhGaussianPolicy]
    numbers: Numbers


@dataclass(frozen=True)
class BC(Defaults):
    options: BCOptions

    def policy_loss(self, policy: TanhGaussianPolicy, batch: Transitions) -> tuple[jax.Array, Metrics]:
        """-mean log pi(a|s), or the mean squared error of the deterministic action."""
        gaussian = policy(batch.observations)
        error = jnp.mean((mode(gaussian) - batch.actions) ** 2)
        likelihood = jnp.mean(log_prob(gaussian, batch.actions))
        loss = -likelihood if self.options.objective == "likelihood" else error
        return loss, {"policy_loss": loss, "log_likelihood": likelihood, "squared_error": error}

    def update(self, state: BCState, batch: Transitions, key: jax.Array) -> tuple[BCState, Metrics]:
        rows = last_minibatch(augment(batch, key))
        policy, metrics = learn(self.policy_loss, state.policy, state.numbers.policy_rate, rows)
        return state._replace(policy=policy), metrics

    def act(
        self, policy: TanhGaussianPolicy, carry: Carry, moment: Moment, key: jax.Array, *, explore: bool
    ) -> tuple[jax.Array, Carry]:
        gaussian = policy(moment.observation)
        return (sample(gaussian, key)[0] if explore else mode(gaussian)), carry

    def init(self, key: jax.Array, spec: Spec) -> BCState:
        key_policy, key_encoder = jax.random.split(key)
        encoder = make_encoder(spec, key_encoder, standardise=self.options.standardise)
        policy = TanhGaussianPolicy(
            *encoder, spec.action_dim, self.options.policy_widths, key=key_policy, style=Style()
        )
        return BCState(Trained.fresh(policy), traced(Numbers, self.options))


# It does not learn from what it collects better than from what it has. Actions at the bounds would rule the likelihood:
# their inverse tanh is 6.1 at the authors' limit and 2.6 at this one (measured: docs/decisions/010).
SETS = {"online_steps": 0, "action_limit": 0.99}
