"""The visual task carries the numbers that the paper publishes."""

from __future__ import annotations

import numpy as np

from calql.domains.pick_place.tasks import OPTIONS, TASKS
from calql.methods import METHODS

TASK = TASKS[0]


def test_published_numbers() -> None:
    protocol = TASK.protocol
    assert (protocol.offline_updates, protocol.online_steps) == (50_000, 100_000)
    assert (protocol.update_ratio, protocol.mixing, TASK.episode_limit) == (5, 0.5, 40)
    options = OPTIONS
    assert (options["sampled_actions"], options["backup_actions"]) == (4, 4)
    assert (options["conservative_weight"], options["conservative_weight_online"]) == (5.0, 0.5)
    on = METHODS["iql"].on
    assert {**on["pick-place"], **on.get(TASK.name, {})} == {"expectile": 0.7, "temperature": 10.0}


def test_rewards_are_mapped_as_in_the_other_task_of_0_and_1() -> None:
    assert TASK.rewards.map(np.array([0.0, 1.0])).tolist() == [-5.0, 5.0]
    assert TASK.rewards.mapped_failure == -5.0


def test_the_environment_gives_images() -> None:
    env = TASK.make_env()
    image, _ = env.reset(seed=0)
    assert (image.shape, image.dtype) == ((48, 48, 3), np.uint8)
