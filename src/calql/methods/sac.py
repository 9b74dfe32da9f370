"""SAC (Haarnoja et al., 2018), alone and with offline data: the learner without its regulariser."""

from __future__ import annotations

from dataclasses import dataclass

from calql.methods.discrete_learner import DiscreteActorCritic
from calql.methods.entry import Compared, Entry
from calql.methods.learner import ActorCritic
from calql.methods.learner_options import SMOKE, ActorCriticOptions
from calql.system.options import POOLED


@dataclass(frozen=True)
class SAC(ActorCriticOptions):
    """Soft actor-critic from scratch, with the other options of CQL as in the paper's comparison."""

    conservative: bool = False
    calibrate: bool = False


# What sets the three apart is where their batches come from. Nothing is trained before the first step.
METHODS = {
    "sac": Entry(
        "SAC from scratch, on what it collects alone",
        SAC,
        ActorCritic,
        discrete=DiscreteActorCritic,
        sets={"offline_updates": 0, "mixing": 0.0},
        update_cost=0.5,
        smoke=SMOKE,
        compared=Compared(
            (0.0, 0.3), "its own noise seldom finds the reward within the budget: one seed of four at most"
        ),
        place=5,
        title="SAC",
    ),
    "sac-offline": Entry(
        "SAC from scratch, offline data pooled in",
        SAC,
        ActorCritic,
        discrete=DiscreteActorCritic,
        sets={"offline_updates": 0, "mixing": POOLED},
        update_cost=0.5,
        smoke=SMOKE,
        compared=Compared((0.25, 1.0), "logged rewards make up most of the pool: clearly above SAC without them"),
        place=6,
        title="SAC+od",
    ),
    "hybrid": Entry(
        "SAC from scratch, a fixed share of offline data",
        SAC,
        ActorCritic,
        discrete=DiscreteActorCritic,
        sets={"offline_updates": 0},  # the task's mixing
        update_cost=0.5,
        smoke=SMOKE,
        compared=Compared((0.5, 1.0), "half of each batch holds logged successes"),
        place=7,
        title="Hybrid RL",
    ),
}
