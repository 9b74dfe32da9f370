"""How fast a run goes and how long the device waits; never part of the results."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import jax

AHEAD = 1  # blocks unfinished while the next is prepared: the device goes from one to the other


@dataclass
class Busy:
    """Seconds in which something went on, of stretches that may overlap and begin in order."""

    total: float = 0.0
    until: float = 0.0

    def add(self, begun: float, ended: float) -> None:
        self.total += max(ended - max(begun, self.until), 0.0)
        self.until = max(self.until, ended)


@dataclass
class Stopwatch:
    """Work done and time taken in one phase, in this process.

    The first block is left out, with everything before it: it waits for the compiler.
    """

    begun: float | None = None  # when the first block was done
    ended: float | None = None  # when the phase was over
    device: Busy = field(default_factory=Busy)
    collecting: Busy = field(default_factory=Busy)
    updates: int = 0  # of all seeds
    rounds: int = 0  # of updates, in which each seed does one or waits for the others
    env_steps: int = 0  # collected
    evaluation_steps: int = 0  # environment steps of evaluations, of all seeds
    waited_s: dict[str, float] = field(default_factory=dict)  # of the process that runs it, and for what

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Note how long the process waits for something; the device may be busy meanwhile."""
        begun = time.monotonic()
        yield
        if self.begun is not None:
            self.waited_s[what] = self.waited_s.get(what, 0.0) + time.monotonic() - begun

    @property
    def updates_per_s(self) -> float:
        """While the device updates, over all seeds."""
        return self.updates / self.device.total if self.device.total else 0.0

    @property
    def seconds_per_round(self) -> float | None:
        return self.device.total / self.rounds if self.rounds else None

    @property
    def env_steps_per_s(self) -> float:
        """While any seed collects, over all seeds."""
        return self.env_steps / self.collecting.total if self.collecting.total else 0.0

    @property
    def device_wait_share(self) -> float | None:
        """Share of the wall clock in which the device had no block of updates to work on."""
        if self.begun is None:
            return None
        now = time.monotonic() if self.ended is None else self.ended
        return max(1.0 - self.device.total / max(now - self.begun, 1e-9), 0.0)


class Given(NamedTuple):
    """A block that the device is given."""

    begun: Future[float]  # when that happened
    marker: Future[jax.Array]  # ready when the block is done
    updates: int
    rounds: int


class DeviceWatch:
    """Follows the blocks on the device without holding up whoever gives them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="calql-device")
        self._blocks: deque[tuple[Stopwatch, Given, Future[float]]] = deque()

    def follow(self, watch: Stopwatch, block: Given) -> None:
        """Waits until the device is at the block.

        Not only until the last one is done: whoever gives this one then needs the interpreter for itself.
        """
        self._blocks.append((watch, block, self._thread.submit(_when_ready, block.marker)))
        self.settle(0 if watch.begun is None else AHEAD)
        block.begun.result()

    def settle(self, left: int = 0) -> None:
        """Wait until at most `left` blocks are unfinished."""
        while len(self._blocks) > left:
            watch, block, ready = self._blocks.popleft()
            ended = ready.result()
            if watch.begun is None:
                watch.begun = watch.device.until = watch.collecting.until = ended
            else:
                watch.device.add(block.begun.result(), ended)
                watch.updates += block.updates
                watch.rounds += block.rounds

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _when_ready(marker: Future[jax.Array]) -> float:
    marker.result().block_until_ready()
    return time.monotonic()


def resident_mb() -> float | None:
    """Memory of this process at the moment; None where the system does not tell."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if told.exists() else None
