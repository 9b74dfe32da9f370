"""What updates draw of logged data: the rows, on the device or brought there, and how many of a batch they are."""

from __future__ import annotations

import jax
import numpy as np

from calql.engine.counters import Counters, Counts
from calql.engine.devices import Shards
from calql.engine.mixing import batch_shape, offline_rows
from calql.engine.plan import Plan
from calql.engine.stream import Stream
from calql.methods.base import Method, Transitions


class Logged:
    """The logged rows of a run."""

    def __init__(self, plan: Plan, shards: Shards, keys: jax.Array, counters: Counters) -> None:
        self._plan, self._keys, self._counters = plan, keys, counters
        self._resident = None if plan.inputs.streamed else shards.copied(plan.inputs.logged)
        self._stream: Stream | None = None

    def rows(self, method: Method) -> Transitions | Stream:
        """Those on the device, or what brings them there."""
        if self._resident is not None:
            return self._resident
        shape = batch_shape(method)
        if self._stream is None or self._stream.shape != shape:
            self._stream = Stream(self._plan.inputs.logged, shape, self._keys)
        return self._stream

    def shares(self, method: Method, first: Counts, collected: Counts) -> list[int]:
        """Online: rows of each seed's batches that are logged ones, of which it has those from `first` on."""
        total, mixing = len(self._plan.inputs.return_to_go), self._plan.options.mixing
        return [
            offline_rows(mixing, method.batch_size, total - int(start), int(steps))
            for steps, start in zip(collected, first, strict=True)
        ]

    def first(self) -> Counts:
        """Online: where each seed's logged data begin; with --keep-episodes, collected episodes push out the worst."""
        inputs, kept, episodes = self._plan.inputs, self._plan.options.keep_episodes, self._counters.episodes
        if not kept:
            return np.zeros(len(episodes), np.int64)
        starts = inputs.episode_starts
        dropped = np.clip(len(starts) + episodes - kept, 0, len(starts))
        return np.append(starts, len(inputs.return_to_go))[dropped]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
