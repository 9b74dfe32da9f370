"""Which rows a batch is made of: a share of logged data, the rest from what was collected online."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from calql.engine.replay import Replay
from calql.errors import UserError
from calql.methods.base import Transitions

POOLED = -1.0


def check_mixing(mixing: float) -> None:
    if mixing != POOLED and not 0.0 <= mixing <= 1.0:
        raise UserError(f"--mixing is {mixing}", mend="it must be in [0, 1], or -1 to pool all data")


def offline_rows(mixing: float, batch_size: int, logged: int, collected: int) -> int:
    """Rows of a batch that come from logged data.

    Pooled (-1), the share is that of logged data in everything seen so far, counting rows that the
    buffer has since overwritten.
    """
    share = logged / (logged + collected) if mixing == POOLED else mixing
    return int(batch_size * share)


def draw(
    key: jax.Array, logged: Transitions, replay: Replay, from_logged: jax.Array, minibatches: int, batch_size: int
) -> Transitions:
    """Uniform with replacement, [minibatch, row, ...]: in each minibatch the first `from_logged` rows are logged."""
    key_logged, key_online = jax.random.split(key)
    shape = (minibatches, batch_size)
    logged_index = jax.random.randint(key_logged, shape, 0, max(logged.rewards.shape[0], 1))
    online_index = jax.random.randint(key_online, shape, 0, jnp.maximum(replay.size, 1))
    is_logged = jnp.arange(batch_size)[None, :] < from_logged

    def pick(logged_column: jax.Array, online_column: jax.Array) -> jax.Array:
        mask = is_logged.reshape(*shape, *(1 for _ in logged_column.shape[1:]))
        return jnp.where(mask, logged_column[logged_index], online_column[online_index])

    return jax.tree.map(pick, logged, replay.rows)
