"""Stand-in data: a few short episodes of random actions in a task's own environment.

They have the shapes and the reward rule of the real set and nothing to learn from: for smoke runs, which must
not wait for a dataset to be built, nor need the recordings that some recipes start from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.store import data_root, locked
from calql.data.write import write_npz
from calql.domains.common.rollout import Controller, Rollouts, record
from calql.domains.registry import Task
from calql.experiments.cells import STAND_IN

EPISODES, STEPS = 2, 15


def stand_in(task: Task) -> Path:
    """The file of a task's stand-in data; made on first use."""
    path = data_root() / STAND_IN / f"{task.name}.npz"
    if not path.is_file():
        with locked(path):
            if not path.is_file():
                write_npz(record(Rollouts(task.make_env, _random_controller(task), 0, 0, 0, EPISODES, STEPS)), path)
    return path


def _random_controller(task: Task) -> Any:
    env = task.make_env()
    space: Any = env.action_space
    env.close()

    def act(observation: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return rng.uniform(space.low, space.high)

    def make(episode: int) -> Controller:
        return act

    return make
