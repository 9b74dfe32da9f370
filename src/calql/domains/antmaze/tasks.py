"""AntMaze: walk an ant through a maze to a goal that it does not see; reward only there.

The numbers are those of the paper's public script for AntMaze, and of its baselines' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.data.rewards import RewardRule
from calql.domains.antmaze.env import AntMazeEnv
from calql.domains.antmaze.maze import maze
from calql.domains.base import Protocol, Task, success_rate

OPTIONS: Mapping[str, Any] = {
    "policy_widths": (256, 256),
    "critic_widths": (256, 256, 256, 256),
    "conservative_weight": 5.0,
    "dual": True,
    "gap": 0.8,
    "importance_sampling": True,
    "sampled_actions": 10,
    "backup_actions": 10,
    "discount": 0.99,
}

PROTOCOL = Protocol(
    offline_updates=1_000_000,
    online_steps=1_000_000,
    evaluate_offline_every=50_000,
    evaluate_online_every=2_000,
    evaluation_episodes=20,
    mixing=0.5,
    update_ratio=1,
)


def _task(name: str, kind: str, summary: str, limit: int = 1000) -> Task:
    return Task(
        name=name,
        domain="antmaze",
        summary=summary,
        make_env=partial(AntMazeEnv, kind, max_steps=limit),
        data=name,
        episode_limit=limit,
        score=success_rate,  # D4RL's normalised return: 0 to 1, and a success ends the episode with 1
        rewards=RewardRule(scale=10.0, shift=-5.0, failure=0.0),
        protocol=PROTOCOL,
        options=OPTIONS,
        stepping="workers",
        state_map=maze(kind).state_map,
    )


TASKS = (
    _task("antmaze-umaze", "umaze", "ant in a U, data from one start to one goal", limit=700),
    _task("antmaze-medium-play", "medium", "ant in the medium maze, data to three chosen goals"),
    _task("antmaze-medium-diverse", "medium", "ant in the medium maze, data between any two cells"),
    _task("antmaze-medium-narrow", "medium", "ant in the medium maze, data from one start to one goal"),
    _task("antmaze-large-play", "large", "ant in the large maze, data to seven chosen goals"),
    _task("antmaze-large-diverse", "large", "ant in the large maze, data between any two cells"),
)
