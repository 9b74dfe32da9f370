"""The bodies of D4RL's locomotion sets, as they were when the sets were recorded.

Gymnasium's v4 classes, not v5: against D4RL's recordings v4 gives the alive bonus of the last, falling
step (v5 does not: off by 1) and has the old friction of the walker's feet.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.envs.mujoco.half_cheetah_v4 import HalfCheetahEnv
from gymnasium.envs.mujoco.hopper_v4 import HopperEnv
from gymnasium.envs.mujoco.walker2d_v4 import Walker2dEnv
from gymnasium.wrappers import TimeLimit

from calql.errors import unknown

EPISODE_LIMIT = 1000
BODIES = {"halfcheetah": "HalfCheetah-v4", "hopper": "Hopper-v4", "walker2d": "Walker2d-v4"}
_CLASSES: dict[str, type[gymnasium.Env[Any, Any]]] = {
    "halfcheetah": HalfCheetahEnv,
    "hopper": HopperEnv,
    "walker2d": Walker2dEnv,
}


def make(body: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """The body's environment, cut at 1000 steps, without Gymnasium's checking wrappers."""
    if body not in _CLASSES:
        raise unknown("body", body, _CLASSES)
    return TimeLimit(_CLASSES[body](render_mode=render_mode), EPISODE_LIMIT)  # type: ignore[call-arg]
