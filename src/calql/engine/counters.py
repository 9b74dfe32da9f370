"""Progress counters of each seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.rewards import EpisodeSummary

Counts = NDArray[np.int64]
Seeds = NDArray[np.bool_]  # which seeds


@dataclass
class Counters:
    """Every field [seed]. With the options they decide what a seed does next, whatever the others do."""

    env_steps: Counts
    gradient_steps: Counts
    episodes: Counts  # collected
    debt: Counts  # gradient steps earned by collected steps and not done yet
    evaluations: Counts
    evaluated_at: Counts  # env_steps // interval at the last evaluation
    online_scores: NDArray[np.float64]  # sum over online evaluations of 1 - score
    online_evaluations: Counts
    collected_return: NDArray[np.float64]  # sums since the last evaluation
    collected_success: NDArray[np.float64]
    collected_episodes: Counts

    @classmethod
    def zeros(cls, seeds: int) -> Counters:
        sums = {"online_scores", "collected_return", "collected_success"}
        kinds: dict[str, Any] = {f.name: np.float64 if f.name in sums else np.int64 for f in fields(cls)}
        return cls(**{name: np.zeros(seeds, kind) for name, kind in kinds.items()})

    def collected(self, index: int, summary: EpisodeSummary) -> None:
        """Note that an episode of one seed has ended; its steps are counted on their own."""
        self.episodes[index] += 1
        self.collected_episodes[index] += 1
        self.collected_return[index] += summary.total
        self.collected_success[index] += summary.success

    def reset_collected(self, who: Seeds) -> None:
        for sums in (self.collected_return, self.collected_success, self.collected_episodes):
            sums[who] = 0

    def pack(self) -> dict[str, NDArray[Any]]:
        return {f"counters/{name}": value for name, value in vars(self).items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name, value in vars(self).items():
            value[:] = arrays[f"counters/{name}"]
