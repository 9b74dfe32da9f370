"""The point maze from above, and the point put where a recorded step was."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.domains.point_maze.maze import MAZE
from calql.domains.point_maze.tasks import TASKS
from calql.domains.scene import Scene


def put(env: Any, observation: NDArray[Any]) -> None:
    point = env.unwrapped.maze.point_env
    point.set_state(observation[:2].astype(np.float64), observation[2:4].astype(np.float64))


SCENES = {task.name: Scene(("x", "y", "speed in x", "speed in y"), MAZE.plan(), put) for task in TASKS}
