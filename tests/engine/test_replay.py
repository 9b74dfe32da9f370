"""The ring buffer against a plain list that does the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calql.engine import replay as replays
from calql.engine.checkpoint import pack
from calql.engine.replay import Replay, empty_like, first_rows, insert, refilled
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


@pytest.mark.slow
@settings(max_examples=40, deadline=None, database=None)
@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_the_first_rows_on_the_host(capacity: int, stretch: int, data: st.DataObject) -> None:
    """In stretches of any length, also one that does not divide the capacity."""
    count = data.draw(st.integers(1, capacity))
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 100.0 + leaf]), rows(np.arange(capacity)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replays, "STRETCH", stretch)
        patch.setattr(replays, "_on_the_host", lambda _: False)
        found = first_rows(stacked, count)
    jax.tree.map(lambda ours, column: np.testing.assert_array_equal(ours, column[:, :count]), found, stacked)


def test_where_the_device_is_the_host_a_checkpoint_copies_no_rows() -> None:
    """A buffer of a million rows would else be there twice while it is written."""
    stacked = jax.tree.map(lambda leaf: leaf[None], rows(np.arange(50)))
    found = first_rows(stacked, 20)
    for ours, column in zip(jax.tree.leaves(found), jax.tree.leaves(stacked), strict=True):
        np.testing.assert_array_equal(ours, column[:, :20])
        assert np.shares_memory(ours, np.asarray(column))


def test_saved_rows_are_put_into_the_memory_of_the_empty_buffer() -> None:
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 100.0 + leaf]), rows(np.arange(9)))
    arrays = pack("replay", first_rows(stacked, 4)) | {"inserted": np.array([4, 4], np.int32)}
    blank = Replay(jax.tree.map(jnp.zeros_like, stacked), jnp.zeros(2, jnp.int32))
    taken = blank.rows.rewards
    found = refilled(blank, arrays, jnp.asarray)
    assert taken.is_deleted()
    for ours, column in zip(jax.tree.leaves(found.rows), jax.tree.leaves(stacked), strict=True):
        np.testing.assert_array_equal(ours[:, :4], column[:, :4])
        assert not np.any(ours[:, 4:])
    assert found.inserted.tolist() == [4, 4]


def test_any_number_of_rows_is_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each checkpoint of a run on a GPU would leave a compiled slice behind."""
    monkeypatch.setattr(replays, "_on_the_host", lambda _: False)
    stacked = jax.tree.map(lambda leaf: leaf[None], rows(np.arange(50)))
    first_rows(stacked, 1)
    before = replays._stretch._cache_size()  # type: ignore[attr-defined]
    for count in range(2, 40):
        first_rows(stacked, count)
    assert replays._stretch._cache_size() == before  # type: ignore[attr-defined]
