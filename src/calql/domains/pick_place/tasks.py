"""Visual pick-and-place: put an object into a container, from 48x48 images.

The paper publishes 4 sampled actions, weight 5 then 0.5, mixing 0.5, 5 updates a step, 50K and 100K
steps and 40-step episodes. Its rewards, discount and networks are not published: rewards are mapped
as in AntMaze, the paper's other task of 0 and 1; IQL, AWAC and RLPD
see a cost of 1 a step, as IQL and RLPD do there. The rest is this package's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calql.data.rewards import RewardRule
from calql.domains.base import Protocol, Task, success_rate
from calql.domains.pick_place.env import STEPS, PickPlace

OPTIONS: Mapping[str, Any] = {
    "policy_widths": (256, 256),
    "critic_widths": (256, 256),
    "conservative_weight": 5.0,
    "conservative_weight_online": 0.5,
    "dual": False,
    "importance_sampling": True,
    "sampled_actions": 4,
    "backup_actions": 4,
    "discount": 0.99,
}

TASKS = (
    Task(
        name="pick-place",
        domain="pick-place",
        summary="from images: put an object into a container, beside a distractor",
        make_env=PickPlace,
        data="pick-place",
        episode_limit=STEPS,
        score=success_rate,
        rewards=RewardRule(scale=10.0, shift=-5.0, failure=0.0),
        protocol=Protocol(
            offline_updates=50_000,
            online_steps=100_000,
            evaluate_offline_every=5_000,
            evaluate_online_every=2_000,
            mixing=0.5,
            update_ratio=5,
        ),
        options=OPTIONS,
    ),
)
