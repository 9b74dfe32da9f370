"""AntMaze data by D4RL's recipe: breadth-first waypoints followed by a goal-reaching ant with noise.

A trajectory does not stop at the goal. Rewards and terminals are labelled afterwards against the middle
of the evaluation goals, so one trajectory can hold several terminal rows, and what follows them failed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Bools, Dataset
from calql.data.store import BuildContext, Recipe, Source
from calql.domains.antmaze.env import (
    CELL,
    EVALUATION_GOALS,
    MAZES,
    AntMazeEnv,
    Point,
    cells,
    centre,
    draw_goal,
    middle_goal,
    reached,
)
from calql.domains.common.mazes import Square
from calql.domains.common.parallel import ordered_map
from calql.domains.common.policies import StoredPolicy, load_policy
from calql.domains.common.rollout import episode_rng, gather, stream_of

GOAL_POLICY = Source(
    "ant_goal_policy/ant_hierarch_pol.npz",
    "the goal-reaching ant policy",
    "D4RL's antmaze generator (ant_hierarch_pol), its layers stored as fc0_weight, fc0_bias, ...",
)
NOISE = 0.2
REACH = 10.0  # length of the direction given to the ant, whatever the waypoint's distance
WAYPOINT_SPREAD = 1.0


@dataclass(frozen=True)
class WalkPlan:
    """Where the trajectories of a set start and what they head for."""

    maze: str
    starts: tuple[Square, ...] | None  # None: the environment's own start
    goals: tuple[Square, ...] | None  # None: always the one evaluation goal
    steps: int = 1000
    stops: bool = False  # at the goal, as the environment does


@dataclass(frozen=True)
class Walk:
    """One trajectory to record; its number and the seed decide it."""

    plan: WalkPlan
    policy: str  # its file
    stream: int
    seed: int
    number: int


def plan(maze: str, kind: str) -> WalkPlan:
    """D4RL's sets: 'play' has chosen goals, 'diverse' any free cell; ours: 'narrow', one start to one goal."""
    free = tuple(cells(maze, "0RG"))
    if kind == "play":
        return WalkPlan(maze, tuple(cells(maze, "0R")), tuple(cells(maze, "G")))
    if kind == "diverse":
        return WalkPlan(maze, free, free)
    if kind == "umaze":
        return WalkPlan(maze, None, (EVALUATION_GOALS[maze],), steps=700)
    return WalkPlan(maze, None, None, stops=True)


@cache
def next_cells(maze: str) -> dict[tuple[Square, Square], Square]:
    """(where, target) -> the next cell on a shortest path; walls are entries too, as places to leave.

    Positions count as the cell whose centre is below them in x and y, so an ant can be "in" a wall.
    """
    free = set(cells(maze, "0RG"))
    table: dict[tuple[Square, Square], Square] = {}
    for target in free:
        table[target, target] = target
        frontier = [target]
        while frontier:
            reached_now = []
            for row, column in frontier:
                for near in ((row, column - 1), (row, column + 1), (row + 1, column), (row - 1, column)):
                    if (near, target) not in table:
                        table[near, target] = (row, column)
                        if near in free:
                            reached_now.append(near)
            frontier = reached_now
    return table


def cell_of(xy: NDArray[Any]) -> Square:
    """D4RL's rounding: towards the start in x and y."""
    return int(1 + max(xy[1], 1e-4) / CELL), int(1 + max(xy[0], 1e-4) / CELL)


def waypoint(maze: str, xy: NDArray[Any], goal: Point, rng: np.random.Generator) -> Point:
    """The goal itself once the next cell is its cell, else somewhere near the next cell's centre."""
    target = cell_of(goal)
    following = next_cells(maze).get((cell_of(xy), target), target)
    if following == target:
        return goal
    return centre(following) + rng.uniform(0.0, WAYPOINT_SPREAD, 2)


def act(
    policy: StoredPolicy, maze: str, state: NDArray[Any], goal: Point, rng: np.random.Generator
) -> NDArray[np.float32]:
    """The noisy action towards the next waypoint."""
    towards = waypoint(maze, state[:2], goal, rng) - state[:2]
    direction = towards / (np.linalg.norm(towards) + 1e-9) * REACH
    action = policy.sample(np.concatenate([state[2:], direction]), rng)
    return np.clip(action + NOISE * rng.standard_normal(8), -1.0, 1.0).astype(np.float32)


