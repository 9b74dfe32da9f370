"""AntMaze tasks: the paper's numbers."""

from __future__ import annotations

import pickle

import pytest

from calql.domains.antmaze.tasks import TASKS as ALL
from calql.domains.datasets import recipe
from calql.methods import METHODS

TASKS = {task.name: task for task in ALL}


def test_names() -> None:
    assert set(TASKS) == {
        "antmaze-umaze",
        "antmaze-medium-play",
        "antmaze-medium-diverse",
        "antmaze-medium-narrow",
        "antmaze-large-play",
        "antmaze-large-diverse",
    }


@pytest.mark.parametrize("name", TASKS)
def test_paper_numbers(name: str) -> None:
    task = TASKS[name]
    assert (task.rewards.scale, task.rewards.shift, task.rewards.mapped_failure) == (10.0, -5.0, -5.0)
    protocol = task.protocol
    assert (protocol.offline_updates, protocol.online_steps, protocol.mixing) == (1_000_000, 1_000_000, 0.5)
    assert (protocol.evaluate_offline_every, protocol.evaluate_online_every) == (50_000, 2_000)
    assert protocol.evaluation_episodes == 20
    options = task.options
    assert options["policy_widths"] == (256, 256)
    assert options["critic_widths"] == (256,) * 4
    assert (options["conservative_weight"], options["dual"], options["gap"]) == (5.0, True, 0.8)
    on = METHODS["iql"].on
    assert {**on["antmaze"], **on.get(name, {})} == {"expectile": 0.9, "temperature": 10.0}
    assert task.episode_limit == (700 if name == "antmaze-umaze" else 1000)
    assert recipe(name).name == name


def test_environment_is_picklable_and_of_the_task() -> None:
    env = pickle.loads(pickle.dumps(TASKS["antmaze-large-play"].make_env))()
    assert env.maze == "large"
    assert env.observation_space.shape == (29,)
    assert TASKS["antmaze-umaze"].make_env().max_steps == 700  # type: ignore[attr-defined]
