"""What a task is: a description that the engine reads, never a branch in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import gymnasium
import numpy as np

from calql.data import Dataset


@dataclass(frozen=True)
class EpisodeSummary:
    """What an evaluation episode came to, in the environment's own rewards."""

    total: float  # undiscounted sum of rewards
    last_reward: float
    length: int
    success: bool  # info["success"] (or "is_success") was true at any step


Score = Callable[[Sequence[EpisodeSummary]], float]


def success_rate(episodes: Sequence[EpisodeSummary]) -> float:
    return float(np.mean([e.success for e in episodes]))


def final_reward_share(most: float) -> Score:
    """Mean reward of the last step over the most it can be (kitchen: solved tasks over 4)."""

    def score(episodes: Sequence[EpisodeSummary]) -> float:
        return float(np.mean([e.last_reward for e in episodes])) / most

    return score


def normalised_return(low: float, high: float) -> Score:
    """Mean return, 0 at `low` (random in D4RL) and 1 at `high` (expert)."""

    def score(episodes: Sequence[EpisodeSummary]) -> float:
        return (float(np.mean([e.total for e in episodes])) - low) / (high - low)

    return score


@dataclass(frozen=True)
class RewardRule:
    """How recorded rewards become training rewards, and what a return-to-go makes of them."""

    scale: float = 1.0
    shift: float = 0.0
    failure: float | None = None  # recorded reward of a step without success, where rewards are sparse
    failure_test: Literal["all", "last"] = "all"  # an episode has failed if all its rewards say so (CORL: its last)
    infinite_tail: bool = False  # the last reward of an unfinished episode is received for ever
    by_return_range: bool = False  # the scale is still to be divided by the range of logged returns
    logged_only: bool = False  # collected steps keep the environment's rewards

    def map(self, rewards: np.ndarray) -> np.ndarray:
        """r' = scale * r + shift."""
        return (np.asarray(rewards, np.float32) * np.float32(self.scale) + np.float32(self.shift)).astype(np.float32)

    def fitted(self, data: Dataset) -> RewardRule:
        """The rule for these data: a scale by the range of their returns becomes a number."""
        if not self.by_return_range:
            return self
        returns = np.add.reduceat(data.rewards.astype(np.float64), data.episode_starts)
        spread = float(np.ptp(returns)) or 1.0
        return replace(self, scale=self.scale / spread, by_return_range=False)

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


def penalties(pair: tuple[float, float]) -> dict[str, float]:
    """ReBRAC's two weights, which are tuned per dataset, as its options."""
    return dict(zip(("policy_penalty", "target_penalty"), pair, strict=True))


@dataclass(frozen=True)
class Protocol:
    """How long a run is and how it is measured; the paper's numbers for the task."""

    offline_updates: int
    online_steps: int
    evaluate_offline_every: int  # gradient steps
    evaluate_online_every: int  # environment steps
    evaluation_episodes: int = 20
    mixing: float = 0.5  # offline share of an online batch; -1: pooled
    update_ratio: int = 1  # gradient steps per environment step


@dataclass(frozen=True)
class Task:
    """One benchmark by name: environment, data, score, and the numbers that go with them."""

    name: str
    domain: str
    summary: str  # one line, for `calql tasks`
    make_env: Callable[[], gymnasium.Env[Any, Any]]  # picklable; reset(seed=...) must determine the episode
    load_data: Callable[[], Dataset]  # cached or built on the spot; recorded rewards
    episode_limit: int
    score: Score
    rewards: RewardRule
    protocol: Protocol
    reference: str = "monte-carlo"
    held_out_data: Callable[[], Dataset] | None = None  # logged like the data but never trained on
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # method ("*": all) -> its options here
    method_rewards: Mapping[str, RewardRule] = field(default_factory=dict)  # where authors map otherwise
    trial: Callable[[gymnasium.Env[Any, Any] | None], tuple[Score, str]] | None = (
        None  # the score that driving it shows
    )
    stepping: Literal["in-process", "workers"] = "in-process"  # where environments of this cost step fastest
