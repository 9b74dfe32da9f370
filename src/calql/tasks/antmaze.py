"""AntMaze: walk an ant through a maze to a goal that it does not see; reward only there.

The numbers are those of the paper's public script for AntMaze, and of its baselines' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.envs.ant_maze import AntMazeEnv
from calql.recipes import load
from calql.tasks.base import PER_STEP, Protocol, RewardRule, Task, penalties, success_rate

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "*": {
        "policy_widths": (256, 256),
        "critic_widths": (256, 256, 256, 256),
        "conservative_weight": 5.0,
        "dual": True,
        "gap": 0.8,
        "importance_sampling": True,
        "sampled_actions": 10,
        "backup_actions": 10,
        "discount": 0.99,
    },
    "iql": {"expectile": 0.9, "temperature": 10.0},
    "awac": {"temperature": 1.0},
    "td3-bc": {"standardise": False},
    "rlpd": {"target_subset": 1},
    "wsrl": {"backup_actions_online": 10, "conservative_weight": 1.0, "state_dependent_std": False},
    "rebrac": {"discount": 0.999, "critic_rate": 5e-5},
}

# ReBRAC's weights of the distance to logged actions, in the policy's loss and in the target, as its authors tuned them.
REBRAC_PENALTIES = {
    "antmaze-umaze": (0.003, 0.002),
    "antmaze-medium-play": (0.001, 0.0005),
    "antmaze-medium-diverse": (0.001, 0.0),
    "antmaze-medium-narrow": (0.001, 0.0005),  # ours: those of medium-play
    "antmaze-large-play": (0.002, 0.001),
    "antmaze-large-diverse": (0.002, 0.002),
}

# Authors of the baselines count each step as a cost, take 0 and 1 as they are, or enlarge them.
METHOD_REWARDS = {
    "iql": PER_STEP,
    "rlpd": PER_STEP,
    "awac": RewardRule(failure=0.0),
    "rebrac": RewardRule(scale=100.0, failure=0.0),
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


def _options(name: str) -> Mapping[str, Mapping[str, Any]]:
    """The domain's, with what differs between data."""
    return {**OPTIONS, "rebrac": {**OPTIONS["rebrac"], **penalties(REBRAC_PENALTIES[name])}}


def _task(name: str, maze: str, summary: str, limit: int = 1000) -> Task:
    return Task(
        name=name,
        domain="antmaze",
        summary=summary,
        make_env=partial(AntMazeEnv, maze, max_steps=limit),
        load_data=partial(load, name),
        episode_limit=limit,
        score=success_rate,  # D4RL's normalised return: 0 to 1, and a success ends the episode with 1
        rewards=RewardRule(scale=10.0, shift=-5.0, failure=0.0),
        protocol=PROTOCOL,
        options=_options(name),
        method_rewards=METHOD_REWARDS,
        stepping="workers",
    )


TASKS = (
    _task("antmaze-umaze", "umaze", "ant in a U, data from one start to one goal", limit=700),
    _task("antmaze-medium-play", "medium", "ant in the medium maze, data to three chosen goals"),
    _task("antmaze-medium-diverse", "medium", "ant in the medium maze, data between any two cells"),
    _task("antmaze-medium-narrow", "medium", "ant in the medium maze, data from one start to one goal"),
    _task("antmaze-large-play", "large", "ant in the large maze, data to seven chosen goals"),
    _task("antmaze-large-diverse", "large", "ant in the large maze, data between any two cells"),
)
