"""Locomotion tasks: D4RL's scores and the environments of its recordings."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from calql.data.rewards import EpisodeSummary
from calql.domains.datasets import recipe
from calql.domains.locomotion.tasks import TASKS as ALL

TASKS = {task.name: task for task in ALL}


def test_fifteen_tasks_with_sarsa() -> None:
    assert len(TASKS) == 15
    assert all(task.reference == "sarsa" for task in TASKS.values())
    assert all(recipe(name).name == name for name in TASKS)


@pytest.mark.parametrize(
    ("body", "low", "high"), [("halfcheetah", -280.178953, 12135.0), ("hopper", -20.272305, 3234.3)]
)
def test_score_is_zero_at_random_and_one_at_expert(body: str, low: float, high: float) -> None:
    score = TASKS[f"{body}-medium"].score
    assert score([EpisodeSummary(low, 0.0, 1000, False)]) == pytest.approx(0.0)
    assert score([EpisodeSummary(high, 0.0, 1000, False)]) == pytest.approx(1.0)


@pytest.mark.parametrize(("body", "shape"), [("halfcheetah", (17, 6)), ("hopper", (11, 3)), ("walker2d", (17, 6))])
def test_environment(body: str, shape: tuple[int, int]) -> None:
    env = pickle.loads(pickle.dumps(TASKS[f"{body}-random"].make_env))()
    assert (env.observation_space.shape[0], env.action_space.shape[0]) == shape
    first = [env.reset(seed=3)[0].copy() for _ in range(2)]
    assert np.array_equal(*first)


def test_the_falling_step_of_a_hopper_keeps_its_alive_bonus() -> None:
    env = TASKS["hopper-random"].make_env()
    env.reset(seed=0)
    rewards = []
    terminated = False
    while not terminated:
        _, reward, terminated, _, _ = env.step(np.zeros(3))
        rewards.append(float(reward))
    assert rewards[-1] > 0.0
