"""Which rows a batch is made of: a share of logged data, the rest from what was collected online."""

from __future__ import annotations

from typing import NamedTuple

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


class Gathered(NamedTuple):
    """The logged part of a batch [minibatch, row, ...], drawn already."""

    rows: Transitions


def update_keys(key: jax.Array, update: jax.Array) -> jax.Array:
    """Of a seed's update: for its batch, and for the rest."""
    return jax.random.split(jax.random.fold_in(key, update))


def draw_keys(key_batch: jax.Array) -> jax.Array:
    """Of a batch: for logged rows, and for collected ones."""
    return jax.random.split(key_batch)


def logged_index(key: jax.Array, rows: int, start: jax.Array | int, shape: tuple[int, ...]) -> jax.Array:
    """Which logged rows a batch has, [minibatch, row] or [minibatch, row, step]."""
    index = jax.random.randint(key, shape[:2], start, max(rows, 1))
    return index if len(shape) == 2 else jnp.minimum(index[..., None] + jnp.arange(shape[2]), rows - 1)


def draw(
    key: jax.Array,
    logged: Transitions | Gathered,
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

    Logged rows that were `Gathered` by the same key come as they are.
    """
    key_logged, key_online = draw_keys(key)
    online_index = jax.random.randint(key_online, shape[:2], 0, jnp.maximum(replay.size, 1))
    if len(shape) == 3:
        online_index = (online_index[..., None] + jnp.arange(shape[2])) % replay.capacity
    is_logged = jnp.arange(shape[1])[None, :] < from_logged
    if isinstance(logged, Gathered):
        drawn = logged.rows
    else:
        index = logged_index(key_logged, logged.rewards.shape[0], logged_start, shape)
        drawn = jax.tree.map(lambda column: column[index], logged)

    def pick(logged_rows: jax.Array, online_column: jax.Array) -> jax.Array:
        mask = is_logged.reshape(1, shape[1], *(1 for _ in range(logged_rows.ndim - 2)))
        return jnp.where(mask, logged_rows, online_column[online_index])

    return jax.tree.map(pick, drawn, replay.rows)
