"""RLPD (Ball et al., 2023): SAC from scratch with prior data, at 20 updates a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calql.methods.base import own_defaults
from calql.methods.learner_options import Widths
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
