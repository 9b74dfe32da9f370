"""SAC (Haarnoja et al., 2018), alone and with offline data: the learner without its regulariser."""

from __future__ import annotations

from dataclasses import dataclass

from calql.methods.learner_options import ActorCriticOptions


@dataclass(frozen=True)
class SAC(ActorCriticOptions):
    """Soft actor-critic from scratch, with the other options of CQL as in the paper's comparison."""

    conservative: bool = False
    calibrate: bool = False


# What sets the three apart is where their batches come from. Nothing is trained before the first step.
ONLINE_ONLY = {"offline_updates": 0, "mixing": 0.0}
POOLED = {"offline_updates": 0, "mixing": -1.0}
FIXED_SHARE = {"offline_updates": 0}  # the task's mixing
