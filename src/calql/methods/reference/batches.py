"""The batches of a fit: drawn from columns on the device, or read from where these are, some updates at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 256
AT_ONCE = 1_000  # updates whose rows are drawn at a time
ROOM = 2**27  # bytes of the batches that are read at a time


class Rows(NamedTuple):
    """Columns [row, ...] that a fit draws from; rewards and returns in the units of its networks."""

    observations: Any
    actions: Any
    rewards: Any
    returns: Any
    terminals: Any
    next_observations: Any
    next_actions: Any  # those of the data, or [row, policy, action] of policies


class Block(NamedTuple):
    """Some updates, and the rows that they draw."""

    first: int
    last: int  # the one after the last
    rows: Any  # columns [row, ...] on the device
    picked: jax.Array  # [update, batch]: which of the rows each has

    def batch(self, update: jax.Array) -> Any:
        """The columns of one update's batch."""
        chosen = self.picked[update - self.first]
        return jax.tree.map(lambda column: column[chosen], self.rows)


def blocks(columns: Any, usable: np.ndarray, key: jax.Array, first: int, last: int, *, stream: bool) -> Iterator[Block]:
    """Updates from one to another, with batches of usable rows drawn with replacement by key and number of update.

    A stream's are the same to the bit. They are read while the device is at the block before: nobody waits for it
    here, and the numbers are drawn on the host, whose queue is another.
    """
    if not stream:
        rows, places = jax.tree.map(jnp.asarray, columns), jnp.asarray(usable)
        for begin in range(first, last, AT_ONCE):
            picked = places[_drawn(key, begin, len(usable), AT_ONCE)]
            yield Block(begin, min(begin + AT_ONCE, last), rows, picked)
        return
    key = jax.device_put(key, jax.local_devices(backend="cpu")[0])
    row = sum(math.prod(column.shape[1:]) * column.dtype.itemsize for column in jax.tree.leaves(columns))
    length = int(np.clip(ROOM // (row * BATCH), 1, AT_ONCE))
    in_order = jnp.arange(length * BATCH).reshape(length, BATCH)
    for begin in range(first, last, length):
        index = usable[np.asarray(_drawn(key, begin, len(usable), length))].reshape(-1)
        rows = jax.tree.map(lambda column, index=index: jnp.asarray(column[index]), columns)
        yield Block(begin, min(begin + length, last), rows, in_order)


@partial(jax.jit, static_argnums=3)
def _drawn(key: jax.Array, first: jax.Array, below: jax.Array, count: int) -> jax.Array:
    def one(update: jax.Array) -> jax.Array:
        return jax.random.randint(jax.random.fold_in(key, update), (BATCH,), 0, below)

    return jax.vmap(one)(first + jnp.arange(count))
