"""Locomotion: run as fast as possible; dense rewards, so the reference value is fitted by SARSA.

The paper publishes no hyper-parameters for Cal-QL and CQL here: widths, weight and the rest are the
defaults of the code base that its own code grew from; lengths and IQL's numbers are its baselines'.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from calql.envs.locomotion import BODIES, EPISODE_LIMIT, Runner
from calql.recipes import load
from calql.recipes.locomotion import LEVELS
from calql.tasks.base import Protocol, RewardRule, Task, normalised_return, penalties

# D4RL's mean return of a random and of an expert policy.
REFERENCE_RETURNS = {
    "halfcheetah": (-280.178953, 12135.0),
    "hopper": (-20.272305, 3234.3),
    "walker2d": (1.629008, 4592.3),
}

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "*": {
        "policy_widths": (256, 256),
        "critic_widths": (256, 256),
        "conservative_weight": 5.0,
        "dual": False,
        "importance_sampling": True,
        "sampled_actions": 10,
        "backup_actions": 10,
        "discount": 0.99,
    },
    "iql": {"expectile": 0.7, "temperature": 3.0},
    "awac": {"temperature": 1.0},
    "rlpd": {"policy_widths": (256, 256), "critic_widths": (256, 256), "entropy_in_backup": True},
    "wsrl": {"offline_updates": 250_000, "calibrate": False},
    "rebrac": {"batch_size": 1024, "policy_rate": 1e-3, "critic_rate": 1e-3},
}

# ReBRAC's weights, as its authors tuned them for each set; by level, in the order of LEVELS.
REBRAC_PENALTIES = {
    "halfcheetah": ((0.001, 0.1), (0.001, 0.01), (0.01, 0.001), (0.01, 0.1), (0.01, 0.01)),
    "hopper": ((0.001, 0.01), (0.01, 0.01), (0.05, 0.5), (0.1, 0.01), (0.1, 0.1)),
    "walker2d": ((0.01, 0.0), (0.05, 0.1), (0.05, 0.01), (0.01, 0.01), (0.01, 0.5)),
}

# Of the authors of decision transformers: the return to ask for, and twice that when collecting.
EXPERT_RETURNS = {"halfcheetah": 6_000.0, "hopper": 3_600.0, "walker2d": 5_000.0}
ODT = {
    "width": 512,
    "policy_rate": 1e-4,
    "weight_decay": 5e-4,
    "order_embedding": False,
    "offline_updates": 5_000,
    "keep_episodes": 1_000,
    "return_scale": 1_000.0,
}

# IQL's code, the original and the paper's fork of it, scales the logged rewards and inserts collected ones as they are.
METHOD_REWARDS = {"iql": RewardRule(scale=1_000.0, by_return_range=True, logged_only=True)}

PROTOCOL = Protocol(
    offline_updates=500_000,
    online_steps=1_000_000,
    evaluate_offline_every=50_000,
    evaluate_online_every=50_000,
    evaluation_episodes=10,
    mixing=0.5,
    update_ratio=1,
)


def _options(body: str, level: str) -> Mapping[str, Mapping[str, Any]]:
    """The domain's, with what differs between bodies and data."""
    wanted = EXPERT_RETURNS[body]
    options = dict(OPTIONS)
    options["odt"] = {**ODT, "evaluation_return": wanted, "exploration_return": 2.0 * wanted}
    pair = REBRAC_PENALTIES[body][LEVELS.index(level)]
    options["rebrac"] = {**OPTIONS["rebrac"], **penalties(pair)}
    if body == "halfcheetah" and level in ("medium-expert", "expert"):
        options["awac"] = {**OPTIONS["awac"], "offline_updates": 1_000_000}
    return options


def _task(body: str, level: str) -> Task:
    name = f"{body}-{level}"
    return Task(
        name=name,
        domain="locomotion",
        summary=f"{BODIES[body].removesuffix('-v4')} running, data of kind {level}",
        make_env=partial(Runner, body),
        load_data=partial(load, name),
        episode_limit=EPISODE_LIMIT,
        score=normalised_return(*REFERENCE_RETURNS[body]),
        rewards=RewardRule(),
        protocol=PROTOCOL,
        reference="sarsa",
        options=_options(body, level),
        method_rewards=METHOD_REWARDS,
        stepping="in-process",
    )


TASKS = tuple(_task(body, level) for body in BODIES for level in LEVELS)
