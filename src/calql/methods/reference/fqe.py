"""Fitted Q evaluation: what policies would earn, said from logged data alone.

Q of a policy is the fixed point of Q(s, a) = r + discount * Q(s', policy(s')). A network is fitted to it by TD on
logged steps, one for each policy and all of them as one program. The value of a policy is the mean of Q(s, policy(s))
over the first states of episodes that the fit never saw, with an interval from resampling these episodes.

Of discrete actions a policy is a row of probabilities for each state, one-hot where it is deterministic: the network
gives Q of all choices and Q(s', policy) is the exact mean over them.

What the numbers cannot tell: where a policy leaves the data, Q is the network's guess. The interval says how much the
starts differ, not how wrong the fit may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.data import possible_returns
from calql.methods.base import Method, Policy, TimeStep
from calql.methods.losses import backup, squared_error
from calql.methods.optimise import ADAM, descend
from calql.methods.reference.base import Fit, MonteCarlo, over_episodes
from calql.methods.reference.batches import Block, Rows, blocks
from calql.networks import ChoiceCritics, Critics, Spec, Style, at_actions, make_encoder, move_towards, q_values

RATE = 3e-4
TARGET_RATE = 0.05
CHUNK = 8192  # rows that policies act on at a time
START = 0.25  # share of the updates that regress on logged returns: TD carries what is at the end back slowly
RESAMPLES = 2_000
LEVEL = 0.95

Floats = NDArray[np.float32]
AnyCritics = Critics | ChoiceCritics


@dataclass(frozen=True)
class Units:
    """Networks work on (Q - offset) / scale; no value can lie outside `possible`, in these units."""

    offset: float
    scale: float
    possible: tuple[float, float]

    @classmethod
    def of(cls, fit: Fit, returns: Floats) -> Units:
        offset, scale = float(returns.mean()), float(max(returns.std(), 1e-3))
        low, high = possible_returns(fit.rewards.map(fit.data.rewards), fit.data.terminals, fit.discount)
        return cls(offset, scale, ((low - offset) / scale, (high - offset) / scale))


@dataclass(frozen=True)
class PolicyValues:
    """Q of each policy, fitted."""

    critics: AnyCritics  # every leaf [policy, ...]
    units: Units

    def __call__(self, observations: NDArray[Any], actions: Floats) -> Floats:
        """Q [policy, row] of the actions that each policy takes [policy, row, action], or of their probabilities."""
        parts = [
            np.asarray(_values(self.critics, observations[rows], actions[:, rows]))
            for rows in chunks(len(observations))
        ]
        return np.asarray(self.units.offset + self.units.scale * np.concatenate(parts, axis=1), np.float32)


class Estimate(NamedTuple):
    """The value of one policy and the interval around it."""

    value: float
    low: float
    high: float


def fit_policies(fit: Fit, next_actions: Floats) -> PolicyValues:
    """Q of policies that take `next_actions` [policy, row, action] in the states after the logged steps.

    Of discrete actions: `next_actions` [policy, row, choice] are the probabilities of choices.
    """
    data = fit.data
    returns = over_episodes(MonteCarlo(fit.rewards, fit.discount), fit)
    units = Units.of(fit, returns)
    mapped = fit.rewards.map(data.rewards)
    # In units of (Q - offset) / scale, the reward that leaves the fixed point of the backup in place.
    rewards = (mapped - units.offset * (1.0 - fit.discount * (1.0 - data.terminals))) / units.scale
    terminals, known = data.terminals.astype(np.float32), (returns - units.offset) / units.scale
    columns = (data.observations, data.actions, rewards.astype(np.float32), known, terminals, data.next_observations)
    rows = Rows(*columns, np.swapaxes(next_actions, 0, 1))
    keys = jax.random.split(jax.random.key(fit.seed), len(next_actions))
    spec = Spec.of(data.observations, data.actions, discrete=data.discrete, layout=data.layout)
    critics = jax.vmap(lambda key: _fresh(spec, fit.widths, key))(keys)
    train = jax.jit(partial(_train, fit.discount, units.possible, fit.updates))
    carry, everywhere = (critics, critics, jax.vmap(ADAM.init)(critics)), np.arange(len(data))
    for block in blocks(rows, everywhere, jax.random.key(fit.seed + 1), 0, fit.updates, stream=fit.stream):
        carry = train(carry, block)
    return PolicyValues(carry[0], units)


def _fresh(spec: Spec, widths: tuple[int, ...], key: jax.Array) -> AnyCritics:
    key_encoder, key_critic = jax.random.split(key)
    encoder, features = make_encoder(spec, key_encoder, standardise=not spec.image)
    kind = ChoiceCritics if spec.discrete else Critics
    return kind(encoder, features, spec.action_dim, widths, count=1, key=key_critic, style=Style(output_gain=1.0))


def _train(discount: float, possible: tuple[float, float], updates: int, carry: Any, block: Block) -> Any:
    """Adam steps on batches that all policies share: first towards logged returns, then by TD."""

    def loss(critic: AnyCritics, slow: AnyCritics, batch: Rows, acted: jax.Array, learns: jax.Array) -> jax.Array:
        following = _q(slow, batch.next_observations, acted)
        target = jnp.clip(backup(batch.rewards, batch.terminals, discount, following), *possible)
        return jnp.mean(
            squared_error(_q(critic, batch.observations, batch.actions), jnp.where(learns, target, batch.returns))
        )

    def step(index: jax.Array, carry: Any) -> Any:
        batch = block.batch(index)

        def one(critic: AnyCritics, slow: AnyCritics, adam: Any, acted: jax.Array) -> Any:
            gradient = jax.grad(loss)(critic, slow, batch, acted, index >= START * updates)
            critic, adam = descend(gradient, adam, critic, RATE)
            return critic, move_towards(slow, critic, jnp.float32(TARGET_RATE)), adam

        critics, slow, adam = carry
        return jax.vmap(one, in_axes=(0, 0, 0, 1))(critics, slow, adam, batch.next_actions)

    return jax.lax.fori_loop(block.first, block.last, step, carry)


def _q(critic: AnyCritics, observations: jax.Array, actions: jax.Array) -> jax.Array:
    """Q [row] of actions [row, action]; of probabilities [row, choice], its exact mean."""
    features = critic.encode(observations)
    if isinstance(critic, ChoiceCritics):
        return at_actions(critic.of_choices(features), actions)[0]
    return q_values(critic, features, actions)[0]


@jax.jit
def _values(critics: AnyCritics, observations: jax.Array, actions: jax.Array) -> jax.Array:
    return jax.vmap(_q, in_axes=(0, None, 0))(critics, observations, actions)


# -- what policies do in logged states --------------------------------------------------------------------


def actions_of(
    method: Method, policies: Policy, observations: NDArray[Any], masks: NDArray[np.bool_] | None = None
) -> Floats:
    """The deterministic actions [policy, row, action] of policies [policy, ...] that look at the observation alone.

    Of discrete actions, one-hot rows among those that `masks` [row, choice] allow.
    """

    def act(policy: Policy, observation: jax.Array, mask: jax.Array | None) -> jax.Array:
        step = TimeStep(observation, jnp.float32(0.0), jnp.int32(0), mask)
        return method.act(policy, method.start(policy), step, jax.random.key(0), explore=False)[0]

    every = jax.jit(jax.vmap(jax.vmap(act, in_axes=(None, 0, 0)), in_axes=(0, None, None)))
    parts = [
        np.asarray(every(policies, observations[rows], None if masks is None else masks[rows]))
        for rows in chunks(len(observations))
    ]
    return np.concatenate(parts, axis=1)


def chunks(count: int) -> list[slice]:
    return [slice(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]


# -- intervals --------------------------------------------------------------------------------------------


def estimates(values: Floats, seed: int = 0) -> list[Estimate]:
    """Of each policy from its values at the starts of episodes [policy, episode], by resampling episodes."""
    count = values.shape[1]
    picked = np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))
    tails = ((1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2)
    return [Estimate(float(row.mean()), *_quantiles(row[picked].mean(axis=1), tails)) for row in values]


def _quantiles(means: Floats, at: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(means, at)
    return float(low), float(high)