def trajectory(env: AntMazeEnv, policy: StoredPolicy, plan: WalkPlan, rng: np.random.Generator) -> Dataset:
    """One recorded walk, labelled."""
    goal = middle_goal(plan.maze)
    if plan.goals is not None:
        goal = draw_goal(plan.goals[rng.integers(len(plan.goals))], rng)
    options = {"goal": goal}
    if plan.starts is not None:
        options["start"] = centre(plan.starts[rng.integers(len(plan.starts))]) + rng.uniform(0.0, 0.25, 2) * CELL
    env.reset(seed=int(rng.integers(2**31)), options=options)
    states = np.empty((plan.steps + 1, 29))
    actions = np.empty((plan.steps, 8), np.float32)
    states[0] = env.state()
    for step in range(plan.steps):
        actions[step] = act(policy, plan.maze, states[step], goal, rng)
        env.advance(actions[step])
        states[step + 1] = env.state()
        if plan.stops and reached(states[step + 1, :2], goal):
            return labelled(plan.maze, states[: step + 2].astype(np.float32), actions[: step + 1])
    return labelled(plan.maze, states.astype(np.float32), actions)


def labelled(maze: str, states: NDArray[np.float32], actions: NDArray[np.float32]) -> Dataset:
    """Reward 1 and terminal wherever the next position is within the goal; the walk's last row is truncated."""
    terminals = reached(states[1:, :2], middle_goal(maze))
    truncated = np.zeros_like(terminals)
    truncated[-1] = True
    return Dataset(states[:-1], actions, terminals.astype(np.float32), states[1:], terminals, truncated)


def record(walk: Walk) -> Dataset:
    rng = episode_rng(walk.seed, walk.stream, walk.number)
    return trajectory(AntMazeEnv(walk.plan.maze), load_policy(walk.policy), walk.plan, rng)


def build(name: str, plan: WalkPlan, context: BuildContext) -> Dataset:
    policy = str(context.source(GOAL_POLICY))
    first = Walk(plan, policy, stream_of(name), context.seed, 0)
    jobs = (replace(first, number=number) for number in itertools.count())
    size = context.size or RECIPES[name].size or 1_000_000
    made = gather(ordered_map(record, jobs, context.processes), size, context, name)
    return replace(made, notes=_notes(plan))


def _notes(plan: WalkPlan) -> tuple[str, ...]:
    starts = "the start cell" if plan.starts is None else f"{len(plan.starts)} free cells"
    cells_of_goals = len(plan.goals or ())
    goals = f"{cells_of_goals} goal cells" if cells_of_goals > 1 else "the evaluation goal's cell"
    x, y = middle_goal(plan.maze)
    return (
        f"walks of {'at most ' if plan.stops else ''}{plan.steps} steps from {starts} to {goals}, noise {NOISE}",
        f"reward and terminal where the next position is within 0.5 m of ({x}, {y}); "
        f"walks {'stop there' if plan.stops else 'go on after it'}",
    )


def walk_success(dataset: Dataset) -> Bools:
    """Whether each recorded walk ever came to the goal."""
    starts = np.concatenate([[0], np.flatnonzero(dataset.truncated[:-1]) + 1])
    return np.asarray(np.add.reduceat(dataset.terminals.astype(np.int64), starts) > 0)


def coverage(maze: str, observations: NDArray[Any]) -> float:
    """Share of the maze's free area, in squares of 1 m, that has been visited."""
    rows, columns = len(MAZES[maze]), len(MAZES[maze][0])
    squares = np.floor(np.asarray(observations)[:, :2] + 1.5 * CELL).astype(int)
    inside = np.all((squares >= 0) & (squares < [columns * CELL, rows * CELL]), axis=1)
    visited = {(int(x), int(y)) for x, y in squares[inside] if MAZES[maze][y // int(CELL)][x // int(CELL)] != "1"}
    return len(visited) / (len(cells(maze, "0RG")) * CELL**2)


def describe(maze: str, dataset: Dataset) -> dict[str, Any]:
    return {"walks": len(walk_success(dataset)), "coverage": round(coverage(maze, dataset.observations), 4)}


def _recipe(name: str, maze: str, kind: str) -> Recipe:
    return Recipe(
        name=name,
        version=1,
        build=partial(build, name, plan(maze, kind)),
        needs=(GOAL_POLICY,),
        summary="D4RL's recipe in today's simulator",
        size=1_000_000,
        success=walk_success,
        describe=partial(describe, maze),
    )


RECIPES = {
    name: _recipe(name, maze, kind)
    for name, maze, kind in (
        ("antmaze-umaze", "umaze", "umaze"),
        ("antmaze-medium-play", "medium", "play"),
        ("antmaze-medium-diverse", "medium", "diverse"),
        ("antmaze-medium-narrow", "medium", "narrow"),
        ("antmaze-large-play", "large", "play"),
        ("antmaze-large-diverse", "large", "diverse"),
    )
}
