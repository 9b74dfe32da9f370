"""Cal-QL (Nakamoto et al., 2023) and CQL (Kumar et al., 2020): one learner, one flag apart."""

from __future__ import annotations

from dataclasses import dataclass

from calql.methods.learner import ActorCriticOptions


@dataclass(frozen=True)
class CalQL(ActorCriticOptions):
    """Conservative Q-learning whose Q-values are never pushed below the value of the behaviour."""


@dataclass(frozen=True)
class CQL(ActorCriticOptions):
    """The same with calibration off."""

    calibrate: bool = False
