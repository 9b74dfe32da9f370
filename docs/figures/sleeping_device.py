"""How well the engine keeps a device busy, without one: updates and environment steps only sleep.

python docs/figures/sleeping_device.py [SEEDS]

An update of all seeds takes as long as the pen's on an H200, a step about as long as the pen's on two cores, and
episodes are as short as its own. Policies are as large as the pen's, and travel to worker processes as they do there.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium
import jax
import numpy as np

import calql
from calql.data import Dataset
from calql.engine.program import Learning, Program
from calql.engine.replay import Replay
from calql.results.metrics import read_rows

UPDATE_S, STEP_S, STEPS = 0.00165, 0.00075, 36.0
OBSERVATION, ACTION, ROWS = 45, 24, 500


class Sleeping(gymnasium.Env[np.ndarray, np.ndarray]):
    """Shows nothing, and ends after 8 to 100 steps, 36 or so on average."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (OBSERVATION,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTION,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(np.clip(self.np_random.gamma(4.0, STEPS / 4.0), 8, 100))
        return np.zeros(OBSERVATION, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(STEP_S)
        self.left -= 1
        return np.zeros(OBSERVATION, np.float32), 0.0, self.left == 0, False, {}


def sleep(
    _: Program,
    learning: Learning,
    logged: Any,
    replay: Replay,
    keys: Any,
    share: Any,
    due: Any,
    *rest: Any,
    **options: Any,
) -> Learning:
    """In place of updates; holds up who gives them, as a GPU does."""
    jax.block_until_ready((learning.updates, replay.inserted))
    time.sleep(UPDATE_S * int(np.max(due)))
    return learning._replace(updates=learning.updates + np.asarray(due), counts=learning.counts + np.asarray(due))


def main(seeds: int) -> None:
    rng = np.random.default_rng(0)
    data = Dataset(
        observations=rng.uniform(-1.0, 1.0, (ROWS, OBSERVATION)).astype(np.float32),
        actions=rng.uniform(-0.9, 0.9, (ROWS, ACTION)).astype(np.float32),
        rewards=np.zeros(ROWS, np.float32),
        next_observations=rng.uniform(-1.0, 1.0, (ROWS, OBSERVATION)).astype(np.float32),
        terminals=np.arange(ROWS) % 50 == 49,
        truncated=np.zeros(ROWS, bool),
        source="noise",
    )
    small = {"critic_widths": (8,), "batch_size": 8, "sampled_actions": 2, "backup_actions": 2}
    phases = {"offline_updates": 10, "online_steps": 4_000, "evaluate_online_every": 100_000, "evaluation_episodes": 1}
    engine = {"seeds": seeds, "workers": seeds, "lag": 1, "capacity": 10_000, "checkpoint_minutes": 100.0}
    with tempfile.TemporaryDirectory() as place, mock.patch.object(Program, "train", sleep):
        options = small | phases | engine | {"policy_widths": (512, 512), "episode_limit": 100}
        outcome = calql.train(dataset=data, env=Sleeping, out=Path(place) / "run", **options)
        last = read_rows(outcome.folder / "speed.jsonl")[-1]
    share = 1.0 - last["device_wait_share"]
    print(f"{last['updates_per_s'] * share:.0f} updates/s of the clock, waits {100 * (1 - share):.0f}%, {last}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
