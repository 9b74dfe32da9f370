"""Updates/s with logged rows on the device and streamed to it from disk, in turns; and what the host holds then."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from numpy.typing import NDArray

from calql.bench.sampling import Sample, sampled, take
from calql.bench.updates import Bench, Shapes
from calql.data import Dataset, load, write
from calql.data.rewards import RewardRule
from calql.data.stored import Stored
from calql.engine.inputs import prepare
from calql.engine.placement import MOST, logged_bytes
from calql.methods import method_entry
from calql.methods.reference import Fit
from calql.system.machine import device_memory, host_memory

NOISE = 2**24  # bytes, of which every picture is a piece
EVERY_S = 0.2
TURNS = 5  # at least, of each
NAME = "noise.columns"


@dataclass(frozen=True)
class Noise:
    """Observations of noise, each a piece of the same bytes; never in memory as a whole."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, places: NDArray[np.int64]) -> NDArray[Any]:
        rng, size = np.random.default_rng(0), int(np.prod(self.shape[1:]))
        if self.dtype == np.uint8:
            noise: NDArray[Any] = rng.integers(0, 256, NOISE, np.uint8)
        else:
            noise = rng.normal(size=NOISE // 4).astype(self.dtype)
        first = (places * 7919) % (len(noise) - size)
        return noise[first[:, None] + np.arange(size)].reshape(len(places), *self.shape[1:])


def noise(shapes: Shapes, pixels: int) -> Dataset:
    """Episodes of one length, none of which ends in a terminal; images where `pixels` is their side."""
    episodes = max(shapes.transitions // shapes.episode, 1)
    rows, rng = episodes * shapes.episode, np.random.default_rng(1)
    shape = (pixels, pixels, 3) if pixels else (shapes.observation,)
    source = Noise((rows + episodes, *shape), np.dtype(np.uint8 if pixels else np.float32))
    places = np.arange(rows) + np.repeat(np.arange(episodes), shapes.episode)
    ends = np.arange(1, rows + 1) % shapes.episode == 0
    return Dataset(
        cast(Any, Stored(source, places)),
        rng.uniform(-0.99, 0.99, (rows, shapes.action)).astype(np.float32),
        rng.normal(size=rows).astype(np.float32),
        cast(Any, Stored(source, places + 1)),
        np.zeros(rows, np.bool_),
        ends,
    )


def measure_stream(
    name: str, options: Any, shapes: Shapes, *, pixels: int = 0, seconds: float = 5.0, keep: Path | None = None
) -> dict[str, Any]:
    """First what a stream alone holds and does, then both in turns, as a machine that others use asks for."""
    with tempfile.TemporaryDirectory() as place:
        folder = (keep or Path(place)) / NAME
        if not folder.exists():
            write(noise(shapes, pixels), folder)
        data = load(folder)
        streamed = Side(name, options, shapes, data, stream=True)
        with sampled(lambda at: take(os.getpid(), at), EVERY_S) as samples:
            alone = streamed.turns(seconds)
        found = {
            "method": name,
            "seeds": shapes.seeds,
            "observation": list(data.observations.shape[1:]),
            "transitions": len(data),
            "on_disk_mb": sum(file.stat().st_size for file in folder.iterdir()) / 1e6,
            "streamed_alone": {**_rates(alone), **_held(samples)},
        }
        if logged_bytes(data) > MOST * min(device_memory(), host_memory()):
            return {**found, "in_memory": None}
        resident = Side(name, options, shapes, data.in_memory(), stream=False)
        times = in_turns(streamed, resident, seconds)
    both = {"streamed": _rates(times[0]), "in_memory": _rates(times[1])}
    ratio = both["streamed"]["updates_per_s"] / both["in_memory"]["updates_per_s"]
    return {**found, **both, "ratio": ratio, "turns": len(times[0])}


class Turn(NamedTuple):
    """An update of a stretch, in seconds of the clock and of all cores; the latter do not wait for others' work."""

    wall_s: float
    cpu_s: float


class Side:
    """One of the two: a program and its data, all rows of a batch logged ones."""

    def __init__(self, name: str, options: Any, shapes: Shapes, data: Dataset, *, stream: bool) -> None:
        method = method_entry(name).make(options)
        logged = prepare(method, "none", Fit(data, RewardRule(), 0.99, stream=stream)).logged
        self._bench = Bench(name, options, shapes, logged, share=1.0)
        if stream:
            self._bench.stream()
        self._learning, self._updates = self._bench.learning, self._bench.whole_loops(2)
        self.turn()

    def turn(self) -> Turn:
        """Seconds for one update, over a stretch of some."""
        begun, worked = time.perf_counter(), time.process_time()
        self._learning = self._bench.advance(self._learning, self._updates)
        jax.block_until_ready(self._learning.updates)
        count = self._updates * self._bench.minibatches
        return Turn((time.perf_counter() - begun) / count, (time.process_time() - worked) / count)

    def turns(self, seconds: float) -> list[Turn]:
        """So long, in stretches of a fifth of that; the first, which may compile, sets their length."""
        self._updates = self._bench.whole_loops(int(np.clip(0.2 * seconds / self.turn().wall_s, 2, 5_000)))
        return [self.turn() for _ in range(TURNS)]

    def like(self, other: Side) -> None:
        """Stretches as long as the other's."""
        self._updates = other._updates


def in_turns(one: Side, other: Side, seconds: float) -> tuple[list[Turn], list[Turn]]:
    other.like(one)
    times: tuple[list[Turn], list[Turn]] = ([], [])
    begun = time.monotonic()
    one.turn(), other.turn()
    while len(times[0]) < TURNS or time.monotonic() - begun < 2 * seconds:
        times[0].append(one.turn())
        times[1].append(other.turn())
    return times


def _rates(turns: list[Turn]) -> dict[str, float]:
    """Of the median stretch."""
    wall, cpu = (float(np.median([turn[place] for turn in turns])) for place in (0, 1))
    return {"updates_per_s": 1.0 / wall, "cpu_ms_per_update": 1e3 * cpu}


def _held(samples: list[Sample]) -> dict[str, float]:
    """The most that the process held: all, and what is no page of a file."""
    return {
        "largest_resident_mb": max(sample.resident_mb for sample in samples),
        "largest_anonymous_mb": max(sample.anonymous_mb for sample in samples),
        "largest_of_files_mb": max(sample.resident_mb - sample.anonymous_mb for sample in samples),
    }
