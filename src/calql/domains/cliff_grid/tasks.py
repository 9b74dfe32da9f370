"""Cliff grid: where Q-values that are too low are unlearnt at the first fall, with discrete actions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.data.rewards import RewardRule
from calql.domains.base import Protocol, Task, success_rate
from calql.domains.cliff_grid.env import CliffGrid

EPISODE_LIMIT = 60

PROTOCOL = Protocol(
    offline_updates=6_000,
    online_steps=2_500,
    evaluate_offline_every=2_000,
    evaluate_online_every=250,
    evaluation_episodes=12,
    mixing=0.5,
)

# As on the point maze, the paper's learner in small. A success is worth 1: a weight of that size would push Q of what
# was logged far above it, and with a discount near 1 hardly anything would be lost by going round in circles.
OPTIONS: Mapping[str, Any] = {
    "policy_widths": (64, 64),
    "critic_widths": (64, 64),
    "batch_size": 128,
    "policy_rate": 1e-3,
    "critic_rate": 1e-3,
    "target_rate": 0.02,
    "dual": False,
    "discount": 0.9,
    "conservative_weight": 0.5,
    "entropy_share": 0.3,
}


def _task(name: str, summary: str, *, masked: bool) -> Task:
    return Task(
        name=name,
        domain="cliff-grid",
        summary=summary,
        make_env=partial(CliffGrid, masked=masked),
        data=name,
        held_out=f"{name}-held-out",
        episode_limit=EPISODE_LIMIT,
        score=success_rate,
        rewards=RewardRule(),
        protocol=PROTOCOL,
        options=OPTIONS,
        discrete=True,
    )


TASKS = (
    _task("cliff-grid", "walk along a cliff, four moves; data: shortest ways to the goal", masked=False),
    _task("cliff-grid-masked", "the same; moves into the edge are forbidden, in data and environment", masked=True),
)
