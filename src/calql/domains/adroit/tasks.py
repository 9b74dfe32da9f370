"""Adroit binary: a dexterous hand that turns a pen, opens a door or relocates a ball; paid -1, then 0.

The numbers are those of the paper's public script for Adroit, and of its baselines' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.data.rewards import RewardRule
from calql.domains.adroit.env import HANDS, AdroitBinary
from calql.domains.base import Protocol, Task, success_rate

OPTIONS: Mapping[str, Any] = {
    "policy_widths": (512, 512),
    "critic_widths": (512, 512, 512),
    "conservative_weight": 1.0,
    "dual": False,
    "importance_sampling": True,
    "sampled_actions": 10,
    "backup_actions": 10,
    "discount": 0.99,
}


def _task(hand: str, summary: str, online_steps: int) -> Task:
    name = f"{hand}-binary"
    return Task(
        name=name,
        domain="adroit",
        summary=summary,
        make_env=partial(AdroitBinary, hand),
        data=name,
        episode_limit=HANDS[hand].steps,
        score=success_rate,
        rewards=RewardRule(scale=10.0, shift=5.0, failure=-1.0),
        protocol=Protocol(
            offline_updates=20_000,
            online_steps=online_steps,
            evaluate_offline_every=2_000,
            evaluate_online_every=2_000,
            mixing=0.5,
        ),
        options=OPTIONS,
        stepping="workers",
    )


TASKS = (
    _task("pen", "a hand turns a pen to a given direction", online_steps=200_000),  # the paper's text: 300,000
    _task("door", "a hand turns a latch and opens a door", online_steps=1_000_000),
    _task("relocate", "a hand grasps a ball and takes it to a target", online_steps=1_000_000),
)
