"""Franka kitchen: an arm does four tasks in one episode; every step pays how many are done.

The numbers are those of the authors' kitchen branch, and of the baselines' own scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.envs.kitchen import STEPS, Kitchen
from calql.recipes import load
from calql.tasks.base import Protocol, RewardRule, Task, final_reward_share

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "*": {
        "policy_widths": (512, 512, 512),
        "critic_widths": (512, 512, 512),
        "conservative_weight": 5.0,
        "dual": False,
        "importance_sampling": False,
        "sampled_actions": 10,
        "backup_actions": 10,
        "discount": 0.99,
    },
    "iql": {"expectile": 0.7, "temperature": 0.5, "mixing": 0.25, "policy_dropout": 0.1},
    "awac": {"temperature": 1.0},
    "wsrl": {"offline_updates": 250_000, "last_hidden_gain": 2.0**0.5},
    "odt": {"evaluation_return": 400.0, "exploration_return": 800.0, "return_scale": 100.0},  # logged: 260 to 330
}

METHOD_REWARDS = {"wsrl": RewardRule(shift=-4.0, infinite_tail=True)}  # a cost for what is still to do

PROTOCOL = Protocol(
    offline_updates=500_000,
    online_steps=1_500_000,  # the paper's text: 1,250,000
    evaluate_offline_every=50_000,
    evaluate_online_every=5_000,
    mixing=0.25,
)


def _task(kind: str, summary: str) -> Task:
    name = f"kitchen-{kind}"
    return Task(
        name=name,
        domain="kitchen",
        summary=summary,
        make_env=partial(Kitchen, kind),
        load_data=partial(load, name),
        episode_limit=STEPS,
        score=final_reward_share(4.0),
        rewards=RewardRule(infinite_tail=True),
        protocol=PROTOCOL,
        options=OPTIONS,
        method_rewards=METHOD_REWARDS,
        stepping="workers",
    )


TASKS = (
    _task("complete", "four kitchen tasks, data that do all four"),
    _task("partial", "four kitchen tasks, data of which a few do all four"),
    _task("mixed", "four kitchen tasks, data of which none does all four"),
)
