"""Collector that takes episodes from files instead of playing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calql.engine.checkpoint import Arrays
from calql.engine.collect import note_collected
from calql.engine.counters import Counters, Seeds
from calql.engine.episodes import Episode
from calql.engine.options import RunOptions
from calql.engine.speed import Stopwatch
from calql.engine.workers import Pool
from calql.methods.base import Policy
from calql.system.options import require


class Recorded(Protocol):
    """The episodes of each member of a run, in the order in which it takes them in, from the first of all on."""

    def count(self, index: int) -> int:
        """How many there are by now."""
        ...

    def episode(self, index: int, number: int) -> Episode:
        """One of them, read when its turn comes."""
        ...


class HandedIn:
    """A collector whose rounds are over before they begin: a seed takes an episode in as soon as it owes no updates.

    Which is next follows from the counters, so that a checkpoint needs nothing of it.
    """

    restored: Mapping[int, Policy] = {}  # nothing is ever in flight when a checkpoint is written

    def __init__(self, recorded: Recorded, options: RunOptions, counters: Counters) -> None:
        self._recorded, self._options, self._counters = recorded, options, counters
        self._members = range(len(counters.episodes))

    @property
    def unfinished(self) -> Seeds:
        there = np.array([self._recorded.count(index) for index in self._members])
        return self._counters.episodes < there

    @property
    def in_flight(self) -> Seeds:
        return self.unfinished

    def ready(self, asked: Callable[[], bool], *, wait: bool) -> Seeds:
        return self.unfinished

    def over(self, who: Seeds, asked: Callable[[], bool]) -> bool:
        return True

    def launch(self, who: Seeds, policies: Policy, pool: Pool) -> None:
        """Others have played them."""

    def relaunch(self, pool: Pool) -> None:
        """Nothing was broken off."""

    def receive(self, who: Seeds, watch: Stopwatch) -> list[list[Episode | None]]:
        """The next episode of each chosen seed, counted, as [trajectory][seed]."""
        received: list[Episode | None] = [None for _ in self._members]
        for index in np.flatnonzero(who).tolist():
            received[index] = episode = self._recorded.episode(index, int(self._counters.episodes[index]))
            note_collected(self._options, self._counters, index, episode)
            watch.env_steps += len(episode.rewards)
        return [received] if who.any() else []

    def pack(self) -> Arrays:
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], policies: Policy) -> None:
        """The counters say where each seed stands."""


def require_whole_episodes(options: RunOptions) -> None:
    """Refuse options that say how a run collects, where it does not."""
    schedule, count = options.update_schedule, options.trajectories
    require(schedule == "trajectory", "update_schedule", schedule, "trajectory where episodes are handed in")
    require(count == 1, "trajectories", count, "1 where episodes are handed in")
