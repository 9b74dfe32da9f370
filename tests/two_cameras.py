"""A tiny arm seen by two cameras of different size and felt by its joint: an environment with Dict observations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LIMIT = 6
FRONT, WRIST = (12, 16, 3), (8, 8)  # the wrist sees one colour, without an axis for it
NAMES = ("front", "wrist", "state")
NAME = "TwoCameras-v0"


class TwoCameras(gymnasium.Env[Any, Any]):
    """Bring x to the goal. The front camera shows both, the wrist how far it is, the state x and the last action."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Dict(
            {
                "state": spaces.Box(-np.inf, np.inf, (2,), np.float32),
                "wrist": spaces.Box(0, 255, WRIST, np.uint8),
                "front": spaces.Box(0, 255, FRONT, np.uint8),
                "clock": spaces.Box(0, LIMIT, (), np.float32),  # that nobody asks for
            }
        )
        self.action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.goal = (float(each) for each in self.np_random.uniform(-0.9, 0.9, 2))
        self.last, self.time = 0.0, 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.last = float(action[0])
        self.x, self.time = float(np.clip(self.x + 0.2 * self.last, -1.0, 1.0)), self.time + 1
        there = abs(self.x - self.goal) < 0.15
        return self.seen(), float(there), there, self.time >= LIMIT, {"success": there}

    def seen(self) -> dict[str, Any]:
        front = np.zeros(FRONT, np.uint8)
        front[:6, round((self.x + 1.0) * 7.5), 0] = 255
        front[6:, round((self.goal + 1.0) * 7.5), 1] = 255
        wrist = np.full(WRIST, round(127.5 + 60.0 * (self.goal - self.x)), np.uint8)
        state = np.array([100.0 + 10.0 * self.x, self.last], np.float32)
        return {"state": state, "wrist": wrist, "front": front, "clock": np.array(self.time, np.float32)}

    def render(self) -> Any:
        return self.seen()["front"]


class Blind(TwoCameras):
    """Its joint is no number after the first step."""

    def seen(self) -> dict[str, Any]:
        found = super().seen()
        return found | {"state": np.array([100.0, np.nan if self.time else 0.0], np.float32)}


class OneEye(TwoCameras):
    """Without the wrist's camera."""

    def __init__(self) -> None:
        super().__init__()
        parts = self.observation_space.spaces  # type: ignore[attr-defined]
        self.observation_space = spaces.Dict({name: part for name, part in parts.items() if name != "wrist"})


def steps(episodes: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of logged steps under D4RL's names, parts of observations as `observations/NAME`."""
    env, rng = TwoCameras(), np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {}
    for episode in range(episodes):
        seen, over = env.reset(seed=episode)[0], False
        while not over:
            action = np.clip(env.goal - env.x + rng.normal(0.0, 0.7, 1), -2.0, 2.0).astype(np.float32)
            after, reward, terminated, truncated, _ = env.step(action)
            row = {f"observations/{name}": part for name, part in seen.items()}
            row |= {f"next_observations/{name}": part for name, part in after.items()}
            row |= {"actions": action, "rewards": reward, "terminals": terminated, "timeouts": truncated}
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
            seen, over = after, terminated or truncated
    return {name: np.array(values) for name, values in columns.items()}


gymnasium.register(NAME, TwoCameras, max_episode_steps=LIMIT)
