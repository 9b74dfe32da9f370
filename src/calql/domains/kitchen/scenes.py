"""Robot and kitchen put where a recorded step was, up to the noise that observations have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.domains.kitchen.tasks import TASKS
from calql.domains.scene import Scene

JOINTS = 30  # of the observation: nine of the robot, then those of the kitchen


def put(env: Any, observation: NDArray[Any]) -> None:
    robot = env.unwrapped.scene.robot_env
    robot.set_state(observation[:JOINTS].astype(np.float64), np.zeros_like(robot.data.qvel))


SCENES = {task.name: Scene(put=put) for task in TASKS}
