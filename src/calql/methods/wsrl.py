"""WSRL (Zhou et al., 2024): pre-train with Cal-QL, warm up with the frozen policy, go on with SAC on new data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calql.methods.base import own_defaults
from calql.methods.learner_options import ActorCriticOptions


@dataclass(frozen=True)
class WSRL(ActorCriticOptions):
    """Cal-QL with ten critics offline; online SAC with four critic updates to one of the policy, no logged data."""

    critics: int = 10
    target_subset: int = 2
    penalised_critics: int = 2
    critic_layer_norm: bool = True
    policy_layer_norm: bool = True
    conservative_online: bool = False
    critic_steps_online: int = 4
    policy_on_all: bool = True
    policy_critic: Literal["min", "mean"] = "min"
    backup_actions: int = 1


SETS = own_defaults(WSRL, "backup_actions") | {
    "mixing": 0.0,
    "update_ratio": 4,
    "warmup_steps": 5_000,
    "warmup_actions": "policy",
}
