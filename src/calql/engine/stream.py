"""Logged rows that are not on the device: those of the next updates are brought there while these are done.

Which rows an update draws follows from its seed's key and its own number. So they are known ahead: a thread draws the
same numbers on the host, reads the rows, and hands them over in windows of updates. The batches are those that a run
with all data on the device draws, to the bit, however updates are cut into blocks and wherever a run is taken up.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.engine import mixing
from calql.engine.counters import Counts
from calql.methods.base import Transitions

ROOM = 2**27  # bytes of the windows of all seeds; there are at most four such rooms at a time
AHEAD = 1  # windows that the device may still have to do when it is given another
LONGEST = 200  # updates in a window

Shape = tuple[int, ...]
Numbers = NDArray[np.int32]  # [seed]


class Window(NamedTuple):
    """What updates draw from in the place of all logged rows. Arrays [seed, ...]."""

    rows: Transitions  # [seed, update, minibatch, row, ...]: the logged part of each batch
    first: jax.Array | NDArray[np.int32]  # int32: the update of the first

    def at(self, update: jax.Array) -> mixing.Gathered:
        """What one seed's update draws; of a window without that update, which nobody looks at, the nearest."""

        def slot(column: jax.Array) -> jax.Array:
            return jax.lax.dynamic_index_in_dim(column, update - self.first, keepdims=False)

        return mixing.Gathered(jax.tree.map(slot, self.rows))


@dataclass(frozen=True)
class _Drawn:
    """The window of one seed."""

    first: int
    updates: int
    start: int  # where logged rows began when it was drawn
    share: int  # rows of each minibatch that were read; the others are zeros
    rows: Transitions  # [1, update, minibatch, row, ...]

    def serves(self, update: int, start: int, share: int) -> bool:
        return self.first <= update < self.first + self.updates and self.start == start and self.share >= share


class Stream:
    """Windows of all seeds, each read one ahead."""

    def __init__(self, logged: Transitions, shape: Shape, keys: jax.Array) -> None:
        self.logged, self.shape = logged, shape
        host = jax.local_devices(backend="cpu")[0]  # a GPU would draw them after the updates it was given before
        self._keys = [jax.device_put(key, host) for key in keys]
        self.length = window_length(logged, shape, len(self._keys))
        self._now: list[_Drawn | None] = [None] * len(self._keys)
        self._next: list[Future[_Drawn] | None] = [None] * len(self._keys)
        self._window: Window | None = None
        self._used: jax.Array | None = None  # what the last updates from this window give
        self._under_way: deque[jax.Array] = deque()  # and from the windows before
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="calql-stream")

    def pieces(
        self, done: Counts, calls: Counts, first: Numbers, shares: Numbers, loop: int | None
    ) -> Iterator[tuple[Counts, Window, int | None]]:
        """`calls` [seed] updates after those that are `done`, by parts: how many of each seed, what they draw from,
        and the length of the loop, where that is fixed.
        """
        loop = None if loop is None else min(loop, self.length)
        at, end = done.copy(), done + calls
        while (at < end).any():
            left = np.zeros_like(at)
            for seed in np.flatnonzero(at < end).tolist():
                drawn = self._covering(seed, int(at[seed]), int(first[seed]), int(shares[seed]))
                left[seed] = drawn.first + drawn.updates - at[seed]
            due = np.minimum(end - at, left if loop is None else np.minimum(left, loop))
            yield due, self._together(), loop
            at = at + due

    def used(self, mark: jax.Array) -> None:
        """The window was given to the device: once `mark` is there, its memory is free again."""
        self._used = mark

    def close(self) -> None:
        self._reader.shutdown(cancel_futures=True)

    def _covering(self, seed: int, update: int, start: int, share: int) -> _Drawn:
        """The seed's window with this update: the one there is, else the next one, else one read now."""
        now, ahead = self._now[seed], self._next[seed]
        if now is not None and now.serves(update, start, share):
            return now
        found = None if ahead is None else ahead.result()
        if found is None or not found.serves(update, start, share):
            found = self._reader.submit(self._draw, seed, update, start, share).result()
        self._now[seed], self._window = found, None
        self._next[seed] = self._reader.submit(self._draw, seed, found.first + found.updates, start, share)
        return found

    def _together(self) -> Window:
        """The windows of all seeds as one; a seed that has had no updates to do yet shows another's."""
        if self._window is None:
            self._wait()
            some = next(drawn for drawn in self._now if drawn is not None)
            every = [drawn or some for drawn in self._now]
            rows = jax.tree.map(lambda *parts: _joined(parts), *(drawn.rows for drawn in every))
            self._window = Window(rows, np.array([drawn.first for drawn in every], np.int32))
        return self._window

    def _wait(self) -> None:
        """A device that is slower than the disk would be given windows until its memory is full."""
        if self._used is not None:
            self._under_way.append(self._used)
            self._used = None
        while len(self._under_way) > AHEAD:
            self._under_way.popleft().block_until_ready()

    def _draw(self, seed: int, update: int, start: int, share: int) -> _Drawn:
        """A window, read and on its way to the device."""
        rows = self.logged.rewards.shape[0]
        index = np.asarray(_indices(self._keys[seed], update, start, rows, self.length, self.shape))
        found = jax.tree.map(partial(_gathered, index=index, share=share), self.logged)
        return _Drawn(update, self.length, start, share, jax.tree.map(lambda column: jnp.asarray(column[None]), found))


def window_length(logged: Transitions, shape: Shape, seeds: int) -> int:
    """Updates in a window, so that those of all seeds together take about `ROOM`."""
    row = sum(math.prod(column.shape[1:]) * column.dtype.itemsize for column in jax.tree.leaves(logged))
    return int(np.clip(ROOM // (row * math.prod(shape) * seeds), 1, LONGEST))


def _gathered(column: Any, index: NDArray[np.int32], share: int) -> NDArray[Any]:
    """Logged rows by their index [update, minibatch, row, ...]; zeros in the place of those that are not looked at."""
    if share >= index.shape[2]:
        return np.asarray(column[index])
    found = np.zeros((*index.shape, *column.shape[1:]), column.dtype)
    if share:
        found[:, :, :share] = column[index[:, :, :share]]
    return found


def _joined(parts: Sequence[jax.Array]) -> jax.Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


@partial(jax.jit, static_argnums=(3, 4, 5))
def _indices(key: jax.Array, update: jax.Array, start: jax.Array, rows: int, count: int, shape: Shape) -> jax.Array:
    """[update, minibatch, row, ...]: what `Program.train` draws for these updates of a seed."""

    def one(update: jax.Array) -> jax.Array:
        key_batch, _ = mixing.update_keys(key, update)
        return mixing.logged_index(mixing.draw_keys(key_batch)[0], rows, start, shape)

    return jax.vmap(one)(update + jnp.arange(count))
