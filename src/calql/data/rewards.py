"""Rewards: how recorded ones become training rewards, and what an episode of them came to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from calql.data.dataset import Dataset
from calql.data.returns import return_to_go


@dataclass(frozen=True)
class EpisodeSummary:
    """What an evaluation episode came to, in the environment's own rewards."""

    total: float  # undiscounted sum of rewards
    last_reward: float
    length: int
    success: bool  # info["success"] (or "is_success") was true at any step


@dataclass(frozen=True)
class RewardRule:
    """How recorded rewards become training rewards, and what a return-to-go makes of them."""

    scale: float = 1.0
    shift: float = 0.0
    failure: float | None = None  # recorded reward of a step without success, where rewards are sparse
    failure_test: Literal["all", "last"] = "all"  # an episode has failed if all its rewards say so (CORL: its last)
    infinite_tail: bool = False  # the last reward of an unfinished episode is received for ever
    by_return_range: bool = False  # the scale is still to be divided by the range of logged returns
    largest_return: float | None = None  # the scale is still to be chosen, so that this is the largest logged return
    logged_only: bool = False  # collected steps keep the environment's rewards

    def map(self, rewards: np.ndarray) -> np.ndarray:
        """r' = scale * r + shift."""
        return (np.asarray(rewards, np.float32) * np.float32(self.scale) + np.float32(self.shift)).astype(np.float32)

    def fitted(self, data: Dataset, discount: float) -> RewardRule:
        """The rule for these data: a scale by the size of their returns becomes a number."""
        if self.largest_return is not None:
            size = float(np.abs(self._returns_to_go(data, discount)).max())
            return replace(self, scale=self.largest_return / size if size else 1.0, largest_return=None)
        if not self.by_return_range:
            return self
        returns = np.add.reduceat(data.rewards.astype(np.float64), data.episode_starts)
        spread = float(np.ptp(returns)) or 1.0
        return replace(self, scale=self.scale / spread, by_return_range=False)

    def _returns_to_go(self, data: Dataset, discount: float) -> np.ndarray:
        """Of every logged step, in recorded rewards."""

        def one(rows: slice) -> np.ndarray:
            rewards, terminals = data.rewards[rows], data.terminals[rows]
            return return_to_go(
                rewards, terminals, discount, sparse_failure_reward=self.failure, infinite_tail=self.infinite_tail
            )

        return np.concatenate([one(rows) for rows in data.episodes()])

    @property
    def collected(self) -> RewardRule:
        """The rule for steps taken online."""
        return replace(self, scale=1.0, shift=0.0) if self.logged_only else self

    @property
    def mapped_failure(self) -> float | None:
        if self.failure is None:
            return None
        return float(self.map(np.asarray(self.failure)))


PER_STEP = RewardRule(shift=-1.0, failure=0.0)  # 0 and 1 as a cost of 1 a step until success
