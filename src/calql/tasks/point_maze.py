"""Point maze: the embedded default, small enough for two CPU cores. The narrow-data diagnostic in miniature."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql import recipes
from calql.envs.point_maze import PointMaze
from calql.tasks.base import PER_STEP, Protocol, RewardRule, Task, success_rate

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
NETWORKS = {"policy_widths": (64, 64), "critic_widths": (64, 64)}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "*": {
        **NETWORKS,
        "batch_size": 128,
        "sampled_actions": 4,
        "backup_actions": 4,
        "policy_rate": 3e-4,
        "critic_rate": 1e-3,
        "target_rate": 0.02,
        "dual": False,
        "conservative_weight": 5.0,
    },
    "bc": {"policy_rate": 1e-3},
    "iql": {**NETWORKS, "policy_rate": 1e-3, "expectile": 0.9, "temperature": 3.0},
    "awac": {**NETWORKS, "batch_size": 128, "policy_rate": 1e-3, "temperature": 1.0},
    "td3-bc": {**NETWORKS, "policy_rate": 1e-3},
    "o3f": {**NETWORKS, "policy_rate": 1e-3, "candidates": 20},
    "rebrac": {
        **NETWORKS,
        "policy_rate": 1e-3,
        "policy_penalty": 0.01,
        "target_penalty": 0.01,
        "penalty_updates": 5_000,
    },
    "rlpd": {**NETWORKS, "warmup_steps": 500},
    "wsrl": {"backup_actions_online": 4, "warmup_steps": 500},
    "odt": {
        "width": 64,
        "layers": 2,
        "heads": 2,
        "training_context": 5,
        "dropout": 0.0,
        "batch_size": 32,
        "policy_rate": 1e-3,
        "warmup_updates": 300,
        "offline_updates": 3_000,
        "updates_per_episode": 30,
        "keep_episodes": 800,  # of the 756 diverse ones 664 are single steps at the goal, the best by return
    },
}

# Weights by advantage are in units of reward: IQL and AWAC have theirs for a cost of 1 a step.
METHOD_REWARDS = {"iql": PER_STEP, "awac": PER_STEP}


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
        method_rewards=METHOD_REWARDS,
    )


TASKS = (
    _task("narrow", "reach an unseen goal round a bend; data: one start, one goal, always solved"),
    _task("diverse", "the same maze; data: any start, any goal, relabelled"),
)
