"""Rewards of any size on data of one's own: methods with the regulariser learn from returns of one size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calql
import corridor
from calql.data import Dataset
from calql.data.rewards import RewardRule
from calql.domains.own import NAME
from calql.methods import METHODS
from calql.runs.preparation import Prepared, prepare_choice
from calql.runs.request import Choice

CONSERVATIVE = [name for name, entry in METHODS.items() if NAME in entry.largest_return]


def prepared(data: Dataset, method: str = "cal-ql", **chosen: Any) -> Prepared:
    return prepare_choice(Choice(method=method, env="corridor:Corridor-v0", **chosen), {}, data=data, probe=False)


def test_the_largest_logged_return_has_the_size_that_is_asked_for() -> None:
    """Returns-to-go of -1, -1 and of 2 (terminal) at a discount of 1/2: -1.5, -1 and 2, so 100 is 50 times as much."""
    column = np.zeros((3, 1), np.float32)
    rewards, ends = np.array([-1.0, -1.0, 2.0], np.float32), np.array([False, False, True])
    data = Dataset(column, column, rewards, column, ends, np.array([False, True, False]), "three")
    rule = RewardRule(largest_return=100.0).fitted(data, 0.5)
    assert rule == RewardRule(scale=50.0)
    assert rule.fitted(data, 0.5) is rule


def test_failing_for_ever_is_a_return_too() -> None:
    """-1 a step for ever is -2 at a discount of 1/2."""
    column, cut = np.zeros((2, 1), np.float32), np.array([False, True])
    data = Dataset(column, column, np.full(2, -1.0, np.float32), column, ~cut & cut, cut, "two")
    assert RewardRule(failure=-1.0, largest_return=10.0).fitted(data, 0.5).scale == 5.0


def test_rewards_that_are_all_zero_stay() -> None:
    column, cut = np.zeros((2, 1), np.float32), np.array([False, True])
    data = Dataset(column, column, np.zeros(2, np.float32), column, ~cut & cut, cut, "two")
    assert RewardRule(largest_return=10.0).fitted(data, 0.5).scale == 1.0


@pytest.mark.parametrize("method", CONSERVATIVE)
@pytest.mark.parametrize("size", [0.01, 1.0, 300.0])
def test_whatever_the_size_of_rewards_it_learns_from_the_same(method: str, size: float) -> None:
    data = corridor.demonstrations()
    found = prepared(replace(data, rewards=data.rewards * np.float32(size)), method)
    assert found.task.rewards.scale == pytest.approx(100.0 / size, rel=1e-5)
    assert not found.options.dual
    assert sum("rewards are multiplied by" in note for note in found.notes) == 1


def test_the_users_own_scale_stands() -> None:
    found = prepared(corridor.demonstrations(), reward_scale=2.0)
    assert found.task.rewards.scale == 2.0
    assert not any("rewards are multiplied" in note for note in found.notes)


def test_other_methods_learn_from_rewards_as_they_are() -> None:
    assert prepared(corridor.demonstrations(), "iql").task.rewards.scale == 1.0


@pytest.mark.slow
def test_q_stays_within_the_returns_of_the_data(tmp_path: Path) -> None:
    """With dual ascent and rewards as they are it is above 2 by then, where no return is above 1."""
    run = calql.train(
        dataset=corridor.demonstrations(30), env="corridor:Corridor-v0", out=tmp_path / "run", progress=False,
        seeds=1, offline_updates=1_000, online_steps=0, evaluate_offline_every=1_000, evaluation_episodes=1,
        policy_widths=(32,), critic_widths=(32,), batch_size=32,
    )  # fmt: skip
    assert 0.0 < run.rows[-1]["average_q"] < 100.0
