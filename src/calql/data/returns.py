"""Discounted return-to-go of one trajectory: the Monte-Carlo estimate of the behaviour's value."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def return_to_go(
    rewards: ArrayLike,
    terminals: ArrayLike,
    discount: float,
    *,
    sparse_failure_reward: float | None = None,
    infinite_tail: bool = False,
) -> NDArray[np.float32]:
    """G_t = r_t + discount (1 - terminal_t) G_{t+1}, for the mapped rewards of one trajectory.

    What follows the last step is worth 0, unless `infinite_tail` says that its reward is received
    for ever. With `sparse_failure_reward`, a trajectory that earned nothing but that reward is a
    failure, and every step of it is worth failing for ever: r / (1 - discount). Cutting such a
    return at the last recorded step would read far too high, and would calibrate Q upwards.
    """
    steps = np.asarray(rewards, np.float32).astype(np.float64)
    goes_on = 1.0 - np.asarray(terminals, np.float64)
    if steps.ndim != 1 or steps.shape != goes_on.shape:
        raise ValueError(f"rewards {steps.shape} and terminals {goes_on.shape} must be one trajectory each")
    if not 0.0 <= discount <= 1.0 or (discount == 1.0 and (infinite_tail or sparse_failure_reward is not None)):
        raise ValueError(f"discount {discount} must be in [0, 1], and below 1 where a reward goes on for ever")
    if steps.size == 0:
        return np.zeros(0, np.float32)
    if sparse_failure_reward is not None and np.all(steps == np.float32(sparse_failure_reward)):
        return np.full(steps.shape, steps[0] / (1.0 - discount), np.float32)
    returns = np.empty_like(steps)
    following = steps[-1] / (1.0 - discount) if infinite_tail else 0.0
    for t in range(steps.size - 1, -1, -1):
        following = steps[t] + discount * goes_on[t] * following
        returns[t] = following
    return returns.astype(np.float32)


def possible_returns(rewards: ArrayLike, terminals: ArrayLike, discount: float) -> tuple[float, float]:
    """Least and largest return that steps like these can add up to, in any order and however long it goes on.

    The reward of a terminal step is received once and nothing after it; that of another step at most for ever. A goal
    that ends the episode with +5 among steps of -5 is worth 5, not 5 / (1 - discount).
    """
    steps, last = np.asarray(rewards, np.float64), np.asarray(terminals, bool)
    worth = np.where(last, steps, steps / (1.0 - discount))
    return float(worth.min()), float(worth.max())
