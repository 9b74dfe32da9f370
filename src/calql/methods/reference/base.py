"""What a reference value is: an estimate of what the behaviour in the data earns from each step on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset, return_to_go
from calql.data.rewards import RewardRule
from calql.data.stored import picked

Values = NDArray[np.float32]


@dataclass(frozen=True)
class Trajectory:
    """One whole trajectory with mapped rewards."""

    observations: NDArray[np.float32] | NDArray[np.uint8]  # [step, ...]
    actions: Values  # [step, action]
    rewards: Values  # [step]
    terminals: NDArray[np.bool_]  # [step]


class Reference(Protocol):
    """Fitted to logged data; afterwards it values any trajectory that has ended."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fit has to say about itself."""
        ...

    def __call__(self, trajectory: Trajectory) -> Values:
        """Reference value of each step [step]."""
        ...


@dataclass(frozen=True)
class Fit:
    """What a reference value is fitted from."""

    data: Dataset  # rewards as recorded
    rewards: RewardRule
    discount: float
    seed: int = 0
    updates: int = 50_000  # most gradient steps, for the ones that are networks
    widths: tuple[int, ...] = (256, 256)
    stream: bool = False  # rows stay where they are, and only those of a batch go to the device

    def trajectory(self, rows: slice) -> Trajectory:
        data = self.data
        return Trajectory(
            picked(data.observations, rows),
            data.actions[rows],
            self.rewards.map(data.rewards[rows]),
            data.terminals[rows],
        )


@dataclass(frozen=True)
class MonteCarlo:
    """The return-to-go that the trajectory itself came to (one sample of the behaviour's value)."""

    rewards: RewardRule
    discount: float
    notes: tuple[str, ...] = ()

    def __call__(self, trajectory: Trajectory) -> Values:
        rewards, failure = trajectory.rewards, self.rewards.mapped_failure
        if self.rewards.failure_test == "last" and failure is not None and rewards[-1] == np.float32(failure):
            rewards = np.full_like(rewards, failure)
        return return_to_go(
            rewards,
            trajectory.terminals,
            self.discount,
            sparse_failure_reward=failure,
            infinite_tail=self.rewards.infinite_tail,
        )


def over_episodes(reference: Reference, fit: Fit) -> Values:
    """The reference value of every logged row."""
    return np.concatenate([reference(fit.trajectory(rows)) for rows in fit.data.episodes()])
