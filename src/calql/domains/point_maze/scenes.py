"""The point maze from above, and the point put where a recorded step was."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.domains.point_maze.data import Cell, cell_of
from calql.domains.point_maze.env import U_TURN
from calql.domains.point_maze.tasks import TASKS
from calql.domains.scene import FloorPlan, Scene, walled


def centre(cell: Cell) -> tuple[float, float]:
    """Where the middle of a cell is: cells of one metre, the middle of the maze at the origin, rows downwards."""
    row, column = cell
    return column + 0.5 - len(U_TURN[0]) / 2, len(U_TURN) / 2 - row - 0.5


def put(env: Any, observation: NDArray[Any]) -> None:
    point = env.unwrapped.maze.point_env
    point.set_state(observation[:2].astype(np.float64), observation[2:4].astype(np.float64))


PLAN = FloorPlan(0, 1, walled(U_TURN, centre, 1.0), centre(cell_of(U_TURN, "r")), centre(cell_of(U_TURN, "g")))
SCENES = {task.name: Scene(("x", "y", "speed in x", "speed in y"), PLAN, put) for task in TASKS}
