"""Rewards from what people have, and columns by a map: worked out by hand on six rows."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest

from calql.data import Reading, load
from calql.system.errors import UserError

#               run a: three rows    run b: three rows
ROWS: dict[str, Any] = {
    "run": ["a", "a", "a", "b", "b", "b"],
    "joint_0": [0.0, 1.0, 2.0, 10.0, 11.0, 12.0],
    "joint_1": [0.5, 1.5, 2.5, 10.5, 11.5, 12.5],
    "cmd_x": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
    "r": [0.0, -1.0, 5.0, 0.0, -1.0, -2.0],
    "grasped": [False, True, True, False, False, False],
    "grade": [0.0, 0.0, 0.7, 0.0, 0.0, 0.0],
    "t": [0.0, 0.1, 0.2, 0.0, 0.1, 0.2],
}
COLUMNS = ("observation=joint_*", "action=cmd_*", "episode=run")


def table(folder: Path, **changes: Any) -> Path:
    columns = {name: values for name, values in {**ROWS, **changes}.items() if values is not None}
    pyarrow.parquet.write_table(pa.table(columns), folder / "log.parquet")
    return folder / "log.parquet"


def test_a_column(tmp_path: Path) -> None:
    data = load(table(tmp_path), Reading(columns=(*COLUMNS, "reward=r")))
    assert data.observations.tolist() == [[0.0, 0.5], [1.0, 1.5], [10.0, 10.5], [11.0, 11.5]]
    assert data.next_observations.tolist() == [[1.0, 1.5], [2.0, 2.5], [11.0, 11.5], [12.0, 12.5]]
    assert data.rewards.tolist() == [0.0, -1.0, 0.0, -1.0]
    assert data.truncated.tolist() == [False, True, False, True]
    assert data.parts == (("joint_0", 0, 1), ("joint_1", 1, 2))
    (note,) = data.notes
    assert note.startswith("the last rows of 2 episodes left out")
    assert "2 of them with a reward that is not 0" in note


def test_the_order_of_observations_is_the_users(tmp_path: Path) -> None:
    reading = Reading(columns=("action=cmd_x", "episode=run", "reward=r"), observations=("joint_1", "joint_0"))
    assert load(table(tmp_path), reading).observations[0].tolist() == [0.5, 0.0]


def test_success_flags(tmp_path: Path) -> None:
    """1 where the flag is first true, which ends the episode; the row after it is left out."""
    data = load(table(tmp_path), Reading(columns=COLUMNS, reward="success=grasped"))
    assert data.rewards.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert data.terminals.tolist() == [False, True, False, False]
    assert data.truncated.tolist() == [False, False, False, True]
    assert data.notes[0] == (
        "reward: 1 where 'grasped' is first true, which ends the episode, else 0: 1 of 2 episodes earns it"
    )
    assert data.notes[1] == "1 row after a terminal step left out"


def test_one_reward_at_the_end(tmp_path: Path) -> None:
    data = load(table(tmp_path), Reading(columns=COLUMNS, reward="end"))
    assert data.rewards.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    assert data.terminals.tolist() == [False, False, True, False, False, True]


def test_a_grade_at_the_end(tmp_path: Path) -> None:
    """Where it is 0, the episode was cut off, and its last row has no next observation."""
    data = load(table(tmp_path), Reading(columns=COLUMNS, reward="end=grade"))
    np.testing.assert_allclose(data.rewards, [0.0, 0.0, 0.7, 0.0, 0.0])
    assert data.terminals.tolist() == [False, False, True, False, False]
    assert "1 of 2 episodes earns it" in data.notes[0]


@pytest.fixture
def rewards_module() -> Any:
    module: Any = ModuleType("my_rewards")
    module.distance = lambda observations, actions, following: -np.abs(following[:, 0] - 12.0)
    module.short = lambda observations, actions, following: following[:2, 0]
    module.bad = lambda observations, actions, following: following[:, 0] * np.nan
    module.raises = lambda observations, actions, following: {}["gripper"]
    module.number = 3
    sys.modules["my_rewards"] = module
    yield module
    del sys.modules["my_rewards"]


@pytest.mark.parametrize("form", ["parquet", "npz"])
def test_a_function(form: str, tmp_path: Path, rewards_module: Any) -> None:
    reading = Reading(columns=COLUMNS, reward="my_rewards:distance")
    path = table(tmp_path)
    if form == "npz":
        path = tmp_path / "log.npz"
        np.savez(path, **{name: np.asarray(values) for name, values in ROWS.items()})
    data = load(path, reading)
    assert data.rewards.tolist() == [-11.0, -10.0, -1.0, 0.0]
    assert "reward: my_rewards:distance of observations, actions and next observations, -11 to 0" in data.notes


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ("my_rewards:short", r"gave float32 \(2,\) for 4 rows; it must give one number a row"),
        ("my_rewards:bad", "gave nan in row 0"),
        ("my_rewards:raises", r"raised KeyError \('gripper'\)"),
        ("my_rewards:number", "is a int; name a function"),
        ("my_rewards:none", "cannot be imported .AttributeError"),
        ("no_such_module:f", "cannot be imported .ModuleNotFoundError"),
        ("success", "no column says that it is the success flag"),
        ("success=r", "'r' holds -1.0 in row 1; flags must be 0 or 1"),
        ("success=never", "'never' is never true: no episode earns a reward"),
        ("end=never", "'never' is 0 at the end of every episode"),
        ("grad", "no column is called 'grad'; did you mean 'grade'"),
        (None, "nothing says what the reward is; give --reward COLUMN, --reward success=FLAG"),
    ],
)
def test_maps_that_make_no_sense(reward: str | None, said: str, tmp_path: Path, rewards_module: Any) -> None:
    path = table(tmp_path, never=[0] * 6)
    with pytest.raises(UserError, match=said):
        load(path, Reading(columns=COLUMNS, reward=reward))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("observation",), "--columns observation; give ROLE=NAME"),
        (("observations=joint_*",), "no role of a column is called 'observations'; did you mean 'observation'"),
        (("observation=joint_9",), "no column is called 'joint_9'; did you mean 'joint_"),
        (("observation=joint_*", "action=cmd_*"), "no column says that it is the episode, and none the terminal step"),
        (("observation=joint_*", "episode=run"), "no column says that it is the action"),
        ((*COLUMNS, "reward=joint_*"), "reward is 2 columns"),
    ],
)
def test_maps_of_columns_that_make_no_sense(columns: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        load(table(tmp_path), Reading(columns=columns, reward=None if "reward" in columns[-1] else "r"))


def test_rows_of_episodes_among_each_other(tmp_path: Path) -> None:
    order = [0, 3, 1, 4, 2, 5]
    mixed = {name: [values[i] for i in order] for name, values in ROWS.items()}
    data = load(table(tmp_path, **mixed), Reading(columns=(*COLUMNS, "reward=r", "time=t")))
    assert data.observations[:, 0].tolist() == [0.0, 1.0, 10.0, 11.0]
    assert "rows of 2 episodes lay among each other and were put together by 'run'" in data.notes


def test_a_missing_number_is_found(tmp_path: Path) -> None:
    path = table(tmp_path, joint_0=[0.0, None, 2.0, 10.0, 11.0, 12.0])
    with pytest.raises(UserError, match=r"'observations' holds 1 NaN value in 1 row, the first in row 1"):
        load(path, Reading(columns=(*COLUMNS, "reward=r")))


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "feather"])
def test_tables_of_pandas(form: str, tmp_path: Path) -> None:
    """With an index that has no name, and names of runs as categories."""
    frame = pandas.DataFrame({**ROWS, "run": pandas.Categorical(ROWS["run"])})
    path = tmp_path / f"log.{form}"
    if form in ("csv", "tsv"):
        frame.to_csv(path, sep="," if form == "csv" else "\t")
    else:
        getattr(frame, f"to_{form}")(path)
    data = load(path, Reading(columns=(*COLUMNS, "reward=r", "time=t")))
    assert data.observations.tolist() == [[0.0, 0.5], [1.0, 1.5], [10.0, 10.5], [11.0, 11.5]]
    assert data.rewards.tolist() == [0.0, -1.0, 0.0, -1.0]
