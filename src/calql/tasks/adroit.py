"""Adroit binary: a dexterous hand that turns a pen, opens a door or relocates a ball; paid -1, then 0.

The numbers are those of the paper's public script for Adroit, and of its baselines' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.envs.adroit import HANDS, AdroitBinary
from calql.recipes import load
from calql.tasks.base import Protocol, RewardRule, Task, penalties, success_rate

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "*": {
        "policy_widths": (512, 512),
        "critic_widths": (512, 512, 512),
        "conservative_weight": 1.0,
        "dual": False,
        "importance_sampling": True,
        "sampled_actions": 10,
        "backup_actions": 10,
        "discount": 0.99,
    },
    "iql": {"expectile": 0.8, "temperature": 3.0, "mixing": 0.2, "policy_std": 0.03},
    "awac": {"temperature": 0.3},
    "odt": {"evaluation_return": 0.0, "exploration_return": 0.0, "return_scale": 100.0},  # the most there is
}

# ReBRAC's weights, as its authors tuned them for D4RL's cloned data.
REBRAC_PENALTIES = {"pen": (0.05, 0.5), "door": (0.01, 0.1), "relocate": (0.1, 0.01)}

RAW = RewardRule(failure=-1.0)
METHOD_REWARDS = {"iql": RAW, "awac": RAW, "rlpd": RAW}


def _task(hand: str, summary: str, online_steps: int) -> Task:
    name = f"{hand}-binary"
    return Task(
        name=name,
        domain="adroit",
        summary=summary,
        make_env=partial(AdroitBinary, hand),
        load_data=partial(load, name),
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
        options={**OPTIONS, "rebrac": penalties(REBRAC_PENALTIES[hand])},
        method_rewards=METHOD_REWARDS,
        stepping="workers",
    )


TASKS = (
    _task("pen", "a hand turns a pen to a given direction", online_steps=200_000),  # the paper's text: 300,000
    _task("door", "a hand turns a latch and opens a door", online_steps=1_000_000),
    _task("relocate", "a hand grasps a ball and takes it to a target", online_steps=1_000_000),
)
