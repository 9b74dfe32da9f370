"""The compiled program: a block of updates for all seeds, without returning to Python in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.engine import ahead, mixing, scalars
from calql.engine.counters import Counts
from calql.engine.devices import ONE, Shards
from calql.engine.health import Health, Stands, are_sound, duplicate, keep_sound, newly_lost
from calql.engine.replay import Replay, insert
from calql.engine.stream import Stream, Window
from calql.methods.base import Method, Metrics, Spec, TimeStep, Transitions
from calql.system.tracing import INLINED

ONCE = {"xla_backend_optimization_level": "1"}  # of XLA: the same numbers, no loops written out for vectors
SHORT = 12  # such parts of a block go on online while a seed waits for its round


class Learning(NamedTuple):
    """Everything that updates change. Every leaf [seed, ...]."""

    state: Any  # the method's
    updates: jax.Array  # int32: calls of update so far; the random numbers of the next one follow from it
    sums: Metrics  # of each metric since the last evaluation
    counts: jax.Array  # int32: updates in those sums


class UpdateInputs(NamedTuple):
    """What a block of updates draws from. Arrays [seed, ...] but for the logged rows."""

    rows: tuple[Transitions | Stream, Replay]
    keys: jax.Array
    shares: NDArray[np.int32]  # rows of a batch that are logged ones
    first: NDArray[np.int32]  # where logged rows begin
    returns: NDArray[np.float32] | None  # least and largest possible, for a method that bounds its targets
    stands: Stands  # where each seed stands before them: gradient steps, environment steps


@dataclass(frozen=True)
class Program:
    """Pure functions of one method, vmapped over the seeds of a device. Hashable, so that jit compiles each once."""

    method: Method
    shards: Shards = ONE

    def start(self, keys: jax.Array, spec: Spec) -> Any:
        """Fresh method states [seed], one after the other.

        Under vmap the QR decompositions of orthogonal kernels become batched ones, several of which at a
        time wait for each other for ever on two cores.
        """
        return _started()(self, keys, spec)

    @partial(jax.jit, static_argnums=0, inline=INLINED)
    def update(self, state: Any, batch: Transitions, key: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
        """The method's, of one seed. Traced once, which takes as long as the rest of a start: for `fresh`, `train`."""
        return self.method.update(state, batch, key)

    def fresh(self, state: Any, updates: jax.Array, logged: Transitions) -> Learning:
        """Learning with empty sums; their names come from the method itself."""
        shape = mixing.batch_shape(self.method)
        batch = jax.tree.map(lambda c: jax.ShapeDtypeStruct((*shape, *c.shape[1:]), c.dtype), logged)
        if self.method.bounds_targets:
            batch = batch._replace(returns=jax.ShapeDtypeStruct((self.method.minibatches, 2), jnp.float32))
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), state)
        _, metrics = Program.update.eval_shape(self, one, batch, jax.random.key(0))
        zeros = {name: jnp.zeros(len(updates)) for name in metrics}
        return Learning(state, updates, zeros, jnp.zeros(len(updates), jnp.int32))

    @partial(jax.jit, static_argnums=0, static_argnames="rounds", donate_argnums=1)
    def train(
        self,
        learning: Learning,
        logged: Transitions | Window,
        replay: Replay,
        keys: jax.Array,
        from_logged: jax.Array,
        due: jax.Array,
        logged_start: jax.Array | None = None,
        returns: jax.Array | None = None,
        *,
        rounds: int | None = None,
    ) -> Learning:
        """`due` [seed] updates of each seed; a seed that has done its share waits for the others.

        Each update draws its batch and its noise from the seed's key and its own update count, so the
        result does not depend on how updates are cut into blocks.

        `returns` [seed, 2], least and largest possible, go into each batch where a method asks for them.

        `logged` are all logged rows, or those that these updates draw, brought from elsewhere.

        With `rounds`, that many are gone through, whatever is due: who gives a GPU a loop of a length known to the
        compiler need not stay to count.
        """
        first = jnp.zeros_like(due) if logged_start is None else logged_start
        every, window = (None, logged) if isinstance(logged, Window) else (logged, None)
        of_seeds = learning, replay, keys, from_logged, due, first, returns, window
        trained: Learning = self.shards.each(partial(self._block, rounds), *of_seeds, shared=(every,))
        return trained

    def _block(
        self,
        rounds: int | None,
        every: Transitions | None,
        learning: Learning,
        replay: Replay,
        keys: jax.Array,
        from_logged: jax.Array,
        due: jax.Array,
        first: jax.Array,
        returns: jax.Array | None,
        window: Window | None,
    ) -> Learning:
        """On one device: as many rounds as its seeds need. Batches draw from `every` logged row, or from a `window`."""

        def one(
            learning: Learning,
            replay: Replay,
            key: jax.Array,
            from_logged: jax.Array,
            first: jax.Array,
            left: jax.Array,
            update: jax.Array,
            returns: jax.Array | None,
            window: Window | None,
        ) -> Learning:
            key_batch, key_update = mixing.update_keys(key, update)
            source = every if window is None else window.at(update)
            assert source is not None
            batch = mixing.draw(key_batch, source, replay, from_logged, first, mixing.batch_shape(self.method))
            if returns is not None:
                batch = batch._replace(returns=jnp.broadcast_to(returns, (self.method.minibatches, 2)))
            state, metrics = self.update(learning.state, batch, key_update)
            sums = jax.tree.map(jnp.add, learning.sums, metrics)
            after = Learning(state, learning.updates + 1, sums, learning.counts + 1)
            return jax.tree.map(lambda new, old: jnp.where(left > 0, new, old), after, learning)

        leaves, structure = jax.tree.flatten(learning)
        together = scalars.together(leaves if len(due) == 1 else [])

        def step(index: jax.Array, packed: scalars.Arrays) -> scalars.Arrays:
            learning = jax.tree.unflatten(structure, scalars.apart(packed, together))
            left, update = due - index, begun + index
            after = jax.vmap(one)(learning, replay, keys, from_logged, first, left, update, returns, window)
            return scalars.joined(jax.tree.leaves(after), together)

        packed, begun = scalars.joined(leaves, together), learning.updates
        if rounds is None:
            trained: scalars.Arrays = jax.lax.fori_loop(0, jnp.max(due), step, packed)
        else:
            trained = ahead.loop(step, rounds, packed)
        after = scalars.apart(trained, together)
        if rounds is not None:
            after = scalars.written_together(after, leaves, due, together)
        return jax.tree.unflatten(structure, after)

    def advance(
        self, learning: Learning, health: Health, given: UpdateInputs, calls: Counts, *, loop: int | None
    ) -> tuple[Learning, Health]:
        """`calls` [seed] updates of each seed: one loop as long as it takes, or several of the length `loop`.

        A seed that comes to what is not a number stays as it was before: before that very update where the loop may
        have any length, before this block where loops are given without waiting for them.
        """
        after = self.looped(duplicate(learning), given, calls, loop=loop)
        sound = are_sound((after.state, after.sums))
        kept, marked = keep_sound(learning, after, sound, health, given.stands)
        for index in newly_lost(marked, health) if loop is None else []:
            kept, done = self._to_the_last_sound(kept, given, index, int(calls[index]))
            marked = marked._replace(gradient_steps=marked.gradient_steps.at[index].add(done * self.method.minibatches))
        return kept, marked

    def looped(self, learning: Learning, given: UpdateInputs, calls: Counts, *, loop: int | None) -> Learning:
        """After `calls` [seed] updates of each seed; takes the memory of `learning`."""
        logged, replay = given.rows
        rest = given.keys, given.shares
        for due, rows, rounds in self._pieces(logged, given, calls, loop):
            learning = self.train(
                learning, rows, replay, *rest, due.astype(np.int32), given.first, given.returns, rounds=rounds
            )
            if isinstance(logged, Stream):
                logged.used(duplicate(learning.updates))
        return learning

    def _pieces(
        self, logged: Transitions | Stream, given: UpdateInputs, calls: Counts, loop: int | None
    ) -> Iterator[tuple[Counts, Transitions | Window, int | None]]:
        """The updates by parts that the device is given at a time: how many of each seed, and what they draw from."""
        if isinstance(logged, Stream):
            done = given.stands[0].astype(np.int64) // self.method.minibatches
            yield from logged.pieces(done, calls, given.first, given.shares, loop)
            return
        most = int(calls.max())
        for before in range(0, most, loop or max(most, 1)):
            yield np.clip(calls - before, 0, loop or most), logged, loop

    def _to_the_last_sound(
        self, learning: Learning, given: UpdateInputs, index: int, most: int
    ) -> tuple[Learning, int]:
        """One seed moved on by as many updates as leave it sound, fewer than `most`; and their number."""

        def moved(updates: int) -> Learning:
            calls = np.zeros(len(given.shares), np.int64)
            calls[index] = updates
            return self.looped(duplicate(learning), given, calls, loop=None)

        good, bad = 0, most
        while bad - good > 1:
            middle = (good + bad) // 2
            trial = moved(middle)
            if bool(are_sound((trial.state, trial.sums))[index]):
                good = middle
            else:
                bad = middle
        return moved(good), good

    @partial(jax.jit, static_argnums=0)
    def values(self, state: Any, observations: jax.Array, actions: jax.Array) -> jax.Array | None:
        """Q [seed, batch] of logged pairs, or None."""

        def values(observations: jax.Array, actions: jax.Array, state: Any) -> jax.Array | None:
            return jax.vmap(lambda one: self.method.value(one, observations, actions))(state)

        return self.shards.each(values, state, shared=(observations, actions))

    @partial(jax.jit, static_argnums=0)
    def values_of_policies(self, state: Any, observations: jax.Array) -> jax.Array | None:
        """Q [seed, batch] of what each seed's policy does at these observations when it does not explore, or None."""

        def one(observations: jax.Array, state: Any) -> jax.Array | None:
            policy = self.method.policy(state)
            start = self.method.start(policy)

            def act(observation: jax.Array) -> jax.Array:
                time_step = TimeStep(observation, jnp.float32(0.0), jnp.int32(0))
                return self.method.act(policy, start, time_step, jax.random.key(0), explore=False)[0]

            return self.method.value(state, observations, jax.vmap(act)(observations))

        return self.shards.each(jax.vmap(one, in_axes=(None, 0)), state, shared=(observations,))

    @partial(jax.jit, static_argnums=0)
    def policies(self, state: Any) -> Any:
        """Those of all seeds; copies, safe from the next block, which takes its inputs' memory."""
        return self.shards.each(lambda own: jax.tree.map(jnp.copy, jax.vmap(self.method.policy)(own)), state)


