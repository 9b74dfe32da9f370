"""Reference values that are networks: regressed to Monte-Carlo returns, or fitted by SARSA on logged actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from calql.losses import backup, squared_error
from calql.networks import Critics, Spec, Style, make_encoder, move_towards, q_values
from calql.optimise import ADAM, descend
from calql.reference.base import Fit, MonteCarlo, Trajectory, Values, over_episodes

BATCH = 256
RATE = 3e-4
TARGET_RATE = 0.005
CHUNK = 8192  # rows valued at a time


class Rows(NamedTuple):
    """Columns that the fit draws from; `returns` in units of their own spread."""

    observations: jax.Array
    actions: jax.Array
    rewards: jax.Array
    returns: jax.Array
    terminals: jax.Array
    next_observations: jax.Array
    next_actions: jax.Array


Target = Callable[[Critics, Rows], jax.Array]


@dataclass(frozen=True)
class FittedQ:
    """Q(s, a) of the behaviour: offset + scale * network."""

    critic: Critics
    offset: float
    scale: float

    def __call__(self, trajectory: Trajectory) -> Values:
        """Q of each step; rows are padded to chunks of one size, so that one compilation serves all lengths."""
        count = len(trajectory.rewards)
        size = min(CHUNK, 1 << (count - 1).bit_length())
        values = []
        for start in range(0, count, size):
            rows = slice(start, min(start + size, count))
            pad = size - (rows.stop - rows.start)
            columns = [
                np.pad(c[rows], [(0, pad), *((0, 0) for _ in c.shape[1:])])
                for c in (trajectory.observations, trajectory.actions)
            ]
            values.append(np.asarray(_evaluate(self.critic, *columns))[: size - pad])
        return (self.offset + self.scale * np.concatenate(values)).astype(np.float32)


def fit_regression(fit: Fit) -> FittedQ:
    """Least squares of Q(s, a) on the return-to-go of the logged rows."""
    return _fit(fit, lambda target, rows, discount: rows.returns, usable=np.ones(len(fit.data), bool))


def fit_sarsa(fit: Fit) -> FittedQ:
    """TD(0) of the behaviour's Q on logged next actions; for data that end in time-outs.

    The last step of an episode that only stopped being recorded has no next action, so it has no
    target and is left out; a terminal step needs none.
    """
    _, known = fit.data.next_actions()
    return _fit(fit, _sarsa_target, usable=known | fit.data.terminals)


def _sarsa_target(target: Critics, rows: Rows, discount: float) -> jax.Array:
    after = q_values(target, target.encode(rows.next_observations), rows.next_actions)[0]
    return backup(rows.rewards, rows.terminals, discount, after)


def _fit(fit: Fit, target: Callable[[Critics, Rows, float], jax.Array], *, usable: np.ndarray) -> FittedQ:
    returns = over_episodes(MonteCarlo(fit.rewards, fit.discount), fit)
    offset, scale = float(returns.mean()), float(max(returns.std(), 1e-3))
    data = fit.data
    next_actions, _ = data.next_actions()
    # In units of (Q - offset) / scale, the reward that leaves the fixed point of the backup in place.
    rewards = (fit.rewards.map(data.rewards) - offset * (1.0 - fit.discount * (1.0 - data.terminals))) / scale
    rows = Rows(
        *(
            jnp.asarray(column[usable])
            for column in (
                data.observations,
                data.actions,
                rewards.astype(np.float32),
                ((returns - offset) / scale).astype(np.float32),
                data.terminals.astype(np.float32),
                data.next_observations,
                next_actions,
            )
        )
    )
    spec = Spec(data.observations.shape[1:], data.actions.shape[1], image=data.observations.dtype == np.uint8)
    key_encoder, key_critic, key_fit = jax.random.split(jax.random.key(fit.seed), 3)
    encoder, features = make_encoder(spec, key_encoder)
    critic = Critics(
        encoder, features, spec.action_dim, fit.widths, count=1, key=key_critic, style=Style(output_gain=1.0)
    )
    fitted = _descend_many(critic, rows, key_fit, lambda slow, batch: target(slow, batch, fit.discount), fit.updates)
    return FittedQ(fitted, offset, scale)


def _descend_many(critic: Critics, rows: Rows, key: jax.Array, target: Target, updates: int) -> Critics:
    """`updates` Adam steps on batches drawn with replacement, as one compiled loop."""

    def loss(critic: Critics, slow: Critics, batch: Rows) -> jax.Array:
        q = q_values(critic, critic.encode(batch.observations), batch.actions)
        return jnp.sum(squared_error(q, target(slow, batch)))

    def step(index: jax.Array, carry: Any) -> Any:
        critic, slow, adam = carry
        picked = jax.random.randint(jax.random.fold_in(key, index), (BATCH,), 0, rows.rewards.shape[0])
        batch = jax.tree.map(lambda column: column[picked], rows)
        critic, adam = descend(jax.grad(loss)(critic, slow, batch), adam, critic, RATE)
        return critic, move_towards(slow, critic, jnp.float32(TARGET_RATE)), adam

    start = (critic, critic, ADAM.init(critic))
    return jax.jit(lambda carry: jax.lax.fori_loop(0, updates, step, carry))(start)[0]


@jax.jit
def _evaluate(critic: Critics, observations: jax.Array, actions: jax.Array) -> jax.Array:
    return q_values(critic, critic.encode(observations), actions)[0]
