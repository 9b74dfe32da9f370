"""Point maze: the embedded default, small enough for two CPU cores. The narrow-data diagnostic in miniature."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.data.rewards import RewardRule
from calql.domains import datasets as recipes
from calql.domains.base import Protocol, Task, success_rate
from calql.domains.point_maze.env import PointMaze

EPISODE_LIMIT = 200

PROTOCOL = Protocol(
    offline_updates=8_000,
    online_steps=5_000,
    evaluate_offline_every=2_000,
    evaluate_online_every=500,
    evaluation_episodes=10,
    mixing=0.5,
)

# The paper's learner in small: a hundredth of its updates, so larger steps and a faster target. The fixed
# weight 5 is the one the paper gives kitchen.
OPTIONS: Mapping[str, Any] = {
    "policy_widths": (64, 64),
    "critic_widths": (64, 64),
    "batch_size": 128,
    "sampled_actions": 4,
    "backup_actions": 4,
    "policy_rate": 3e-4,
    "critic_rate": 1e-3,
    "target_rate": 0.02,
    "dual": False,
    "conservative_weight": 5.0,
}


def _task(variety: str, summary: str) -> Task:
    name = f"point-maze-{variety}"
    return Task(
        name=name,
        domain="point-maze",
        summary=summary,
        make_env=PointMaze,
        load_data=partial(recipes.load, name),
        held_out_data=partial(recipes.load, f"{name}-held-out"),
        episode_limit=EPISODE_LIMIT,
        score=success_rate,
        rewards=RewardRule(scale=10.0, shift=-5.0, failure=0.0),
        protocol=PROTOCOL,
        options=OPTIONS,
    )


TASKS = (
    _task("narrow", "reach an unseen goal round a bend; data: one start, one goal, always solved"),
    _task("diverse", "the same maze; data: any start, any goal, relabelled"),
)
