"""Point-maze data by a scripted controller: narrow (one start, one goal) and diverse (any start, any goal)."""

from __future__ import annotations

from collections import deque
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Dataset, concatenate
from calql.data.store import BuildContext, Recipe
from calql.domains.common.mazes import Square
from calql.domains.common.rollout import earned
from calql.domains.point_maze.env import GOAL_RADIUS, U_TURN, PointMaze
from calql.domains.point_maze.maze import GOAL, START

NARROW_EPISODES = 25  # as many as the Adroit tasks have demonstrations
DIVERSE_EPISODES = 75
HELD_OUT_EPISODES = 10
DIVERSE_STEPS = 200
NARROW_NOISE = 0.05  # standard deviation of the noise on actions
DIVERSE_NOISE = 0.3
SPEED = 1.3  # metres per second: unhurried, like a person's demonstration
REACHED = 0.3  # of a waypoint


def shortest_path(maze: tuple[str, ...], start: Square, goal: Square) -> list[Square]:
    """Free cells from start to goal, both included, by breadth-first search."""
    came_from: dict[Square, Square | None] = {start: None}
    queue = deque([start])
    while queue:
        row, column = cell = queue.popleft()
        for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if maze[near[0]][near[1]] != "1" and near not in came_from:
                came_from[near] = cell
                queue.append(near)
    path: list[Square] = []
    step: Square | None = goal
    while step is not None:
        path.append(step)
        step = came_from[step]
    return path[::-1]


def free_squares(maze: tuple[str, ...]) -> list[Square]:
    return [(r, c) for r, row in enumerate(maze) for c, cell in enumerate(row) if cell != "1"]


def steer(state: NDArray[np.float32], waypoint: NDArray[np.float64]) -> NDArray[np.float64]:
    """Force that brings the velocity to SPEED in the direction of the waypoint, slower close to it."""
    towards = waypoint - state[:2]
    distance = float(np.linalg.norm(towards)) + 1e-6
    wanted = SPEED * towards / distance * min(1.0, distance / REACHED)
    return 2.0 * (wanted - state[2:])


def narrow(context: BuildContext, *, episodes: int = NARROW_EPISODES, purpose: int = 0) -> Dataset:
    """The controller walks from the one start to the one goal, with noise on its actions; every episode succeeds."""
    env = PointMaze()
    path = shortest_path(U_TURN, START, GOAL)
    rng = np.random.default_rng([context.seed, purpose])
    parts = []
    for episode in range(episodes):
        parts.append(_walk(env, rng, path, NARROW_NOISE, steps=400, stop_at_goal=True))
        context.progress("point maze, narrow", episode + 1, episodes)
    env.close()
    return concatenate(parts, source="point-maze-narrow")


def diverse(context: BuildContext, *, episodes: int = DIVERSE_EPISODES, purpose: int = 1) -> Dataset:
    """From any free cell to any other, again and again; rewards are relabelled for the evaluation goal."""
    env = PointMaze()
    rng = np.random.default_rng([context.seed, purpose])
    cells = free_squares(U_TURN)
    parts = []
    for episode in range(episodes):
        start = cells[rng.integers(len(cells))]
        path = [start]
        while len(path) < 40:  # more waypoints than the steps can reach
            path += shortest_path(U_TURN, path[-1], cells[rng.integers(len(cells))])[1:]
        parts.append(_walk(env, rng, path, DIVERSE_NOISE, steps=DIVERSE_STEPS, stop_at_goal=False))
        context.progress("point maze, diverse", episode + 1, episodes)
    env.close()
    return concatenate(parts, source="point-maze-diverse")


def _walk(
    env: PointMaze, rng: np.random.Generator, path: list[Square], noise: float, *, steps: int, stop_at_goal: bool
) -> Dataset:
    """Follow the cells of a path; a step is terminal when it ends within reach of the evaluation goal."""
    options = {"reset_cell": np.array(path[0]), "goal_cell": np.array(GOAL)}
    state, _ = env.reset(seed=int(rng.integers(2**31)), options=options)
    waypoints = [env.maze.maze.cell_rowcol_to_xy(np.array(cell)) + rng.uniform(-0.15, 0.15, 2) for cell in path]
    states, actions, reached = [state], [], []
    for _ in range(steps):
        while len(waypoints) > 1 and np.linalg.norm(waypoints[0] - state[:2]) < REACHED:
            waypoints.pop(0)
        action = np.clip(steer(state, waypoints[0]) + noise * rng.normal(size=2), -1.0, 1.0)
        state, *_ = env.step(action.astype(np.float32))
        states.append(state)
        actions.append(action.astype(np.float32))
        reached.append(bool(np.linalg.norm(state[:2] - env.maze.goal) <= GOAL_RADIUS))
        if stop_at_goal and reached[-1]:
            break
    terminals = np.array(reached)
    truncated = np.zeros_like(terminals)
    truncated[-1] = not terminals[-1]
    observations = np.array(states, np.float32)
    return Dataset(
        observations=observations[:-1],
        actions=np.array(actions, np.float32),
        rewards=terminals.astype(np.float32),
        next_observations=observations[1:],
        terminals=terminals,
        truncated=truncated,
        source="point-maze",
    )


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("point-maze-narrow", 1, narrow, summary="one start, one goal, always solved", success=earned),
        Recipe("point-maze-quick", 1, narrow, summary="the data of point-maze-narrow", success=earned),
        Recipe("point-maze-diverse", 1, diverse, summary="any start, any goal, relabelled", success=earned),
        Recipe(
            "point-maze-narrow-held-out",
            1,
            partial(narrow, episodes=HELD_OUT_EPISODES, purpose=2),
            summary="as narrow, never trained on",
            success=earned,
            variant_of="point-maze-narrow",
        ),
        Recipe(
            "point-maze-diverse-held-out",
            1,
            partial(diverse, episodes=HELD_OUT_EPISODES, purpose=3),
            summary="as diverse, never trained on",
            success=earned,
            variant_of="point-maze-diverse",
        ),
    )
}
