"""The mazes from above, and the ant put where a recorded step was."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.domains.antmaze.maze import maze
from calql.domains.antmaze.tasks import TASKS
from calql.domains.scene import Scene

POSITIONS = 15  # of the observation; velocities follow


def put(env: Any, observation: NDArray[Any]) -> None:
    recorded = observation.astype(np.float64)
    env.unwrapped.set_state(recorded[:POSITIONS], recorded[POSITIONS:])


SCENES = {task.name: Scene(("x", "y", "height"), maze(task.name.split("-")[1]).plan(), put) for task in TASKS}
