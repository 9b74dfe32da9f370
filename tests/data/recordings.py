"""Recordings to read: made by hand, and drawn by Hypothesis in D4RL's flat layout."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from calql.data import Dataset

Arrays = dict[str, NDArray[Any]]


def recording(
    terminals: list[int], timeouts: list[int], rewards: list[float] | None = None, *, stored: bool = False
) -> Arrays:
    """Row i observes [i, -i] and acts [i / 1000]; a stored next observation is [i + 0.5, 0]."""
    rows = len(terminals)
    index = np.arange(rows, dtype=np.float32)
    arrays: Arrays = {
        "observations": np.stack([index, -index], axis=1),
        "actions": index[:, None] / 1000,
        "rewards": np.asarray(rewards if rewards is not None else index, np.float32),
        "terminals": np.asarray(terminals, np.bool_),
        "timeouts": np.asarray(timeouts, np.bool_),
    }
    if stored:
        arrays["next_observations"] = np.stack([index + 0.5, np.zeros(rows, np.float32)], axis=1)
    return arrays


def row_of(dataset: Dataset) -> list[int]:
    """Which row of the recording each transition came from."""
    return [int(i) for i in dataset.observations[:, 0]]


def flags(rows: int, share: float = 0.25) -> st.SearchStrategy[list[int]]:
    return st.lists(st.sampled_from([0] * round(1 / share - 1) + [1]), min_size=rows, max_size=rows)


@st.composite
def recordings(draw: st.DrawFn, *, stored: bool | None = None, max_rows: int = 40) -> Arrays:
    rows = draw(st.integers(1, max_rows))
    keep_next = draw(st.booleans()) if stored is None else stored
    return recording(draw(flags(rows)), draw(flags(rows)), stored=keep_next)


@st.composite
def datasets(draw: st.DrawFn, *, sequence: bool = False, images: bool = False) -> Dataset:
    """Any dataset; with `sequence`, each next observation is the following row's, as Minari needs."""
    rows = draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (rows, 4, 4, 3) if images else (rows, 3)
    observations: NDArray[Any] = (
        rng.integers(0, 256, shape, np.uint8) if images else rng.normal(size=shape).astype(np.float32)
    )
    terminals, truncated = np.asarray(draw(flags(rows)), np.bool_), np.asarray(draw(flags(rows)), np.bool_)
    truncated[-1] |= ~terminals[-1]
    following = rng.permuted(observations, axis=0)
    if sequence:
        inside = np.flatnonzero(~(terminals | truncated))
        following[inside] = observations[inside + 1]
    actions = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    rewards = rng.normal(size=rows).astype(np.float32)
    return Dataset(observations, actions, rewards, following, terminals, truncated)


def same_arrays(left: Dataset, right: Dataset) -> None:
    for name in ("observations", "actions", "rewards", "next_observations", "terminals", "truncated"):
        one, other = getattr(left, name), getattr(right, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)
