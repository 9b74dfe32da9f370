"""The bodies of D4RL's locomotion sets, as they were when the sets were recorded.

Gymnasium's v4 classes, not v5: against D4RL's recordings v4 gives the alive bonus of the last, falling
step (v5 does not: off by 1) and has the old friction of the walker's feet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.domains.common.simulation import Simulation, locomotion, mujoco
from calql.system.errors import unknown

Floats = NDArray[np.float64]

EPISODE_LIMIT = 1000
BODIES = {"halfcheetah": "HalfCheetah-v4", "hopper": "Hopper-v4", "walker2d": "Walker2d-v4"}


@dataclass(frozen=True)
class Rules:
    """What a body is paid besides its speed, what is seen of it, and until when it stands."""

    scene: Callable[..., Any]  # makes Gymnasium's environment
    action_cost: float  # times the sum of squares
    alive: float = 0.0  # paid at every step, the falling one included
    fastest_seen: float = np.inf  # observed velocities stop there
    stands: Callable[[Floats, Floats], bool] = lambda qpos, qvel: True


def hopper_stands(qpos: Floats, qvel: Floats) -> bool:
    _, height, lean = qpos[:3].tolist()
    if not (height > 0.7 and -0.2 < lean < 0.2):
        return False
    return bool(np.abs(qpos[2:]).max() < 100.0 and np.abs(qvel).max() < 100.0)


def walker_stands(qpos: Floats, qvel: Floats) -> bool:
    _, height, lean = qpos[:3].tolist()
    return bool(0.8 < height < 2.0 and -1.0 < lean < 1.0)


RULES: dict[str, Rules] = {
    "halfcheetah": Rules(partial(locomotion, "half_cheetah_v4", "HalfCheetahEnv"), 0.1),
    "hopper": Rules(
        partial(locomotion, "hopper_v4", "HopperEnv"), 1e-3, alive=1.0, fastest_seen=10.0, stands=hopper_stands
    ),
    "walker2d": Rules(
        partial(locomotion, "walker2d_v4", "Walker2dEnv"), 1e-3, alive=1.0, fastest_seen=10.0, stands=walker_stands
    ),
}


class Runner(gymnasium.Env[Floats, NDArray[np.float32]]):
    """Run forward: paid speed, less the action's cost; cut at 1000 steps.

    Model, resets and rewards are Gymnasium's to the bit; its `step` is gone around because a third of
    it is an inverse-dynamics pass that nobody reads and look-ups that give the same every time.
    """

    def __init__(self, body: str, render_mode: str | None = None) -> None:
        if body not in RULES:
            raise unknown("body", body, RULES)
        self.rules, self.render_mode = RULES[body], render_mode
        self.scene = self.rules.scene(render_mode=render_mode)
        self.metadata = self.scene.metadata
        self.observation_space, self.action_space = self.scene.observation_space, self.scene.action_space
        self.model, self.data = self.scene.model, self.scene.data
        self._qpos, self._qvel, self._ctrl = self.data.qpos, self.data.qvel, self.data.ctrl
        self._frames, self._dt = self.scene.frame_skip, self.scene.dt
        self.simulation = Simulation(self.model, self.data, self._frames)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        observation, info = self.scene.reset(seed=seed)
        return observation, info

    def step(self, action: NDArray[np.float32]) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        rules, before = self.rules, self._qpos[0]
        self._ctrl[:] = action
        mujoco.mj_step(self.model, self.data, nstep=self._frames)
        speed = (self._qpos[0] - before) / self._dt
        reward = speed + rules.alive - rules.action_cost * np.add.reduce(np.square(action))
        fallen = not rules.stands(self._qpos, self._qvel)
        self._steps += 1
        return self._observation(), float(reward), fallen, self._steps >= EPISODE_LIMIT, {"x_velocity": speed}

    def set_state(self, qpos: Floats, qvel: Floats) -> None:
        """Put the body into a recorded state."""
        self.scene.set_state(qpos, qvel)

    def _observation(self) -> Floats:
        """Positions without x, then velocities."""
        seen = np.empty(self._qpos.size - 1 + self._qvel.size)
        seen[: self._qpos.size - 1] = self._qpos[1:]
        velocities = seen[self._qpos.size - 1 :]
        np.minimum(self._qvel, self.rules.fastest_seen, out=velocities)
        np.maximum(velocities, -self.rules.fastest_seen, out=velocities)
        return seen

    def render(self) -> Any:
        return self.scene.render()

    def close(self) -> None:
        self.scene.close()
