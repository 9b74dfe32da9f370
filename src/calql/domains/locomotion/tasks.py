"""Locomotion: run as fast as possible; dense rewards, so the reference value is fitted by SARSA.

The paper publishes no hyper-parameters for Cal-QL and CQL here: widths, weight and the rest are the
defaults of the code base that its own code grew from; lengths and IQL's numbers are its baselines'.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.data.rewards import RewardRule
from calql.domains.base import NormalisedReturn, Protocol, Task
from calql.domains.locomotion.data import LEVELS
from calql.domains.locomotion.env import BODIES, EPISODE_LIMIT, Runner

# D4RL's mean return of a random and of an expert policy.
REFERENCE_RETURNS = {
    "halfcheetah": (-280.178953, 12135.0),
    "hopper": (-20.272305, 3234.3),
    "walker2d": (1.629008, 4592.3),
}

OPTIONS: Mapping[str, Any] = {
    "policy_widths": (256, 256),
    "critic_widths": (256, 256),
    "conservative_weight": 5.0,
    "dual": False,
    "importance_sampling": True,
    "sampled_actions": 10,
    "backup_actions": 10,
    "discount": 0.99,
}

PROTOCOL = Protocol(
    offline_updates=500_000,
    online_steps=1_000_000,
    evaluate_offline_every=50_000,
    evaluate_online_every=50_000,
    evaluation_episodes=10,
    mixing=0.5,
    update_ratio=1,
)


def _task(body: str, level: str) -> Task:
    name = f"{body}-{level}"
    return Task(
        name=name,
        domain="locomotion",
        summary=f"{BODIES[body].removesuffix('-v4')} running, data of kind {level}",
        make_env=partial(Runner, body),
        data=name,
        episode_limit=EPISODE_LIMIT,
        score=NormalisedReturn(*REFERENCE_RETURNS[body]),
        rewards=RewardRule(),
        protocol=PROTOCOL,
        reference="sarsa",
        options=OPTIONS,
        stepping="in-process",
    )


TASKS = tuple(_task(body, level) for body in BODIES for level in LEVELS)
