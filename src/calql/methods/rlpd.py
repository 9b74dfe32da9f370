"""RLPD (Ball et al., 2023): SAC from scratch with prior data, at 20 updates a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calql.data.rewards import PER_STEP, RewardRule
from calql.methods.base import own_defaults
from calql.methods.entry import Compared, Entry
from calql.methods.learner import ActorCritic
from calql.methods.learner_options import SMOKE, Widths
from calql.methods.sac import SAC
from calql.networks import Initialiser


@dataclass(frozen=True)
class RLPD(SAC):
    """Ten critics with layer norm, targets from two of them, half of each batch from prior data."""

    policy_widths: Widths = (256, 256, 256)
    critic_widths: Widths = (256, 256, 256)
    critics: int = 10
    target_subset: int = 2
    critic_layer_norm: bool = True
    policy_critic: Literal["min", "mean"] = "mean"
    initialiser: Initialiser = "xavier"
    log_std_scalars: bool = False
    critic_loss: Literal["sum", "mean"] = "mean"
    policy_rate: float = 3e-4
    critic_rate: float = 3e-4
    critic_steps: int = 20
    backup_actions: int = 1
    entropy_scale: float = 0.5
    temperature_form: Literal["logarithm", "exponential", "softplus"] = "exponential"


SETS = own_defaults(RLPD, "policy_widths", "critic_widths", "backup_actions") | {
    "offline_updates": 0,
    "mixing": 0.5,
    "update_ratio": 20,
    "warmup_steps": 5_000,
    "warmup_actions": "random",
}

CHEAPER = {"batch_size": 64, "critics": 5, "critic_steps": 10, "update_ratio": 10}  # in `calql compare`

METHODS = {
    "rlpd": Entry(
        "SAC from scratch, ten critics, half offline data, 20 updates a step",
        RLPD,
        ActorCritic,
        sets=SETS,
        on={
            "antmaze": {"target_subset": 1},
            "locomotion": {"policy_widths": (256, 256), "critic_widths": (256, 256), "entropy_in_backup": True},
            "point-maze": {"policy_widths": (64, 64), "critic_widths": (64, 64), "warmup_steps": 500},
        },
        rewards={"antmaze": PER_STEP, "adroit": RewardRule(failure=-1.0), "pick-place": PER_STEP},
        update_cost=1.5,
        small={"online_steps": 5_000, "warmup_steps": 500},
        smoke=SMOKE,
        compared=Compared((0.7, 1.0), "the same with critics that stand many updates", CHEAPER),
        place=8,
        title="RLPD",
    )
}
