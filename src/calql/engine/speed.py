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

import jax

RECENT = 1_000  # rounds of collection whose time is told
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
    rounds: int = 0  # in each of which every seed does an update or waits for the others
    collection_rounds: deque[float] = field(
        default_factory=lambda: deque(maxlen=RECENT)
    )  # seconds that the last ones took
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
    def seeds_at_once(self) -> float | None:
        """How many seeds do an update in a round; the device works for all of them."""
        return self.updates / self.rounds if self.rounds else None

    @property
    def collection_round_s(self) -> float | None:
        """How long a round of collection takes of late."""
        return sum(self.collection_rounds) / len(self.collection_rounds) if self.collection_rounds else None

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


class DeviceWatch:
    """Follows the blocks on the device without holding up the process that gives them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="calql-device")
        self._blocks: deque[tuple[Stopwatch, float, Future[float], int, int]] = deque()

    def given(self, watch: Stopwatch, begun: float, marker: jax.Array, updates: int, rounds: int) -> None:
        """A block was given at `begun`; `marker` is ready when it is done."""
        self._blocks.append((watch, begun, self._thread.submit(_when_ready, marker), updates, rounds))
        self.settle(0 if watch.begun is None else AHEAD)

    def settle(self, left: int = 0) -> None:
        """Wait until at most `left` blocks are unfinished."""
        while len(self._blocks) > left:
            watch, begun, done, updates, rounds = self._blocks.popleft()
            ended = done.result()
            if watch.begun is None:
                watch.begun = watch.device.until = watch.collecting.until = ended
            else:
                watch.device.add(begun, ended)
                watch.updates += updates
                watch.rounds += rounds

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _when_ready(marker: jax.Array) -> float:
    marker.block_until_ready()
    return time.monotonic()


def resident_mb() -> float | None:
    """Memory of this process at the moment; None where the system does not tell."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if told.exists() else None
