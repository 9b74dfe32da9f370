"""An environment of one's own, as a user would bring it: `corridor:Corridor-v0`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from calql.data import Dataset, write_npz


class Corridor(gymnasium.Env[np.ndarray, np.ndarray]):
    """Walk from about 0 to beyond 3, a step of at most 0.5 with an action of at most 2; reward 1 at the end."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = float(self.np_random.uniform(-0.5, 0.5))
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.at += 0.25 * float(action[0])
        reached = self.at > 3.0
        return self._seen(), float(reached), reached, False, {"success": reached}

    def _seen(self) -> np.ndarray:
        return np.array([self.at, 1.0], np.float32)


class Broken(Corridor):
    """Raises after a few steps."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        raise RuntimeError("the motor is off")


gymnasium.register("Corridor-v0", entry_point=Corridor, max_episode_steps=20)
gymnasium.register("Broken-v0", entry_point=Broken, max_episode_steps=20)


def demonstrations(episodes: int = 12) -> Dataset:
    """Walks to the end, with noise."""
    env, rng = Corridor(), np.random.default_rng(0)
    rows: list[tuple[Any, ...]] = []
    for episode in range(episodes):
        seen, _ = env.reset(seed=episode)
        reached = False
        while not reached:
            action = np.clip(rng.normal(1.2, 0.5, 1), -1.9, 1.9).astype(np.float32)
            following, reward, reached, *_ = env.step(action)
            rows.append((seen, action, reward, following, reached))
            seen = following
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Dataset(
        observations=columns[0],
        actions=columns[1],
        rewards=columns[2].astype(np.float32),
        next_observations=columns[3],
        terminals=columns[4],
        truncated=np.zeros(len(rows), bool),
        source="corridor",
    )


def write_demonstrations(folder: Path) -> Path:
    return write_npz(demonstrations(), folder / "corridor.npz")
