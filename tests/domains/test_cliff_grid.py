"""The cliff grid: its rules, its data, and what it is there for: CQL unlearns on it, Cal-QL does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from calql.domains.cliff_grid.data import distances, walks
from calql.domains.cliff_grid.env import LEDGE, CliffGrid, allowed, cells, place
from calql.domains.registry import get_task
from calql.results.metrics import read_rows

RIGHT, UP, LEFT, DOWN = range(4)
CONTEXT: Any = SimpleNamespace(seed=0, progress=lambda *_: None)


def test_moves_edges_the_cliff_and_the_goal() -> None:
    env = CliffGrid()
    env.reset(seed=0)
    env.cell = (0, 0)
    seen, reward, terminated, _, info = env.step(UP)  # into the edge
    assert env.cell == (0, 0)
    assert (reward, terminated, info) == (0.0, False, {"success": False})
    np.testing.assert_array_equal(seen, [-1.0, -1.0])
    env.cell = (1, 4)
    _, reward, terminated, _, info = env.step(DOWN)  # off the cliff
    assert (reward, terminated, info) == (0.0, True, {"success": False})
    env.cell = (3, 7)
    seen, reward, terminated, _, info = env.step(RIGHT)
    assert (reward, terminated, info) == (1.0, True, {"success": True})
    np.testing.assert_array_equal(seen, [0.5, 1.0])


def test_masks_forbid_the_edge_and_nothing_else() -> None:
    np.testing.assert_array_equal(allowed(LEDGE, (0, 0)), [1, 0, 0, 1])
    np.testing.assert_array_equal(allowed(LEDGE, (1, 4)), [1, 1, 1, 1])  # the cliff is allowed
    _, info = CliffGrid(masked=True).reset(seed=0)
    assert info["action_mask"].shape == (4,)
    assert "action_mask" not in CliffGrid().reset(seed=0)[1]


def test_the_start_follows_from_the_seed() -> None:
    starts = {CliffGrid().reset(seed=seed)[0].tobytes() for seed in range(30)}
    assert starts == {place(LEDGE, cell).tobytes() for cell in cells(LEDGE, "s")}


@pytest.mark.parametrize("masked", [False, True])
def test_data_are_shortest_ways(masked: bool) -> None:
    data = walks(CONTEXT, masked=masked, episodes=20)
    far = {place(LEDGE, cell).tobytes(): steps for cell, steps in distances(LEDGE).items()}
    left = [far[seen.tobytes()] for seen in data.observations]
    after = [far[seen.tobytes()] for seen in data.next_observations]
    assert [one - other for one, other in zip(left, after, strict=True)] == [1] * len(data)
    assert data.terminals.sum() == data.rewards.sum() == 20
    assert data.actions.dtype == np.int64
    assert (data.action_masks is not None) == masked


@pytest.mark.slow
def test_cql_unlearns_and_cal_ql_does_not(tmp_path: Path) -> None:
    """The task's own settings on three seeds, 750 online steps: both methods as one program, compiled to be fast."""
    words = "--task cliff-grid --vary calibrate=false,true --seeds 3 --online-steps 750 --workers 0 --no-films --quiet"
    command = [sys.executable, "-m", "calql", "train", *words.split(), "--out", str(tmp_path / "run")]
    subprocess.run(command, env={**os.environ, "XLA_FLAGS": ""}, check=True, capture_output=True)
    every = read_rows(tmp_path / "run" / "metrics.jsonl")
    worst: dict[bool, list[float]] = {}
    for calibrate in (False, True):
        rows = [row for row in every if row["arm"] == f"calibrate={str(calibrate).lower()}"]
        assert [row["score"] for row in rows if row["switch"]] == [1.0] * 3
        online = [row for row in rows if row["phase"] == "online"]
        worst[calibrate] = [min(row["score"] for row in online if row["seed"] == seed) for seed in range(3)]
    assert max(worst[False]) < 0.75
    assert worst[True] == [1.0] * 3


def test_the_task_says_that_it_is_discrete() -> None:
    task = get_task("cliff-grid-masked")
    assert task.discrete
    assert task.make_env().action_space.n == 4  # type: ignore[attr-defined]
