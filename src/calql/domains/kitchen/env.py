"""Franka kitchen with the paper's reward: at every step, how many of the four tasks were solved so far.

The robot and its kitchen are gymnasium-robotics' FrankaKitchen-v1. The observation is D4RL's (60):
robot joints 9, object joints 21, goal 30 (zero where no task of the four has an entry).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from calql.domains.common.simulation import Simulation, mujoco, robotics
from calql.domains.kitchen.physics import lean_model
from calql.system.errors import unknown

Floats = NDArray[np.float32]

STEPS = 1000
SUBSTEPS = 40  # simulator steps of 2 ms per action
SOLVED_WITHIN = 0.3  # distance of a task's joints to their goal
UNIT = (-1.0, 1.0)
NOISE = 0.1  # D4RL's ratio of observation noise, for the robot and for the objects

# task -> (its entries among the 30 joint positions, where they should be)
GOALS: dict[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
    "bottom burner": ((11, 12), (-0.88, -0.01)),
    "top burner": ((15, 16), (-0.92, -0.01)),
    "light switch": ((17, 18), (-0.69, -0.05)),
    "slide cabinet": ((19,), (0.37,)),
    "hinge cabinet": ((20, 21), (0.0, 1.45)),
    "microwave": ((22,), (-0.75,)),
    "kettle": ((23, 24, 25, 26, 27, 28, 29), (-0.23, 0.75, 1.62, 0.99, 0.0, 0.0, -0.06)),
}

TASK_SETS: dict[str, tuple[str, ...]] = {
    "complete": ("microwave", "kettle", "light switch", "slide cabinet"),
    "partial": ("microwave", "kettle", "light switch", "slide cabinet"),
    "mixed": ("microwave", "kettle", "bottom burner", "light switch"),
}


def goal_vector(tasks: Sequence[str]) -> Floats:
    """The 30 goal entries of an observation: zero except at the joints of the tasks."""
    goal = np.zeros(30, np.float32)
    for task in tasks:
        entries, wanted = GOALS[task]
        goal[list(entries)] = wanted
    return goal


def solved(joints: ArrayLike, tasks: Sequence[str]) -> NDArray[np.bool_]:
    """Which of the tasks are satisfied now: [..., 30] joint positions -> [..., task]."""
    entries, wanted, firsts = _joints_of(tuple(tasks))
    offsets = np.asarray(joints, np.float64)[..., entries] - wanted
    return np.asarray(np.sqrt(np.add.reduceat(offsets * offsets, firsts, axis=-1)) < SOLVED_WITHIN)


@cache
def _joints_of(tasks: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """The joints of all the tasks in a row, where they should be, and where in that row each task begins."""
    entries = [GOALS[task][0] for task in tasks]
    counts = [len(own) for own in entries]
    wanted = np.concatenate([GOALS[task][1] for task in tasks])
    return np.concatenate(entries), wanted, np.cumsum([0, *counts[:-1]])


def _within(values: NDArray[Any], bounds: tuple[Any, Any]) -> NDArray[Any]:
    """np.clip without its overhead."""
    return np.minimum(np.maximum(values, bounds[0]), bounds[1])


def observation_60(v1: NDArray[Any], tasks: Sequence[str]) -> Floats:
    """D4RL's observation from FrankaKitchen-v1's: [..., 59] -> [..., 60]; joint velocities are left out."""
    goal = np.broadcast_to(goal_vector(tasks), (*v1.shape[:-1], 30))
    return np.concatenate([v1[..., 0:9], v1[..., 18:39], goal], axis=-1).astype(np.float32)


class Kitchen(gymnasium.Env[Floats, Floats]):
    """Four tasks of the kitchen; reward 0..4 that never falls, no termination, 1000 steps.

    The step does what FrankaKitchen-v1 does, draw by draw, without the look-ups by name and the
    inverse-dynamics pass that nobody reads. As in the original, an action is a joint velocity that
    starts from the last *observed* position, noise included.

    `reset(options={"state": (qpos, qvel)})` starts from a recorded state.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, kind: str, *, noise: float = NOISE, render_mode: str | None = None) -> None:
        if kind not in TASK_SETS:
            raise unknown("kitchen task set", kind, TASK_SETS)
        self.tasks, self.render_mode = TASK_SETS[kind], render_mode
        self.scene = _build_scene(self.tasks, noise, render_mode)
        if render_mode is None:
            _make_lean(self.scene)
        robot = self.scene.robot_env
        self._model, self._data = self.scene.model, self.scene.data
        self.simulation = Simulation(self._model, self._data, SUBSTEPS)
        self._qpos, self._qvel, self._ctrl = self._data.qpos, self._data.qvel, self._data.ctrl
        self._dt = robot.dt
        self._noise = noise * np.concatenate(
            [
                robot.robot_pos_noise_amp[:9],
                robot.robot_vel_noise_amp[:9],
                robot.robot_pos_noise_amp[8:],
                robot.robot_vel_noise_amp[9:],
            ]
        )
        self._velocity_bounds, self._position_bounds = (
            robot.robot_vel_bound[:9].T,
            robot.robot_pos_bound[:9].T,
        )
        self._solved = np.zeros(len(self.tasks), bool)
        self.seen = np.zeros(59)  # the last observation, noise included: where the next action starts from
        self._observation = np.zeros(60, np.float32)
        self._observation[30:] = goal_vector(self.tasks)
        self._steps = 0
        self.observation_space = spaces.Box(-np.inf, np.inf, (60,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (9,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        self.seen = self.scene.reset(seed=seed)[0]["observation"]
        if options and "state" in options:
            qpos, qvel = options["state"]
            self.scene.robot_env.set_state(np.asarray(qpos, np.float64), np.asarray(qvel, np.float64))
            self._look()
        self._solved[:] = False
        self._steps = 0
        return self._observe(), self._info()

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        velocity = _within(2.0 * _within(action, UNIT), self._velocity_bounds)
        self._ctrl[:] = _within(self.seen[:9] + velocity * self._dt, self._position_bounds)
        mujoco.mj_step(self._model, self._data, nstep=SUBSTEPS)
        self._look()
        self._solved |= solved(self._qpos, self.tasks)
        self._steps += 1
        return self._observe(), float(self._solved.sum()), False, self._steps >= STEPS, self._info()

    def _look(self) -> None:
        """FrankaKitchen-v1's observation: positions and velocities of robot and objects, with noise."""
        joints = (self._qpos[:9], self._qvel[:9], self._qpos[9:], self._qvel[9:])
        draws = self.scene.robot_env.np_random.uniform(-1.0, 1.0, 59)
        self.seen = np.concatenate(joints) + self._noise * draws

    def _observe(self) -> Floats:
        self._observation[:9] = self.seen[:9]
        self._observation[9:30] = self.seen[18:39]
        return self._observation.copy()

    def _info(self) -> dict[str, Any]:
        names = tuple(task for task, done in zip(self.tasks, self._solved, strict=True) if done)
        return {"success": len(names) == len(self.tasks), "solved": names}

    def render(self) -> Any:
        return self.scene.render()

    def close(self) -> None:
        self.scene.close()


def _build_scene(tasks: Sequence[str], noise: float, render_mode: str | None) -> Any:
    """FrankaKitchen-v1 itself."""
    return robotics(
        "franka_kitchen",
        "KitchenEnv",
        tasks_to_complete=list(tasks),
        terminate_on_tasks_completed=False,
        object_noise_ratio=noise,
        robot_noise_ratio=noise,
        render_mode=render_mode,
    )


def _make_lean(scene: Any) -> None:
    """Simulate without what changes no state: the same physics to the bit, in less time."""
    robot = scene.robot_env
    robot.model = scene.model = lean_model(robot.fullpath)
    robot.data = scene.data = mujoco.MjData(robot.model)
    robot.init_qvel = robot.data.qvel
