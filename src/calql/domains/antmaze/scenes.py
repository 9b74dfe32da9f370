"""The mazes from above, and the ant put where a recorded step was."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.domains.antmaze.env import CELL, MAZES, cells, centre, middle_goal
from calql.domains.antmaze.tasks import TASKS
from calql.domains.scene import FloorPlan, Scene, walled

POSITIONS = 15  # of the observation; velocities follow


def put(env: Any, observation: NDArray[Any]) -> None:
    recorded = observation.astype(np.float64)
    env.unwrapped.set_state(recorded[:POSITIONS], recorded[POSITIONS:])


@cache
def plan(maze: str) -> FloorPlan:
    (start,) = cells(maze, "R")
    x, y = (float(each) for each in centre(start))
    goal = middle_goal(maze)
    return FloorPlan(0, 1, walled(MAZES[maze], lambda at: centre(at).tolist(), CELL), (x, y), (goal[0], goal[1]))


SCENES = {task.name: Scene(("x", "y", "height"), plan(task.name.split("-")[1]), put) for task in TASKS}
