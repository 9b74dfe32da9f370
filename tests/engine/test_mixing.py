"""How many rows of a batch are logged, and that only rows which are there get drawn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_replay import LIMIT, empty, rows

from calql.engine.mixing import draw, offline_rows
from calql.engine.options import RunOptions
from calql.engine.replay import insert
from calql.system.errors import UserError
from calql.system.options import POOLED

compiled = jax.jit(draw, static_argnums=(4, 5))


@pytest.mark.parametrize(
    ("mixing", "batch", "logged", "collected", "expected"),
    [
        (0.5, 256, 1000, 10, 128),
        (0.25, 256, 1000, 10, 64),
        (0.2, 256, 1000, 10, 51),  # int(51.2)
        (0.0, 256, 1000, 10, 0),
        (1.0, 256, 1000, 10, 256),
        (POOLED, 256, 1000, 0, 256),
        (POOLED, 256, 1000, 1000, 128),
        (POOLED, 256, 1000, 3000, 64),
    ],
)
def test_share_of_logged_rows(mixing: float, batch: int, logged: int, collected: int, expected: int) -> None:
    assert offline_rows(mixing, batch, logged, collected) == expected


@pytest.mark.parametrize("mixing", [-0.5, 1.01, -2.0])
def test_other_mixing_ratios_are_refused(mixing: float) -> None:
    with pytest.raises(UserError, match="mixing"):
        RunOptions(mixing=mixing)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, database=None)
@given(collected=st.integers(1, LIMIT), share=st.integers(0, 8), seed=st.integers(0, 1000))
def test_draws_only_rows_that_are_there(collected: int, share: int, seed: int) -> None:
    logged = rows(np.arange(100, 110))
    replay = insert(empty(), rows(np.arange(1, LIMIT + 1)), jnp.int32(collected))
    batch = compiled(jax.random.key(seed), logged, replay, jnp.int32(share), 0, (2, 8))
    drawn = np.asarray(batch.rewards)
    assert drawn.shape == (2, 8)
    assert np.all((drawn[:, :share] >= 100) & (drawn[:, :share] < 110))
    assert np.all((drawn[:, share:] >= 1) & (drawn[:, share:] <= collected))
    np.testing.assert_array_equal(np.asarray(batch.observations)[..., 0], drawn)


@pytest.mark.slow
def test_every_row_is_drawn_about_equally_often() -> None:
    logged, replay = rows(np.arange(100, 110)), empty()
    batch = compiled(jax.random.key(0), logged, replay, jnp.int32(4000), 0, (1, 4000))
    counts = np.bincount(np.asarray(batch.rewards, np.int64)[0] - 100, minlength=10)
    assert counts.min() > 300
    assert counts.max() < 500
