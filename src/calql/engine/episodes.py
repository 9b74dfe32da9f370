"""An episode by its numbers, and what was seen in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.rewards import EpisodeSummary

COLLECT, EVALUATE, AFRESH = 0, 1, 2  # purposes of an episode
NAMES = {COLLECT: ("collected episode",), EVALUATE: ("evaluation", "episode"), AFRESH: ("fresh episode",)}


@dataclass(frozen=True)
class Request:
    """One episode: the numbers that decide its start and its noise."""

    entropy: tuple[int, ...]  # seed of the run, purpose, then its number; in an evaluation that of the episode too
    random: bool = False  # uniform actions in place of the policy's

    @property
    def name(self) -> str:
        """As it is told to people."""
        seed, purpose, *numbers = self.entropy
        parts = (f"{what} {number}" for what, number in zip(NAMES[purpose], numbers, strict=True))
        return ", ".join((f"seed {seed}", *parts))

    @property
    def env_seed(self) -> int:
        return int(np.random.SeedSequence(self.entropy).generate_state(1)[0])

    @property
    def key_words(self) -> NDArray[np.uint32]:
        """The key from which the noise of its actions follows."""
        return np.random.SeedSequence(self.entropy).generate_state(2).astype(np.uint32)

    def uniform_action(self, timestep: int, dim: int, allowed: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
        """What is done at a step in place of the policy's action; of discrete ones [choice], one of the allowed."""
        rng = np.random.default_rng([*self.entropy, timestep])
        if allowed is None:
            return rng.uniform(-1.0, 1.0, dim).astype(np.float32)
        return np.eye(dim, dtype=np.float32)[rng.choice(np.flatnonzero(allowed))]


@dataclass(frozen=True)
class Episode:
    """What was seen, in the environment's rewards and the policy's actions ([-1, 1], or one-hot)."""

    observations: NDArray[Any]  # [step + 1, ...]
    actions: NDArray[np.float32]  # [step, action]
    rewards: NDArray[np.float64]  # [step]
    terminal: bool
    success: bool
    masks: NDArray[np.bool_] | None = None  # [step + 1, choice], of discrete actions: what was allowed

    def summary(self) -> EpisodeSummary:
        return EpisodeSummary(
            total=float(np.sum(self.rewards)),
            last_reward=float(self.rewards[-1]),
            length=len(self.rewards),
            success=self.success,
        )
