"""WSRL (Zhou et al., 2024): pre-train with Cal-QL, warm up with the frozen policy, go on with SAC on new data alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from calql.data.rewards import RewardRule
from calql.methods.base import own_defaults
from calql.methods.entry import Compared, Entry
from calql.methods.learner import ActorCritic
from calql.methods.learner_options import OWN_LARGEST_RETURN, OWN_WEIGHT, SMOKE, ActorCriticOptions

SOFTPLUS_ONE = math.log(math.e - 1.0)  # what softplus makes 1 of


@dataclass(frozen=True)
class WSRL(ActorCriticOptions):
    """Cal-QL with ten critics offline; online SAC with four critic updates to one of the policy, no logged data."""

    critics: int = 10
    target_subset: int = 2
    penalised_critics: int = 2
    subset_with_replacement: bool = True
    shared_head: bool = True
    critic_layer_norm: bool = True
    policy_layer_norm: bool = True
    output_gain: float = 2.0**0.5
    last_hidden_gain: float = 0.01
    log_std_scalars: bool = False
    log_std_range: tuple[float, float] = (math.log(1e-5), math.log(10.0))
    critic_steps_online: int = 4
    critic_loss: Literal["sum", "mean"] = "mean"
    policy_on_all: bool = True
    step_when_idle: bool = True
    temperature_form: Literal["logarithm", "exponential", "softplus"] = "softplus"
    temperature_states: Literal["current", "next"] = "next"
    backup_actions_online: int = 1
    conservative_online: bool = False
    conservative_weight: float = 1.0
    dual_start: float = SOFTPLUS_ONE
    dual_form: Literal["exponential", "softplus"] = "softplus"
    dual_draws: Literal["shared", "own"] = "own"


SETS = {
    "mixing": 0.0,
    "update_ratio": 4,
    "warmup_steps": 5_000,
    "warmup_actions": "policy",
}

# What its code base has otherwise in every method, Cal-QL too.
PORT = own_defaults(
    WSRL,
    "subset_with_replacement",
    "shared_head",
    "output_gain",
    "last_hidden_gain",
    "log_std_scalars",
    "log_std_range",
    "critic_loss",
    "temperature_form",
    "temperature_states",
    "conservative_weight",
    "dual_start",
    "dual_form",
    "dual_draws",
)

METHODS = {
    "wsrl": Entry(
        "Cal-QL, warm-up, then SAC without the offline data",
        WSRL,
        ActorCritic,
        sets=SETS,
        on={
            "antmaze": {"backup_actions_online": 10, "conservative_weight": 1.0, "state_dependent_std": False},
            "kitchen": {"offline_updates": 250_000, "last_hidden_gain": 2.0**0.5},
            "locomotion": {"offline_updates": 250_000, "calibrate": False},
            **OWN_WEIGHT,
            "point-maze": {"backup_actions_online": 4, "warmup_steps": 500},
        },
        rewards={"kitchen": RewardRule(shift=-4.0, infinite_tail=True)},  # a cost for what is still to do
        largest_return=OWN_LARGEST_RETURN,
        smoke=SMOKE,
        compared=Compared(
            (0.5, 1.0),
            "pre-trained, then on new data alone",
            {"batch_size": 64, "critics": 3, "sampled_actions": 2, "offline_updates": 3_000},
        ),
        place=16,
        title="WSRL",
    )
}
