"""Behaviour cloning: the most likely policy for the logged actions, and nothing else. The honest floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp

from calql.methods.actor_options import ActorOptions
from calql.methods.base import (
    Defaults,
    Metrics,
    Trained,
    Transitions,
    allowing,
    augment,
    last_minibatch,
    learn,
    traced,
)
from calql.methods.entry import Compared, Entry
from calql.methods.learner_options import Widths
from calql.networks import DENSITY, DISCRETE, GRADIENTS, Actor, Categorical, Spec, Style, make_actor, make_encoder
from calql.system.options import Count, Positive, refused


@dataclass(frozen=True)
class BCOptions(ActorOptions):
    """Options of behaviour cloning."""

    policy_widths: Widths = (256, 256)
    """Hidden widths of the policy."""
    batch_size: Count = 256
    """Transitions in one batch."""
    policy_rate: Positive = 3e-4
    """Adam step size."""
    objective: Literal["likelihood", "squared"] = "likelihood"
    """Maximise the likelihood of logged actions, or bring the mean action close to them in least squares."""

    @property
    def actor_needs(self) -> frozenset[str]:
        return frozenset({DENSITY if self.objective == "likelihood" else GRADIENTS})


class Numbers(NamedTuple):
    policy_rate: jax.Array


class BCState(NamedTuple):
    policy: Trained[Actor]
    numbers: Numbers


@dataclass(frozen=True)
class BC(Defaults):
    options: BCOptions
    varies: ClassVar[tuple[str, ...]] = ("policy_rate",)

    def policy_loss(self, policy: Actor, batch: Transitions) -> tuple[jax.Array, Metrics]:
        """-mean log pi(a|s), or the mean squared error of the deterministic action."""
        distribution = allowing(policy(batch.observations), batch.action_masks)
        if batch.action_masks is not None:
            return self.choice_loss(distribution, batch.actions)
        error = jnp.mean((distribution.mode() - batch.actions) ** 2)
        log_probs = distribution.log_prob(batch.actions)
        if log_probs is None:
            return error, {"policy_loss": error, "squared_error": error}
        likelihood = jnp.mean(log_probs)
        loss = -likelihood if self.options.objective == "likelihood" else error
        return loss, {"policy_loss": loss, "log_likelihood": likelihood, "squared_error": error}

    def choice_loss(self, distribution: Categorical, actions: jax.Array) -> tuple[jax.Array, Metrics]:
        """-mean log pi(a|s) of discrete actions, and how often the most likely one is the logged one."""
        likelihood = jnp.mean(distribution.log_prob(actions))
        agreement = jnp.mean(jnp.sum(distribution.mode() * actions, axis=-1))
        return -likelihood, {"policy_loss": -likelihood, "log_likelihood": likelihood, "agreement": agreement}

    def update(self, state: BCState, batch: Transitions, key: jax.Array) -> tuple[BCState, Metrics]:
        rows = last_minibatch(augment(batch, key, state))
        policy, metrics = learn(self.policy_loss, state.policy, state.numbers.policy_rate, rows)
        return state._replace(policy=policy), metrics

    def init(self, key: jax.Array, spec: Spec) -> BCState:
        o = self.options
        key_policy, key_encoder = jax.random.split(key)
        encoder = make_encoder(spec, key_encoder, standardise=o.standardise)
        policy = make_actor(
            DISCRETE if spec.discrete else o.actor,
            *encoder,
            spec.action_dim,
            o.policy_widths,
            key=key_policy,
            style=Style(),
            options=o,
        )
        return BCState(Trained.fresh(policy), traced(Numbers, o))


def discrete(options: BCOptions) -> BC:
    """For discrete actions: a categorical policy."""
    if options.objective != "likelihood":
        raise refused("objective", options.objective, "likelihood with discrete actions")
    return BC(options)


# It does not learn from what it collects better than from what it has. Actions at the bounds would rule the likelihood:
# their inverse tanh is 6.1 at the authors' limit and 2.6 at this one (measured: docs/decisions/010).
SETS = {"online_steps": 0, "action_limit": 0.99}

METHODS = {
    "bc": Entry(
        "behaviour cloning",
        BCOptions,
        BC,
        discrete=discrete,
        sets=SETS,
        on={"point-maze": {"policy_rate": 1e-3}},
        compared=Compared((0.5, 1.0), "clones walks that go everywhere, the goal included"),
        place=14,
        title="BC",
    )
}
