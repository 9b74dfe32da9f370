"""The ring buffer against a plain list that does the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calql.engine.replay import Replay, empty_like, insert
from calql.methods.base import Transitions

CAPACITY, LIMIT = 7, 5
jit_insert = jax.jit(insert)


def rows(values: np.ndarray) -> Transitions:
    """Transitions whose every column tells the row's number."""
    column = jnp.asarray(values, jnp.float32)
    wide = jnp.stack([column, -column], axis=-1)
    return Transitions(wide, wide, column, wide, column, column)


def empty() -> Replay:
    return empty_like(jax.tree.map(lambda leaf: leaf[0], rows(np.zeros(1))), CAPACITY)


@settings(max_examples=60, deadline=None, database=None)
@given(st.lists(st.integers(0, LIMIT), max_size=8))
def test_keeps_the_newest_rows_whole(lengths: list[int]) -> None:
    replay, model, number = empty(), [], 1
    for length in lengths:
        values = np.arange(number, number + LIMIT)
        replay = jit_insert(replay, rows(values), jnp.int32(length))
        model += values[:length].tolist()
        number += LIMIT
    held = np.asarray(replay.rows.rewards)
    kept = model[-CAPACITY:]
    assert sorted(held[held > 0].tolist()) == sorted(kept)
    assert int(replay.inserted) == len(model)
    assert int(replay.size) == len(kept)
    for column in jax.tree.leaves(replay.rows):  # rows stay together across columns
        first = np.asarray(column).reshape(CAPACITY, -1)[:, 0]
        np.testing.assert_array_equal(first, held)
