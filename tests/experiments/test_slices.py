"""The true return of an action, where it is known without a rollout."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from calql.domains.point_maze.env import PointMaze
from calql.domains.registry import get_task
from calql.experiments.slices import true_returns

DISCOUNT = 0.99


def _still(observations: np.ndarray) -> jnp.ndarray:
    """A policy that pushes nowhere."""
    return jnp.zeros((len(observations), 2))


def _returns(state: list[float], actions: list[list[float]]) -> np.ndarray:
    mazes = [PointMaze() for _ in actions]
    task = get_task("point-maze-narrow")
    found = true_returns(task, DISCOUNT, _still, mazes, np.array(state, np.float32), np.array(actions, np.float32))
    for maze in mazes:
        maze.close()
    return found


def test_a_step_into_the_goal_earns_the_reward_of_success() -> None:
    maze = PointMaze()
    maze.reset(seed=0)
    goal = maze.maze.goal
    maze.close()
    assert _returns([float(goal[0]), float(goal[1]), 0.0, 0.0], [[0.0, 0.0]]) == pytest.approx([5.0])


def test_standing_still_far_from_the_goal_fails_for_ever() -> None:
    start = PointMaze()
    state, _ = start.reset(seed=0)
    start.close()
    assert _returns([*state[:2].tolist(), 0.0, 0.0], [[0.0, 0.0], [0.1, 0.0]]) == pytest.approx([-500.0, -500.0])


def test_each_step_on_the_way_costs_five() -> None:
    """Just outside the goal and moving towards it: some steps at -5, then 5, discounted."""
    maze = PointMaze()
    maze.reset(seed=0)
    goal = maze.maze.goal
    maze.close()
    (found,) = _returns([float(goal[0]) + 0.6, float(goal[1]), -1.0, 0.0], [[0.0, 0.0]])
    possible = [-5.0 * (1 - DISCOUNT**n) / (1 - DISCOUNT) + 5.0 * DISCOUNT**n for n in range(1, 50)]
    assert min(abs(found - value) for value in possible) < 1e-9
