"""One program for many seeds: the same numbers as seed by seed, and however updates are cut into blocks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_task as toy

from calql.engine import mixing, program, scalars
from calql.engine.program import Learning, Program
from calql.engine.replay import Replay, empty_like
from calql.system.blas import one_thread

pytestmark = pytest.mark.slow

SEEDS, UPDATES = 3, 6
USUAL = {"xla_backend_optimization_level": "3"}
METHOD = toy.tiny("cal-ql")
LOGGED = toy.logged(METHOD)
PROGRAM = Program(METHOD)


def start(seeds: list[int]) -> tuple[Learning, Replay, jax.Array]:
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    state = PROGRAM.start(keys, toy.spec())
    learning = PROGRAM.fresh(state, jnp.zeros(len(seeds), jnp.int32), LOGGED)
    one = empty_like(jax.tree.map(lambda column: column[0], LOGGED), 10)
    replay = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], len(seeds), axis=0), one)
    return learning, replay, keys


def train(seeds: list[int], blocks: list[list[int]], rounds: int | None = None) -> Learning:
    learning, replay, keys = start(seeds)
    share = jnp.full(len(seeds), METHOD.batch_size, jnp.int32)
    for due in blocks:
        learning = PROGRAM.train(learning, LOGGED, replay, keys, share, jnp.asarray(due, jnp.int32), rounds=rounds)
    return learning


def take(learning: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], learning)


def test_many_seeds_are_each_seed_alone() -> None:
    together = train([0, 1, 2], [[UPDATES] * 3])
    for index, seed in enumerate([0, 1, 2]):
        alone = train([seed], [[UPDATES]])
        toy.close(take(together, index).state, take(alone, 0).state)


def test_states_start_the_same_however_hard_the_compiler_tries() -> None:
    """The program of fresh states is compiled quickly, and gives the bytes of one that is compiled as updates are
    (outside of tests, where nothing is compiled with care)."""
    keys = jnp.stack([jax.random.key(seed) for seed in (0, 1)])
    with one_thread():  # as a run has it: the last digits of decompositions follow from the number of threads
        usual = jax.jit(program._start, static_argnums=(0, 2), compiler_options=USUAL)(PROGRAM, keys, toy.spec())
        jax.tree.map(np.testing.assert_array_equal, PROGRAM.start(keys, toy.spec()), usual)


def test_numbers_of_a_single_seed_travel_together_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scalars are few arrays while updates are done, and come back each in its place."""
    joined = train([0], [[UPDATES]])
    leaves = jax.tree.leaves(joined)
    together = scalars.together(leaves)
    count = sum(leaf.ndim == 1 for leaf in leaves)
    assert len(together.places) == count > 5
    assert set(together.kinds) == {jnp.dtype("float32"), jnp.dtype("int32")}
    packed = scalars.joined(leaves, together)
    assert len(packed) == len(leaves) - count + 1
    toy.same(scalars.apart(packed, together), leaves)
    monkeypatch.setattr(scalars, "together", lambda _: scalars.Together((), ()))
    jax.clear_caches()
    toy.same(train([0], [[UPDATES]]), joined)


def test_seeds_differ() -> None:
    learning = train([0, 1], [[2, 2]])
    first, second = (jax.tree.leaves(take(learning, i).state.policy)[0] for i in (0, 1))
    assert not np.allclose(first, second)


def test_blocks_change_nothing() -> None:
    whole = train([0, 1], [[UPDATES, UPDATES]])
    cut = train([0, 1], [[1, 4], [3, 0], [2, 2]])
    toy.same(whole, cut)


def test_a_loop_of_fixed_length_does_what_is_due() -> None:
    """As a GPU is given it: however it is cut, and to rounding what a loop of any length does."""
    fixed = train([0, 1], [[4, 4], [2, 2]], rounds=4)
    toy.same(fixed, train([0, 1], [[1, 4], [4, 0], [1, 2]], rounds=4))
    toy.close(fixed, train([0, 1], [[UPDATES, UPDATES]]))
    assert np.asarray(fixed.updates).tolist() == [UPDATES, UPDATES]


def test_a_loop_of_fixed_length_for_a_single_seed_does_what_is_due() -> None:
    """Also where nothing is: its scalars lie together meanwhile."""
    fixed = train([0], [[4], [2]], rounds=4)
    toy.same(fixed, train([0], [[1], [0], [4], [1]], rounds=4))
    toy.close(fixed, train([0], [[UPDATES]]))
    assert np.asarray(fixed.counts).tolist() == [UPDATES]


def test_a_seed_that_is_done_waits_unchanged() -> None:
    before = train([0, 1], [[2, 2]])
    kept = jax.tree.map(np.asarray, take(before, 0))
    after = train([0, 1], [[2, 2], [0, 3]])
    toy.same(kept, take(after, 0))
    assert np.asarray(after.updates).tolist() == [2, 5]


def test_the_compiled_loop_is_a_python_loop() -> None:
    compiled = take(train([5], [[3]]), 0)
    learning, replay, keys = start([5])
    state, empty = take(learning, 0).state, take(replay, 0)
    update = jax.jit(METHOD.update)
    for number in range(3):
        key_batch, key_update = jax.random.split(jax.random.fold_in(keys[0], number))
        batch = mixing.draw(key_batch, LOGGED, empty, jnp.int32(METHOD.batch_size), 0, mixing.batch_shape(METHOD))
        state, _ = update(state, batch, key_update)
    toy.close(compiled.state, state)


def test_metrics_are_means_since_they_were_cleared() -> None:
    learning = train([0, 1], [[4, 2]])
    assert np.asarray(learning.counts).tolist() == [4, 2]
    assert all(np.isfinite(np.asarray(total)).all() for total in learning.sums.values())
