"""Whether a recording is of the ant in one of the mazes: its steps, its rewards, its walls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Dataset
from calql.domains.antmaze.data import RECIPES
from calql.domains.antmaze.env import CELL, EVALUATION_GOALS, GOAL_RADIUS, GOAL_SPREAD, MAZES, AntMazeEnv, centre
from calql.domains.checks import Certifier, Check, Recording, one_step_drift, spread_rows

MOST_STEPS = 4000
FASTEST = 1.5  # metres in one step; more is a reset, not a step
GRID = 31  # candidate goals along each side of the square that goals are drawn from


def check(maze: str, recording: Recording) -> Sequence[Check]:
    dataset = recording.dataset
    env = AntMazeEnv(maze)

    def predict(observation: NDArray[Any], action: NDArray[Any]) -> tuple[NDArray[Any], float, bool]:
        env.set_state(observation[:15].astype(np.float64), observation[15:].astype(np.float64))
        env.advance(action)
        return env.state(), 0.0, False

    drift = one_step_drift(dataset, predict, spread_rows(len(dataset), MOST_STEPS))
    error = np.linalg.norm(drift.state[:, :2], axis=1)
    moved = np.linalg.norm(dataset.next_observations[:, :2] - dataset.observations[:, :2], axis=1)
    goal, wrong = fitting_goal(maze, dataset)
    seen = f"goal ({goal[0]:.2f}, {goal[1]:.2f}) fits" if dataset.rewards.any() else "no rewarded row"
    return [
        Check("one-step xy error, median (m)", float(np.median(error)), 0.01, detail=f"90%: {_high(error)}"),
        Check("share of steps that jump (resets taken for steps)", float(np.mean(moved > FASTEST)), 0.002),
        Check("share of positions inside walls", in_walls(maze, dataset.observations), 0.001),
        Check("rows whose reward differs", wrong, 0, detail=seen),
        Check("rows that are rewarded but not terminal or the reverse", _unlike(dataset), 0),
    ]


def fitting_goal(maze: str, dataset: Dataset) -> tuple[NDArray[np.float64], int]:
    """The goal, among those that evaluation draws, that explains the rewards best; rows it gets wrong.

    A set is labelled against one goal that its file does not name.
    """
    corner = centre(EVALUATION_GOALS[maze])
    offsets = np.linspace(0.0, sum(GOAL_SPREAD), GRID)
    xy = dataset.next_observations[:, :2].astype(np.float64)
    rewarded = dataset.rewards > 0.5
    far = np.linalg.norm(xy - (corner + sum(GOAL_SPREAD) / 2), axis=1) > 2.0  # beyond any candidate
    always_wrong = int((far & rewarded).sum())
    near_xy, near_rewarded = xy[~far], rewarded[~far]
    best, fewest = corner, len(dataset) + 1
    for x in offsets:
        for y in offsets:
            goal = corner + np.array([x, y])
            inside = ((near_xy - goal) ** 2).sum(axis=1) <= GOAL_RADIUS**2
            wrong = int((inside != near_rewarded).sum())
            if wrong < fewest:
                best, fewest = goal, wrong
    return best, fewest + always_wrong


def in_walls(maze: str, observations: NDArray[Any]) -> float:
    """Share of positions whose centre is inside a wall or outside the maze."""
    rows, columns = len(MAZES[maze]), len(MAZES[maze][0])
    walls = np.array([[kind == "1" for kind in row] for row in MAZES[maze]])
    cell = np.floor((observations[:, :2] + 1.5 * CELL) / CELL).astype(int)
    outside = np.any((cell < 0) | (cell >= [columns, rows]), axis=1)
    cell = np.clip(cell, 0, [columns - 1, rows - 1])
    return float(np.mean(outside | walls[cell[:, 1], cell[:, 0]]))


def _unlike(dataset: Dataset) -> int:
    return int(((dataset.rewards > 0.5) != dataset.terminals).sum())


def _high(error: NDArray[Any]) -> str:
    return f"{np.quantile(error, 0.9):.4f}"


CERTIFIERS = {name: Certifier((29,), (8,), partial(check, name.split("-")[1])) for name in RECIPES}
