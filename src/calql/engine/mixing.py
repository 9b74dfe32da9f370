"""Which rows a batch is made of: a share of logged data, the rest from what was collected online."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from calql.engine.replay import Replay
from calql.methods.base import Method, Transitions
from calql.system.options import POOLED


def batch_shape(method: Method) -> tuple[int, ...]:
    """Leading axes of a batch: [minibatch, row], and [step] for a method that learns from sequences."""
    shape = (method.minibatches, method.batch_size)
    return (*shape, method.context) if method.sampling == "sequence" else shape


def offline_rows(mixing: float, batch_size: int, logged: int, collected: int) -> int:
    """Rows of a batch that come from logged data.

    Pooled (-1), the share is that of logged data in everything seen so far, counting rows that the
    buffer has since overwritten.
    """
    share = logged / (logged + collected) if mixing == POOLED else mixing
    return int(batch_size * share)


def draw(
    key: jax.Array,
    logged: Transitions,
    replay: Replay,
    from_logged: jax.Array,
    logged_start: jax.Array | int,
    shape: tuple[int, ...],
) -> Transitions:
    """Uniform with replacement, [minibatch, row, ...]: in each minibatch the first `from_logged` rows are logged.

    Logged rows before `logged_start` are not drawn. With a shape [minibatch, row, step], each draw is
    followed by its successors in the data: a stretch that starts at any step with the same
    probability, so that long episodes come up more often. Where its episode ends earlier than the
    stretch, as the column `remaining` of its first step says, what follows is of another episode.
    """
    key_logged, key_online = jax.random.split(key)
    rows, firsts = logged.rewards.shape[0], shape[:2]
    logged_index = jax.random.randint(key_logged, firsts, logged_start, max(rows, 1))
    online_index = jax.random.randint(key_online, firsts, 0, jnp.maximum(replay.size, 1))
    if len(shape) == 3:
        steps = jnp.arange(shape[2])
        logged_index = jnp.minimum(logged_index[..., None] + steps, rows - 1)
        online_index = (online_index[..., None] + steps) % replay.capacity
    is_logged = jnp.arange(shape[1])[None, :] < from_logged

    def pick(logged_column: jax.Array, online_column: jax.Array) -> jax.Array:
        inner = len(shape) - 2 + logged_column.ndim - 1
        mask = is_logged.reshape(1, shape[1], *(1 for _ in range(inner)))
        return jnp.where(mask, logged_column[logged_index], online_column[online_index])

    return jax.tree.map(pick, logged, replay.rows)
