"""How good a fitted reference value is: its error on whole episodes that the fit never saw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset, return_to_go
from calql.methods.reference.base import Fit, MonteCarlo, Values, over_episodes

SHARE = 0.1  # of the episodes
MOST_ROWS = 50_000  # that an error is measured on
NEGLIGIBLE = 0.01  # weight of what came after the recording stopped, below which a return counts as whole
BIAS = 0.1  # of the standard deviation of returns: a mean error that is worth saying
SURE = 2.0  # and in standard errors over episodes


@dataclass(frozen=True)
class Returns:
    """What logged steps came to, and how much of that lies beyond the end of the recording. All [row]."""

    until_end: NDArray[np.float64]  # discounted rewards, without the last one where the recording only stopped
    tail: NDArray[np.float64]  # weight of the value of the episode's last step; 0 where it ended terminal
    last: NDArray[np.int64]  # the row of that step

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Rows whose return hardly depends on what was not recorded any more."""
        return self.tail <= NEGLIGIBLE

    def completed(self, values: Values) -> NDArray[np.float64]:
        """Returns whose missing tails are the values given to the last steps."""
        return self.until_end + self.tail * values[self.last]


def returns_of(fit: Fit) -> Returns:
    """Monte-Carlo returns, cut off before the last step of an episode that was only truncated."""
    data = fit.data
    rewards = fit.rewards.map(data.rewards)
    rewards[data.truncated & ~data.terminals] = 0.0
    until_end = [return_to_go(rewards[rows], data.terminals[rows], fit.discount) for rows in data.episodes()]
    ends = np.repeat(data.episode_ends, data.episode_lengths)
    tail = np.where(data.terminals[ends], 0.0, fit.discount ** (ends - np.arange(len(data))).astype(np.float64))
    return Returns(np.concatenate(until_end).astype(np.float64), tail, ends)


def hold_out(fit: Fit) -> tuple[Dataset, Dataset | None]:
    """The data without some whole episodes, and these; None where there are too few episodes to spare any."""
    count = len(fit.data.episode_ends)
    if count < 2:
        return fit.data, None
    average = len(fit.data) / count
    wanted = max(1, round(min(SHARE * count, MOST_ROWS / average)))
    return fit.data.split(wanted / count, seed=fit.seed)


@dataclass(frozen=True)
class Quality:
    """A reference value beside the Monte-Carlo returns of held-out episodes, at steps whose returns are whole."""

    error: float  # root of the mean square
    bias: float  # mean
    uncertainty: float  # standard error of the bias over episodes
    spread: float  # standard deviation of the returns
    steps: int
    episodes: int

    @property
    def sentence(self) -> str:
        return (
            f"at {self.steps:,} steps of {self.episodes:,} held-out episodes it differs from Monte-Carlo returns by "
            f"{self.error:.3g} (root mean square; their standard deviation is {self.spread:.3g}), by {self.bias:+.3g} "
            "on average"
        )

    @property
    def faults(self) -> list[str]:
        """What is wrong with it, in words; empty where it is good."""
        found = []
        if self.error >= self.spread:
            found.append("its error is not below that of a constant")
        if abs(self.bias) > max(BIAS * self.spread, SURE * self.uncertainty):
            found.append(f"it is too {'high' if self.bias > 0 else 'low'} by {abs(self.bias):.3g} on average")
        return found


def quality(fit: Fit, values: Values) -> Quality | None:
    """How far the values of these episodes are from what they came to; None where no return is whole."""
    whole = returns_of(fit).whole
    if not whole.any():
        return None
    returns = over_episodes(MonteCarlo(fit.rewards, fit.discount), fit).astype(np.float64)
    error = (values - returns)[whole]
    episode = np.repeat(np.arange(len(fit.data.episode_ends)), fit.data.episode_lengths)[whole]
    sums = np.bincount(episode, error - error.mean())
    return Quality(
        error=float(np.sqrt(np.mean(error**2))),
        bias=float(error.mean()),
        uncertainty=float(np.sqrt(np.sum(sums**2)) / len(error)),
        spread=float(returns[whole].std()),
        steps=len(error),
        episodes=len(np.unique(episode)),
    )