@cache
def _started() -> Any:
    """The program of `Program.start`. A run goes through it once: a CPU's compiler need not spend seconds on it."""
    options = None if on_accelerator() else ONCE
    return jax.jit(_start, static_argnums=(0, 2), compiler_options=options)


def _start(program: Program, keys: jax.Array, spec: Spec) -> Any:
    return jax.lax.map(lambda key: program.method.init(key, spec), keys)


def short_part(block: int) -> int:
    """Updates in the least that the device is given: a GPU gets loops of this length, and no others."""
    return max(block // SHORT, 1)


def whole_loops(updates: int, loop: int | None) -> int:
    """Updates that the device goes through for so many: those of whole loops, where these have a fixed length."""
    return -(-updates // (loop or 1)) * (loop or 1)


def on_accelerator() -> bool:
    """Whether updates leave the cores of the CPU alone."""
    return jax.default_backend() != "cpu"


@partial(jax.jit, donate_argnums=0, static_argnames="shards")
def insert_all(replay: Replay, episodes: Transitions, lengths: jax.Array, *, shards: Shards = ONE) -> Replay:
    """Put one padded episode [seed, limit, ...] into each seed's buffer; length 0 leaves it alone."""
    filled: Replay = shards.each(jax.vmap(insert), replay, episodes, lengths)
    return filled


def clear_sums(learning: Learning, seeds: jax.Array) -> Learning:
    """Start the running means of the marked seeds anew."""
    sums, counts = _cleared((learning.sums, learning.counts), seeds)
    return learning._replace(sums=sums, counts=counts)


@jax.jit
def _cleared(totals: tuple[Metrics, jax.Array], seeds: jax.Array) -> tuple[Metrics, jax.Array]:
    return jax.tree.map(lambda total: jnp.where(seeds, jnp.zeros_like(total), total), totals)
