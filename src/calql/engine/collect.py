"""Collection: each seed's trajectories, played with a frozen policy and counted when the seed takes them in.

A collection round is `trajectories` whole episodes. It is launched with the policy of that time and received when the
seed has done the updates that it owed. With lag 0 both happen at one moment, as in the paper; with lag 1
the next round is launched before the updates that the last one earned, and is in flight while they are done. What
is in flight is decided by counters alone, and can be launched again from its policy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from calql.engine.checkpoint import Arrays, pack, unpack
from calql.engine.counters import Counters, Seeds
from calql.engine.episodes import COLLECT, Episode, Request
from calql.engine.options import RunOptions
from calql.engine.rollout import Collect, policy_of
from calql.engine.speed import Stopwatch
from calql.engine.stop import PATIENCE_S
from calql.engine.workers import Pool
from calql.methods.base import Policy


@dataclass
class Flight:
    """A collection round in flight."""

    policy: Policy
    begun: float
    episodes: list[Future[list[Episode]]] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)

    def add(self, episode: Future[list[Episode]]) -> None:
        ended = self.ended  # not the flight: it holds the episode, and the two would live until Python looks for cycles
        episode.add_done_callback(lambda _: ended.append(time.monotonic()))
        self.episodes.append(episode)

    @property
    def over(self) -> bool:
        return all(episode.done() for episode in self.episodes)

    def receive(self) -> list[Episode]:
        """Its episodes in order; waits for those still played."""
        return [future.result()[0] for future in self.episodes]


class Collector:
    """Launches collection rounds, receives them, and counts what they earn."""

    def __init__(self, options: RunOptions, seeds: Sequence[int], counters: Counters) -> None:
        self._options, self._seeds, self._counters = options, seeds, counters
        self._flights: dict[int, Flight] = {}
        self.restored: dict[int, Policy] = {}  # to be launched again
        self._stretches: list[tuple[float, float]] = []  # when rounds that were received began and ended

    @property
    def in_flight(self) -> Seeds:
        return np.array([index in self._flights for index in range(len(self._seeds))])

    def ready(self, asked: Callable[[], bool], *, wait: bool) -> Seeds:
        """Seeds whose round is over; at least one, if told to wait and any is in flight, unless asked to stop."""
        while wait and self._flights and not any(flight.over for flight in self._flights.values()) and not asked():
            playing = [episode for flight in self._flights.values() for episode in flight.episodes]
            left = [episode for episode in playing if not episode.done()]
            futures.wait(left, PATIENCE_S, return_when=futures.FIRST_COMPLETED)
        over = {index for index, flight in self._flights.items() if flight.over}
        return np.array([index in over for index in range(len(self._seeds))])

    def over(self, who: Seeds, asked: Callable[[], bool]) -> bool:
        """Wait for the rounds of the chosen seeds, and raise what one raised; False if asked to stop meanwhile."""
        left = {episode for index in np.flatnonzero(who) for episode in self._flights[int(index)].episodes}
        while left:
            done, left = futures.wait(left, PATIENCE_S, return_when=futures.FIRST_EXCEPTION)
            for episode in done:
                episode.result()
            if left and asked():
                return False
        return True

    @property
    def unfinished(self) -> Seeds:
        return self._counters.env_steps < self._options.online_steps

    def launch(self, who: Seeds, policies: Policy, pool: Pool) -> None:
        """A round of each chosen seed, with its policy of the stacked ones (on the host)."""
        for index in np.flatnonzero(who):
            self._launch(int(index), policy_of(policies, int(index)), pool)

    def _launch(self, index: int, policy: Policy, pool: Pool) -> None:
        flight = Flight(policy, time.monotonic())
        first = int(self._counters.episodes[index])
        for number in range(first, first + self._options.trajectories):
            at_random = acts_at_random(self._options, self._counters, index)
            request = Request((self._seeds[index], COLLECT, number), at_random)
            flight.add(pool.submit(Collect(policy, (request,))))
        self._flights[index] = flight

    def receive(self, who: Seeds, watch: Stopwatch) -> list[list[Episode | None]]:
        """Wait for the rounds of the chosen seeds and count them; their episodes as [trajectory][seed]."""
        received: list[list[Episode | None]] = [[None] * len(self._seeds) for _ in range(self._options.trajectories)]
        for index in np.flatnonzero(who):
            flight = self._flights.pop(int(index))
            for position, episode in enumerate(flight.receive()):
                received[position][index] = episode
                note_collected(self._options, self._counters, int(index), episode)
                watch.env_steps += len(episode.rewards)
            ended = max(flight.ended, default=time.monotonic())
            self._stretches.append((flight.begun, ended))
            watch.collection_rounds.append(ended - flight.begun)
        self._note_time(watch)
        return received if who.any() else []

    def _note_time(self, watch: Stopwatch) -> None:
        """Of rounds in the order in which they began: one in flight may have begun before one received."""
        earliest = min((flight.begun for flight in self._flights.values()), default=math.inf)
        for begun, ended in sorted(self._stretches):
            if begun < earliest:
                watch.collecting.add(begun, ended)
        self._stretches = [stretch for stretch in self._stretches if stretch[0] >= earliest]

    def pack(self) -> Arrays:
        """What is in flight, as the policy that it was launched with: the rest follows from the counters."""
        arrays: Arrays = {}
        for index, flight in self._flights.items():
            arrays |= pack(_name(index), flight.policy)
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]], policies: Policy) -> None:
        """Note what was in flight when the checkpoint was written; `policies` have the right shapes."""
        for index in range(len(self._seeds)):
            if any(name.startswith(f"{_name(index)}/") for name in arrays):
                self.restored[index] = jax.device_get(unpack(_name(index), arrays, policy_of(policies, index)))

    def relaunch(self, pool: Pool) -> None:
        """Launch it again."""
        while self.restored:
            self._launch(*self.restored.popitem(), pool)


def note_collected(options: RunOptions, counters: Counters, index: int, episode: Episode) -> None:
    """Count an episode that a seed takes in, and the updates that it earns."""
    summary = episode.summary()
    counters.env_steps[index] += summary.length
    counters.collected(index, summary)
    earning = min(summary.length, max(int(counters.env_steps[index]) - options.warmup_steps, 0))
    per_episode = options.updates_per_episode * (earning > 0)
    counters.debt[index] += per_episode or earning * options.update_ratio


def acts_at_random(options: RunOptions, counters: Counters, index: int) -> bool:
    """Whether a seed's next step is part of a warm-up without the policy."""
    return bool(counters.env_steps[index] < options.warmup_steps and options.warmup_actions == "random")


def _name(index: int) -> str:
    return f"flight-{index}"
