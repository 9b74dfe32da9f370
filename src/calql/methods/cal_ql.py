"""Cal-QL (Nakamoto et al., 2023) and CQL (Kumar et al., 2020): one learner, one flag apart."""

from __future__ import annotations

from dataclasses import dataclass

from calql.methods.discrete_learner import DiscreteActorCritic
from calql.methods.entry import Compared, Entry
from calql.methods.learner import ActorCritic
from calql.methods.learner_options import OWN_LARGEST_RETURN, OWN_WEIGHT, SMOKE, ActorCriticOptions


@dataclass(frozen=True)
class CalQL(ActorCriticOptions):
    """Conservative Q-learning whose Q-values are never pushed below the value of the behaviour."""


@dataclass(frozen=True)
class CQL(ActorCriticOptions):
    """The same with calibration off."""

    calibrate: bool = False


@dataclass(frozen=True)
class CQLThenSAC(CQL):
    """CQL offline; online the regulariser is dropped and all else goes on."""

    conservative_online: bool = False


@dataclass(frozen=True)
class CalQLHighRatio(CalQL):
    """Cal-QL with RLPD's critics, which stand 20 online updates a step (section 7.2 of the paper)."""

    critics: int = 10
    target_subset: int = 2
    critic_layer_norm: bool = True
    critic_steps_online: int = 20


# In `calql compare` large ensembles and high update ratios keep their kind at a lower price.
CHEAPER = {
    "batch_size": 64,
    "critics": 3,
    "sampled_actions": 2,
    "critic_steps_online": 10,
    "update_ratio": 10,
    "offline_updates": 2_000,
    "online_steps": 1_000,
    "evaluate_online_every": 500,
}

METHODS = {
    "cal-ql": Entry(
        "CQL, calibrated: Q is never pushed below the reference value",
        CalQL,
        ActorCritic,
        discrete=DiscreteActorCritic,
        on=OWN_WEIGHT,
        largest_return=OWN_LARGEST_RETURN,
        smoke=SMOKE,
        compared=Compared((0.8, 1.0), "pre-trained and calibrated: solves the maze and keeps it"),
        place=1,
        title="Cal-QL",
    ),
    "cal-ql-utd20": Entry(
        "Cal-QL with RLPD's critics, 20 updates a step",
        CalQLHighRatio,
        ActorCritic,
        discrete=DiscreteActorCritic,
        sets={"update_ratio": 20},
        update_cost=3.0,
        small={"online_steps": 5_000},
        on=OWN_WEIGHT,
        largest_return=OWN_LARGEST_RETURN,
        smoke=SMOKE,
        compared=Compared((0.8, 1.0), "the same with fewer steps", CHEAPER),
        place=3,
        title="Cal-QL at 20 updates",
    ),
    "cql": Entry(
        "conservative Q-learning: the same learner with calibration off",
        CQL,
        ActorCritic,
        discrete=DiscreteActorCritic,
        on=OWN_WEIGHT,
        largest_return=OWN_LARGEST_RETURN,
        smoke=SMOKE,
        compared=Compared((0.5, 1.0), "solves it, after unlearning first where data are narrow"),
        place=2,
        title="CQL",
    ),
    "cql-sac": Entry(
        "CQL offline, SAC online on the same mixture",
        CQLThenSAC,
        ActorCritic,
        discrete=DiscreteActorCritic,
        on=OWN_WEIGHT,
        largest_return=OWN_LARGEST_RETURN,
        smoke=SMOKE,
        compared=Compared((0.3, 1.0), "may unlearn when the regulariser goes"),
        place=4,
        title="CQL+SAC",
    ),
}
