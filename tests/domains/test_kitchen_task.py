"""The kitchen tasks carry the numbers of the authors' branch."""

from __future__ import annotations

import numpy as np

from calql.data.returns import return_to_go
from calql.data.rewards import EpisodeSummary
from calql.domains.kitchen.data import RECIPES
from calql.domains.kitchen.tasks import OPTIONS, PROTOCOL, TASKS


def test_protocol_and_options() -> None:
    assert (PROTOCOL.offline_updates, PROTOCOL.online_steps, PROTOCOL.mixing) == (500_000, 1_500_000, 0.25)
    assert (PROTOCOL.evaluate_offline_every, PROTOCOL.evaluate_online_every) == (50_000, 5_000)
    assert OPTIONS["policy_widths"] == OPTIONS["critic_widths"] == (512, 512, 512)
    assert (OPTIONS["conservative_weight"], OPTIONS["importance_sampling"]) == (5.0, False)
    assert {task.name for task in TASKS} <= set(RECIPES)  # which has variants of the data too


def test_the_score_is_what_is_solved_at_the_end_over_four() -> None:
    episodes = [EpisodeSummary(900.0, 3.0, 1000, False), EpisodeSummary(0.0, 0.0, 1000, False)]
    assert TASKS[0].score(episodes) == 3.0 / 8.0


def test_an_unfinished_episode_earns_its_last_reward_for_ever() -> None:
    rule = TASKS[0].rewards
    rewards = rule.map(np.array([0.0, 1.0, 2.0]))
    online = return_to_go(rewards, np.zeros(3), 0.99, infinite_tail=rule.infinite_tail)
    assert np.allclose(online, [197.01, 199, 200], atol=1e-2)
    logged = return_to_go(rewards, np.array([0, 0, 1]), 0.99, infinite_tail=rule.infinite_tail)
    assert np.allclose(logged, [2.9502, 2.98, 2], atol=1e-4)


def test_the_environment_is_the_tasks_own() -> None:
    env = TASKS[2].make_env()
    observation, _ = env.reset(seed=0)
    assert observation.shape == (60,)
    assert observation[30 + 11] == np.float32(-0.88)  # mixed asks for the bottom burner
