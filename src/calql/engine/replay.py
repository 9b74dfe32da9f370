"""The online buffer: a ring of transitions on the device, one per seed."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from calql.methods.base import Transitions


class Replay(NamedTuple):
    """First in, first out. `inserted` counts every row ever put in, also those overwritten since."""

    rows: Transitions  # [capacity, ...]
    inserted: jax.Array  # int32

    @property
    def capacity(self) -> int:
        return self.rows.rewards.shape[-1]

    @property
    def size(self) -> jax.Array:
        return jnp.minimum(self.inserted, self.capacity)


def empty_like(row: Transitions, capacity: int) -> Replay:
    """A buffer for rows of the shapes and types of `row` (one transition, no leading axis)."""
    rows = jax.tree.map(lambda column: jnp.zeros((capacity, *column.shape), column.dtype), row)
    return Replay(rows, jnp.asarray(0, jnp.int32))


def insert(replay: Replay, episode: Transitions, length: jax.Array) -> Replay:
    """Append the first `length` rows of a padded episode [limit, ...]; the oldest rows make room."""
    limit = episode.rewards.shape[0]
    offset = jnp.arange(limit)
    slot = (replay.inserted + offset) % replay.capacity
    slot = jnp.where(offset < length, slot, replay.capacity)  # out of range: dropped
    rows = jax.tree.map(lambda old, new: old.at[slot].set(new, mode="drop"), replay.rows, episode)
    return Replay(rows, replay.inserted + length)
