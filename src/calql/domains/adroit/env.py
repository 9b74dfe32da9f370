"""Adroit binary: a 24-joint hand that turns a pen, opens a door or relocates a ball, paid -1 or 0.

The hand, its scenes and their reset ranges are gymnasium-robotics' AdroitHand*Sparse-v1. What differs
is the bargain: reward = success - 1, the episode ends at the first success, and pen has 100 steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.domains.common.simulation import Simulation, mujoco, robotics
from calql.system.errors import unknown

Floats = NDArray[np.float32]
State = Mapping[str, NDArray[np.float64]]

SUBSTEPS = 5  # simulator steps of 2 ms per action
DOOR_OPEN = 1.35  # rad
PEN_DISTANCE, PEN_COSINE = 0.075, 0.95
RELOCATE_DISTANCE = 0.1  # m


@dataclass(frozen=True)
class Hand:
    """One of the three scenes: what builds it, how long an episode is, and how it is read."""

    module: str
    simulator: str
    steps: int
    reader: Callable[[Any], Reader]


class Reader(ABC):
    """Reads one scene: observation and success, from arrays that stay where the simulator keeps them.

    gymnasium-robotics reads the same numbers, in the same order; going around its `step` spares
    the look-ups of a dozen names and an inverse-dynamics pass that nobody reads.
    """

    def __init__(self, scene: Any) -> None:
        data = scene.data
        self.qpos, self.qvel = data.qpos, data.qvel
        self.site, self.body = data.site_xpos, data.xpos

    @abstractmethod
    def read(self, out: Floats) -> bool:
        """Fill `out` with the observation and say whether the task is solved."""


class DoorReader(Reader):
    def __init__(self, scene: Any) -> None:
        super().__init__(scene)
        self.hinge = scene.door_hinge_addrs
        self.palm, self.handle = self.site[scene.grasp_site_id], self.site[scene.handle_site_id]

    def read(self, out: Floats) -> bool:
        hinge = self.qpos[self.hinge]
        out[:27] = self.qpos[1:-2]
        out[27] = self.qpos[-1]  # latch
        out[28] = hinge
        out[29:32] = self.palm
        out[32:35] = self.handle
        out[35:38] = self.palm - self.handle
        out[38] = 1.0 if hinge > 1.0 else -1.0
        return bool(hinge >= DOOR_OPEN)


class PenReader(Reader):
    def __init__(self, scene: Any) -> None:
        super().__init__(scene)
        self.scene = scene
        self.pen, self.wanted_position = self.body[scene.obj_body_id], self.site[scene.eps_ball_site_id]
        self.top, self.bottom = self.site[scene.obj_t_site_id], self.site[scene.obj_b_site_id]
        self.wanted_top, self.wanted_bottom = self.site[scene.tar_t_site_id], self.site[scene.tar_b_site_id]

    def read(self, out: Floats) -> bool:
        direction = (self.top - self.bottom) / self.scene.pen_length
        wanted = (self.wanted_top - self.wanted_bottom) / self.scene.tar_length
        offset = self.pen - self.wanted_position
        out[:24] = self.qpos[:-6]
        out[24:27] = self.pen
        out[27:33] = self.qvel[-6:]
        out[33:36] = direction
        out[36:39] = wanted
        out[39:42] = offset
        out[42:45] = direction - wanted
        return bool(np.linalg.norm(offset) < PEN_DISTANCE and direction @ wanted > PEN_COSINE)


class RelocateReader(Reader):
    def __init__(self, scene: Any) -> None:
        super().__init__(scene)
        self.ball, self.palm = self.body[scene.obj_body_id], self.site[scene.S_grasp_site_id]
        self.target = self.site[scene.target_obj_site_id]

    def read(self, out: Floats) -> bool:
        to_target = self.ball - self.target
        out[:30] = self.qpos[:-6]
        out[30:33] = self.palm - self.ball
        out[33:36] = self.palm - self.target
        out[36:39] = to_target
        return bool(np.linalg.norm(to_target) < RELOCATE_DISTANCE)


HANDS: dict[str, Hand] = {
    "pen": Hand("adroit_pen", "AdroitHandPenEnv", 100, PenReader),
    "door": Hand("adroit_door", "AdroitHandDoorEnv", 200, DoorReader),
    "relocate": Hand("adroit_relocate", "AdroitHandRelocateEnv", 200, RelocateReader),
}


def build_scene(hand: Hand, **options: Any) -> Any:
    """The gymnasium-robotics environment itself."""
    return robotics(f"adroit_hand.{hand.module}", hand.simulator, reward_type="sparse", **options)


class AdroitBinary(gymnasium.Env[Floats, Floats]):
    """One Adroit task with the paper's binary reward; `info["success"]` ends the episode.

    `reset(options={"state": ...})` starts from a recorded state (the names of gymnasium-robotics'
    `set_env_state`). With `ends=False` the episode runs on after a success, which is how human
    demonstrations were recorded and how they are replayed.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, task: str, *, ends: bool = True, render_mode: str | None = None) -> None:
        if task not in HANDS:
            raise unknown("Adroit task", task, HANDS)
        hand = HANDS[task]
        self.task, self.ends, self.limit, self.render_mode = task, ends, hand.steps, render_mode
        self.scene = build_scene(hand, render_mode=render_mode)
        self._model, self._data = self.scene.model, self.scene.data
        self.simulation = Simulation(self._model, self._data, SUBSTEPS)
        self._model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_SENSOR)  # read by nobody
        self._read = hand.reader(self.scene).read
        self._at_rest = [a.copy() for a in self._placements()]
        self._ctrl, self._middle, self._range = self._data.ctrl, self.scene.act_mean, self.scene.act_rng
        self._steps = 0
        shape = self.scene.observation_space.shape
        self.observation_space = spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, self.scene.action_space.shape, np.float32)
        self._observation = np.empty(shape, np.float32)

    def _placements(self) -> tuple[NDArray[np.float64], ...]:
        """Where the scene keeps what a reset moves; a recorded state moves more of it than a reset puts back."""
        return self._model.body_pos, self._model.body_quat, self._model.site_pos

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        for now, then in zip(self._placements(), self._at_rest, strict=True):
            now[:] = then
        self.scene.reset(seed=seed)
        if options and "state" in options:
            mujoco.mj_resetData(self._model, self._data)  # else the solver starts from the random placement
            self.scene.set_env_state(dict(options["state"]))
        self._steps = 0
        success = self._read(self._observation)
        return self._observation.copy(), {"success": success}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        # float64 from here on, as gymnasium-robotics has it: in float32 the control differs in its last bits
        self._ctrl[:] = self._middle + np.clip(action, -1.0, 1.0) * self._range
        mujoco.mj_step(self._model, self._data, nstep=SUBSTEPS)
        self._steps += 1
        success = self._read(self._observation)
        terminated = success and self.ends
        truncated = not terminated and self._steps >= self.limit
        return self._observation.copy(), float(success) - 1.0, terminated, truncated, {"success": success}

    def state(self) -> dict[str, NDArray[np.float64]]:
        """The full state, as `reset(options={"state": ...})` takes it."""
        return {k: v for k, v in self.scene.get_env_state().items() if k in self.scene._state_space.spaces}

    def render(self) -> Any:
        return self.scene.render()

    def close(self) -> None:
        self.scene.close()
