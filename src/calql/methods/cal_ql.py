"""Cal-QL (Nakamoto et al., 2023) and CQL (Kumar et al., 2020): one learner, one flag apart."""

from __future__ import annotations

from dataclasses import dataclass

from calql.methods.discrete_learner import DiscreteActorCritic
from calql.methods.entry import Entry
from calql.methods.learner import ActorCritic
from calql.methods.learner_options import ActorCriticOptions


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


METHODS = {
    "cal-ql": Entry(
        "CQL, calibrated: Q is never pushed below the reference value",
        CalQL,
        ActorCritic,
        discrete=DiscreteActorCritic,
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
        place=2,
        title="Cal-QL at 20 updates",
    ),
    "cql": Entry(
        "conservative Q-learning: the same learner with calibration off",
        CQL,
        ActorCritic,
        discrete=DiscreteActorCritic,
        place=3,
        title="CQL",
    ),
    "cql-sac": Entry(
        "CQL offline, SAC online on the same mixture",
        CQLThenSAC,
        ActorCritic,
        discrete=DiscreteActorCritic,
        place=4,
        title="CQL+SAC",
    ),
}
