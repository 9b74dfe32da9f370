"""Updates/s of a method at given shapes: the program that trains, on random data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from calql.engine.devices import Shards, shards_for
from calql.engine.inputs import columns_of, on_device
from calql.engine.mixing import batch_shape
from calql.engine.options import RunOptions
from calql.engine.program import Learning, Program, UpdateInputs, on_accelerator, short_part, whole_loops
from calql.engine.replay import Replay, empty_like
from calql.engine.stream import Stream
from calql.methods import method_entry
from calql.methods.base import Method, Spec, Transitions
from calql.methods.reference import Trajectory


@dataclass(frozen=True)
class Shapes:
    """What an update is made of, apart from the method's own options."""

    observation: int = 29
    action: int = 8
    transitions: int = 100_000  # logged
    episode: int = 1_000
    seeds: int = 1
    devices: int = 1  # over which the seeds are shared out


def random_data(shapes: Shapes, columns: frozenset[str]) -> Transitions:
    """Logged transitions of the right shapes; values are noise, so that no kernel is flattered by zeros."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(max(shapes.transitions // shapes.episode, 1)):
        seen = rng.normal(size=(shapes.episode + 1, shapes.observation)).astype(np.float32)
        actions = rng.uniform(-0.99, 0.99, (shapes.episode, shapes.action)).astype(np.float32)
        rewards = rng.normal(size=shapes.episode).astype(np.float32)
        trajectory = Trajectory(seen[:-1], actions, rewards, np.zeros(shapes.episode, bool))
        parts.append(columns_of(trajectory, seen[1:], rewards, rewards, columns))
    return on_device({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


class Bench:
    """A method on data, random ones unless given, ready to update: the program that trains, with half of each batch
    from its buffer, or another share.

    Its loops are those of a run: of any length on a CPU, of the one length `loop` on anything else.
    """

    def __init__(
        self, name: str, options: Any, shapes: Shapes, logged: Transitions | None = None, share: float = 0.5
    ) -> None:
        method: Method = method_entry(name).make(options)
        self.minibatches, self._seeds = method.minibatches, shapes.seeds
        self.loop = short_part(RunOptions().block) if on_accelerator() else None
        shards = shards_for(shapes.devices, shapes.seeds)
        self.program, self.logged = Program(method, shards), _on_devices(logged, shapes, method, shards)
        keys = jax.random.split(jax.random.key(0), shapes.seeds)
        seen = self.logged.observations
        state = self.program.start(keys, Spec(seen.shape[1:], shapes.action, image=seen.dtype == np.uint8))
        learning = self.program.fresh(state, jnp.zeros(shapes.seeds, jnp.int32), self.logged)
        self.keys, self.learning = shards.shared_out((keys, learning))
        self.replay = _filled(self.logged, shapes.seeds, shards)
        logged_part = int(share * method.batch_size)
        half, none = np.full(shapes.seeds, logged_part, np.int32), np.zeros(shapes.seeds, np.int32)
        returns = np.tile(np.array([-100.0, 100.0], np.float32), (shapes.seeds, 1)) if method.bounds_targets else None
        self.done = none
        self._update_inputs = UpdateInputs((self.logged, self.replay), self.keys, half, none, returns, (none, none))

    def stream(self) -> None:
        """From now on, logged rows are brought from where they are."""
        stream = Stream(self.logged, batch_shape(self.program.method), self.keys)
        self._update_inputs = self._update_inputs._replace(rows=(stream, self.replay))

    def advance(self, learning: Learning, updates: int) -> Learning:
        given = self._update_inputs._replace(stands=(self.done, self.done))
        self.done = self.done + np.int32(updates * self.minibatches)
        return self.program.looped(learning, given, np.full(self._seeds, updates), loop=self.loop)

    def whole_loops(self, updates: int) -> int:
        """So many updates, or a few more, that no loop is gone through for nothing."""
        return whole_loops(updates, self.loop)


def measure_updates(name: str, options: Any, shapes: Shapes, *, seconds: float = 5.0) -> dict[str, Any]:
    """Compile, warm up, then time whole blocks; the median block counts."""
    bench = Bench(name, options, shapes)

    def block(learning: Learning, updates: int) -> tuple[Learning, float]:
        begun = time.perf_counter()
        learning = bench.advance(learning, updates)
        jax.block_until_ready(learning.updates)
        return learning, time.perf_counter() - begun

    learning, compile_s = block(bench.learning, 1)
    few = bench.whole_loops(5)
    learning, one = block(learning, few)
    updates = bench.whole_loops(int(np.clip(0.2 * seconds / (one / few), 5, 2_000)))
    times: list[float] = []  # per update, one entry a block
    while updates * sum(times) < seconds or len(times) < 3:
        learning, taken = block(learning, updates)
        times.append(taken / updates)
    per_update = float(np.median(times)) / bench.minibatches
    return {
        "method": name,
        "seeds": shapes.seeds,
        "devices": shapes.devices,
        "updates_per_s": 1.0 / per_update,
        "seed_updates_per_s": shapes.seeds / per_update,
        "spread": float(np.std(times) / np.mean(times)),
        "compile_s": compile_s,
        "blocks": len(times),
        "updates_per_block": updates,
        "updates_per_loop": bench.loop or updates,
    }


def _on_devices(logged: Transitions | None, shapes: Shapes, method: Method, shards: Shards) -> Transitions:
    """Rows that are given stay where they are; made-up ones go to every device."""
    return shards.copied(random_data(shapes, method.columns)) if logged is None else logged


def _filled(logged: Transitions, seeds: int, shards: Shards) -> Replay:
    """A small online buffer with real rows for each seed."""
    image = logged.observations.dtype == np.uint8
    rows = min(100 if image else 10_000, logged.rewards.shape[0])
    empty = empty_like(jax.tree.map(lambda column: column[0], logged), rows)
    one = Replay(jax.tree.map(lambda column: jnp.asarray(column[:rows]), logged), empty.inserted + rows)
    return shards.repeated(one, seeds)
