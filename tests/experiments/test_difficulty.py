"""How hard a dataset is: counted, cloned at a small scale, written down and read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calql.data.dataset import Dataset
from calql.domains.adroit.data import demonstrations_succeed
from calql.experiments.difficulty import Cloning, Difficulty, measure, read, table, write
from calql.experiments.paper.datasets import known_datasets
from calql.experiments.tables import markdown
from calql.system.errors import UserError

DOOR = Difficulty("door-binary", "door-binary", 2852, 25, 25, -6.3, (0.2, 0.4, 0.6), 10_000, 50, None, "c0ffee", "a; b")


def test_a_trajectory_that_goes_on_after_a_success_is_one() -> None:
    """Two trajectories of 4 and 2 steps: the first succeeds at its second and last step, and goes on between."""
    seen = np.array([[0.0], [1.0], [2.0], [3.0], [7.0], [8.0]], np.float32)
    after = np.array([[1.0], [2.0], [3.0], [4.0], [8.0], [9.0]], np.float32)
    ends = np.array([0, 1, 0, 1, 0, 1], bool)
    data = Dataset(seen, np.zeros((6, 1), np.float32), ends.astype(np.float32) - 1.0, after, ends, ends & False)
    assert demonstrations_succeed(data).tolist() == [True, True]
    assert len(data.episode_ends) == 3


@pytest.mark.slow
def test_a_small_set_is_measured_once(tmp_path: Path) -> None:
    cloning = Cloning(updates=8, seeds=2, episodes=1)
    found = measure("point-maze-narrow", cloning, tmp_path)
    assert (found.task, found.trajectories, found.successes) == ("point-maze-narrow", 25, 25)
    assert len(found.scores) == 2
    (folder,) = tmp_path.iterdir()
    begun = (folder / "metrics.jsonl").stat().st_mtime_ns
    assert measure("point-maze-narrow", cloning, tmp_path) == found
    assert (folder / "metrics.jsonl").stat().st_mtime_ns == begun  # finished: not run again


def test_what_was_measured_is_read_back_and_replaced_by_name(tmp_path: Path) -> None:
    path = tmp_path / "difficulty.csv"
    other = replace(DOOR, dataset="door-binary-human", successes=None, size=100, scores=(1.0,))
    assert write([DOOR], path) == [DOOR]
    assert write([other], path) == [DOOR, other]
    again = replace(DOOR, transitions=7)
    assert write([again], path) == [again, other]
    assert read(path) == [again, other]


def test_another_file_of_that_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "difficulty.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"is no difficulty\.csv"):
        write([DOOR], tmp_path / "difficulty.csv")


def test_the_table_has_mean_and_spread_by_hand() -> None:
    text = markdown(table([DOOR]))
    line = next(line for line in text.splitlines() if line.startswith("| door-binary "))
    assert line.startswith("| door-binary | 2,852 | 25 | 25 | -6.3 | 0.40 ± 0.20 | 25 human demonstrations")
    assert line.endswith("|  | 0.35, 0.22 |")
    assert line.count("|") == text.splitlines()[2].count("|")  # a head for every column


def test_every_known_dataset_is_of_a_task_of_the_paper() -> None:
    from calql.experiments.paper.figures import TASKS

    assert set(known_datasets()) <= set(TASKS)
    assert known_datasets()["hopper-medium"].cloning == 0.54
