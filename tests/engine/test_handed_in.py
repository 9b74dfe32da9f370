"""Episodes handed in from elsewhere: taken in one by one, never evaluated for the last time, of any length.

That they do what the same episodes do which a run plays itself, to the byte, is in tests/runs/test_rounds.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_run import build

from calql.engine.episodes import Episode
from calql.engine.handed_in import require_whole_episodes
from calql.engine.options import RunOptions
from calql.engine.run import Run
from calql.results import Silent, read_rows
from calql.system.errors import UserError
from calql.system.run_files import METRICS, STANDING

pytestmark = pytest.mark.slow


class Lists:
    """Some episodes of each seed."""

    def __init__(self, of_seed: Sequence[Sequence[Episode]]) -> None:
        self._of_seed = of_seed

    def count(self, index: int) -> int:
        return len(self._of_seed[index])

    def episode(self, index: int, number: int) -> Episode:
        return self._of_seed[index][number]


def walk(steps: int) -> Episode:
    """So many steps in the corridor, to its end."""
    at = np.linspace(0.0, 3.1, steps + 1, dtype=np.float32)
    rewards = np.zeros(steps)
    rewards[-1] = 1.0
    seen = np.stack([at, np.ones_like(at)], axis=1)
    return Episode(seen, np.full((steps, 1), 0.5, np.float32), rewards, terminal=True, success=True)


def hand_in(folder: Path, of_seed: Sequence[Sequence[Episode]], **changes: Any) -> Run:
    """A run that goes as far as the episodes take it, offline from the start."""
    made = build(folder, offline_updates=0, evaluate_online_every=1000, **changes)
    run = Run(dataclasses.replace(made.plan, handed_in=Lists(of_seed)), folder, Silent())
    assert run.execute(lambda: False)
    for each in (made, run):
        each.close()
    return run


def test_each_seed_takes_in_its_own_and_stands_aside_at_the_end(tmp_path: Path) -> None:
    run = hand_in(tmp_path / "r", [[walk(7), walk(9)], [walk(12)]])
    assert run.counters.env_steps.tolist() == run.counters.gradient_steps.tolist() == [16, 12]
    assert np.asarray(run.replay.inserted).tolist() == [16, 12]
    rows = read_rows(tmp_path / "r" / STANDING)
    assert [(row["env_steps"], row["collected_episodes"], row["collected_success"]) for row in rows] == [
        (16, 2, 1.0),
        (12, 1, 1.0),
    ]
    assert {row["phase"] for row in read_rows(tmp_path / "r" / METRICS)} == {"offline"}  # no last row: more may come
    assert run.counters.collected_episodes.tolist() == [2, 1]  # as if nobody had looked


def test_an_episode_may_be_longer_than_any_logged_one(tmp_path: Path) -> None:
    run = hand_in(tmp_path / "r", [[walk(47)], [walk(3)]])
    assert np.asarray(run.replay.inserted).tolist() == [47, 3]
    np.testing.assert_allclose(np.asarray(run.replay.rows.observations)[0, :47], walk(47).observations[:-1])


def test_how_a_run_would_collect_cannot_be_asked_for() -> None:
    with pytest.raises(UserError, match="1 where episodes are handed in"):
        require_whole_episodes(RunOptions(trajectories=2))
    with pytest.raises(UserError, match="trajectory where episodes are handed in"):
        require_whole_episodes(RunOptions(update_schedule="step"))
