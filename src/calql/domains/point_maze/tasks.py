"""Point maze: the embedded default, small enough for two CPU cores. The narrow-data diagnostic in miniature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calql.data.rewards import RewardRule
from calql.domains.base import Protocol, Task, success_rate
from calql.domains.point_maze.env import PointMaze
from calql.domains.point_maze.maze import MAZE

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

# Two methods, three seeds each, in a minute and a half on two cores: batches of half the size, four fifths of the steps
# online and half the episodes of each evaluation (docs/domains/point-maze.md has what was tried).
QUICK_PROTOCOL = replace(
    PROTOCOL, online_steps=4_000, evaluate_offline_every=4_000, evaluate_online_every=400, evaluation_episodes=5
)
QUICK_OPTIONS: Mapping[str, Any] = {**OPTIONS, "seeds": 3, "batch_size": 64}


def _task(
    variety: str, summary: str, *, held_out: str, protocol: Protocol = PROTOCOL, options: Mapping[str, Any] = OPTIONS
) -> Task:
    name = f"point-maze-{variety}"
    return Task(
        name=name,
        domain="point-maze",
        summary=summary,
        make_env=PointMaze,
        data=name,
        held_out=f"point-maze-{held_out}-held-out",
        episode_limit=EPISODE_LIMIT,
        score=success_rate,
        rewards=RewardRule(scale=10.0, shift=-5.0, failure=0.0),
        protocol=protocol,
        options=options,
        state_map=MAZE.state_map,
        films=True,
    )


TASKS = (
    _task(
        "quick",
        "the first run: point-maze-narrow in little, in a minute or so",
        held_out="narrow",
        protocol=QUICK_PROTOCOL,
        options=QUICK_OPTIONS,
    ),
    _task("narrow", "to an unseen goal round a bend; data: one way", held_out="narrow"),
    _task("diverse", "the same maze; data: any start, any goal", held_out="diverse"),
)
