"""The Adroit tasks carry the numbers of the paper's script."""

from __future__ import annotations

import numpy as np
import pytest

from calql.data.rewards import EpisodeSummary
from calql.domains.adroit.data import RECIPES
from calql.domains.adroit.tasks import OPTIONS, TASKS
from calql.domains.base import Task


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_protocol_and_rewards(task: Task) -> None:
    assert (task.protocol.offline_updates, task.protocol.mixing, task.protocol.update_ratio) == (20_000, 0.5, 1)
    assert task.rewards.map(np.array([-1.0, 0.0])).tolist() == [-5.0, 5.0]
    assert task.rewards.mapped_failure == -5.0
    assert task.name in RECIPES
    env = task.make_env()
    assert env.reset(seed=0)[0].shape == env.observation_space.shape


def test_limits_and_online_steps() -> None:
    assert {t.name: (t.episode_limit, t.protocol.online_steps) for t in TASKS} == {
        "pen-binary": (100, 200_000),
        "door-binary": (200, 1_000_000),
        "relocate-binary": (200, 1_000_000),
    }


def test_options() -> None:
    assert OPTIONS["policy_widths"] == (512, 512)
    assert OPTIONS["critic_widths"] == (512, 512, 512)
    assert (OPTIONS["conservative_weight"], OPTIONS["dual"]) == (1.0, False)


def test_score_is_the_success_rate() -> None:
    episodes = [EpisodeSummary(-3.0, 0.0, 4, True), EpisodeSummary(-200.0, -1.0, 200, False)]
    assert TASKS[0].score(episodes) == 0.5
