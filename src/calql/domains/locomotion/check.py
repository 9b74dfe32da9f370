"""Whether a recording is of one of the running bodies: its steps, rewards and falls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.domains.checks import Certifier, Check, Recording, one_step_drift, spread_rows
from calql.domains.locomotion.data import RECIPES
from calql.domains.locomotion.env import BODIES, Runner

MOST_STEPS = 4000
CLIPPED = 9.999  # hopper's and walker's recorded velocities stop at 10: such a state is not known
SHAPES = {"halfcheetah": ((17,), (6,)), "hopper": ((11,), (3,)), "walker2d": ((17,), (6,))}


def check(body: str, recording: Recording) -> Sequence[Check]:
    dataset = recording.dataset
    env = Runner(body)
    positions = env.model.nq - 1  # x is not observed, and nothing depends on it

    def predict(observation: NDArray[Any], action: NDArray[Any]) -> tuple[NDArray[Any], float, bool]:
        state = np.concatenate([[0.0], observation.astype(np.float64)])
        env.set_state(state[: positions + 1], state[positions + 1 :])
        following, reward, terminated, _, _ = env.step(action)
        return following, float(reward), bool(terminated)

    env.reset(seed=0)
    rows = spread_rows(len(dataset), MOST_STEPS)
    if body != "halfcheetah":
        rows = rows[np.abs(dataset.observations[rows, positions:]).max(axis=1) < CLIPPED]
    drift = one_step_drift(dataset, predict, rows)
    position = drift.state[:, :positions].max(axis=1)
    change = np.abs(dataset.next_observations - dataset.observations)[rows, positions:].max(axis=1)
    velocity = _median(drift.state[:, positions:].max(axis=1)) / (_median(change) + 1e-9)
    return [
        Check("one-step error of positions and angles, median", _median(position), 0.01),
        Check("one-step error of velocities over their change, medians", velocity, 0.15),
        Check("reward error, median", _median(drift.reward), 0.02, detail=f"95%: {_high(drift.reward)}"),
        Check("share of steps that end as recorded", float(drift.terminal.mean()), 0.95, at_least=True),
    ]


def _median(error: NDArray[Any]) -> float:
    return float(np.median(error)) if error.size else float("nan")


def _high(error: NDArray[Any]) -> str:
    return f"{np.quantile(error, 0.95):.4f}" if error.size else "none"


CERTIFIERS = {
    name: Certifier(*SHAPES[body], partial(check, body)) for body in BODIES for name in RECIPES if name.startswith(body)
}
