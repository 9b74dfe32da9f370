"""The online buffer: a ring of transitions on the device, one per seed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from calql.engine.checkpoint import Arrays, unpack
from calql.methods.base import Transitions

STRETCH = 2**14  # rows that go to the host at once


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


def refilled(empty: Replay, arrays: Arrays, place: Callable[[Any], Any]) -> Replay:
    """Empty buffers [seed, ...] with the rows that a checkpoint holds; `place` puts them where their seeds are."""
    if "inserted" not in arrays:
        return empty
    filled = arrays["replay/0000"].shape[1]
    like = jax.tree.map(lambda c: jax.ShapeDtypeStruct((len(c), filled, *c.shape[2:]), c.dtype), empty.rows)
    saved = unpack("replay", arrays, like, np.asarray)
    rows = jax.tree.map(lambda column, part: _set_first(column, place(part)), empty.rows, saved)
    return Replay(rows, place(jnp.asarray(arrays["inserted"])))


@functools.partial(jax.jit, donate_argnums=0)
def _set_first(column: jax.Array, part: jax.Array) -> jax.Array:
    """In the column's own memory: of a large buffer, there is no room for two."""
    return lax.dynamic_update_slice_in_dim(column, part, 0, axis=1)


def first_rows(rows: Transitions, count: int) -> Transitions:
    """The first rows [seed, count, ...] of stacked buffers, on the host.

    Where the device is the host they are the buffers' own memory, to be read before anything is inserted. Else they
    come in stretches of one length: a slice for every count would be a program for every count, each kept for good.
    """
    if _on_the_host(rows):
        return jax.tree.map(lambda column: np.asarray(column)[:, :count], rows)
    capacity = rows.rewards.shape[1]
    size = min(STRETCH, capacity)
    found = jax.tree.map(lambda column: np.empty((len(column), count, *column.shape[2:]), column.dtype), rows)
    for start in range(0, count, size):
        begin = min(start, capacity - size)
        stretch = jax.device_get(_stretch(rows, begin, size))

        def put(into: Any, part: Any, begin: int = begin) -> None:
            into[:, begin : begin + size] = part[:, : count - begin]

        jax.tree.map(put, found, stretch)
    return found


def _on_the_host(rows: Transitions) -> bool:
    """Whether NumPy can look at them where they are: in one piece, in the memory of this process."""
    return [device.platform for device in rows.rewards.devices()] == ["cpu"]


@functools.partial(jax.jit, static_argnums=2)
def _stretch(rows: Transitions, begin: int, size: int) -> Transitions:
    return jax.tree.map(lambda column: lax.dynamic_slice_in_dim(column, begin, size, axis=1), rows)
