"""Reference values by name: what Q is never pushed below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calql.methods.reference.base import Fit, MonteCarlo, Reference, Trajectory, Values, over_episodes
from calql.methods.reference.networks import fit_regression, fit_sarsa
from calql.system.errors import unknown


@dataclass(frozen=True)
class NoReference:
    """Bounds nothing."""

    notes: tuple[str, ...] = ()

    def __call__(self, trajectory: Trajectory) -> Values:
        return np.full(len(trajectory.rewards), -np.inf, np.float32)


REFERENCES: dict[str, Callable[[Fit], Reference]] = {
    "monte-carlo": lambda fit: MonteCarlo(fit.rewards, fit.discount),
    "regression": fit_regression,
    "sarsa": fit_sarsa,
    "none": lambda fit: NoReference(),
}


def fit_reference(name: str, fit: Fit) -> Reference:
    """The reference value of that name, fitted to the logged data."""
    if name not in REFERENCES:
        raise unknown("reference value", name, REFERENCES)
    return REFERENCES[name](fit)


__all__ = ["REFERENCES", "Fit", "MonteCarlo", "Reference", "Trajectory", "Values", "fit_reference", "over_episodes"]
