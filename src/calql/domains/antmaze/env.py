"""An ant in a maze with D4RL's v2 semantics, on plain MuJoCo.

D4RL's ant is weaker and slower than Gymnasium-Robotics' (gear 30 at 0.1 s a step), so only an environment
built like this one continues D4RL's recordings. The model is Gymnasium's ant, edited in memory.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.domains.common.mazes import Square
from calql.domains.common.simulation import Simulation, mujoco
from calql.system.errors import unknown

Point = NDArray[np.float64]  # x, y

CELL = 4.0  # metres
WALL_HEIGHT = 2.0
GOAL_RADIUS = 0.5
TORQUE = 30.0  # of an action of 1
FRAME_SKIP = 5
TIMESTEP = 0.02
GOAL_SPREAD = (1.0, 0.5)  # a goal is its cell's centre + U(0, 1) + U(0, 0.5) in x and in y

# 1: wall, R: start, G: goals that "play" data are collected with.
MAZES: dict[str, tuple[str, ...]] = {
    "umaze": ("11111", "1R001", "11101", "1G001", "11111"),
    "medium": (
        "11111111",
        "1R011001",
        "100100G1",
        "11000111",
        "10010001",
        "1G100101",
        "10001G01",
        "11111111",
    ),
    "large": (
        "111111111111",
        "1R0001G00001",
        "101101010101",
        "10000G0100G1",
        "101111011101",
        "10G101000001",
        "110101010111",
        "1001G0G10G01",
        "111111111111",
    ),
}
EVALUATION_GOALS: dict[str, Square] = {"umaze": (3, 1), "medium": (6, 6), "large": (7, 9)}


def centre(cell: Square) -> Point:
    """Where the middle of a cell is; the start cell (1, 1) is the origin, x grows with the column."""
    row, column = cell
    return np.array([(column - 1) * CELL, (row - 1) * CELL])


def cells(maze: str, kinds: str) -> list[Square]:
    """The cells whose letter is one of `kinds`."""
    return [(r, c) for r, row in enumerate(MAZES[maze]) for c, kind in enumerate(row) if kind in kinds]


def draw_goal(cell: Square, rng: np.random.Generator) -> Point:
    """A goal in a cell, off its centre towards growing x and y as D4RL draws it."""
    noise: Point = sum((rng.uniform(0.0, spread, 2) for spread in GOAL_SPREAD), np.zeros(2))
    return centre(cell) + noise


def middle_goal(maze: str) -> Point:
    """The mean of the goals that evaluation draws; data are labelled against this one point."""
    return centre(EVALUATION_GOALS[maze]) + sum(GOAL_SPREAD) / 2


def reached(xy: NDArray[Any], goal: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether positions [..., 2] are within the goal's radius: reward 1 and the end, else 0."""
    distance: NDArray[np.floating[Any]] = np.linalg.norm(np.asarray(xy) - goal, axis=-1)
    return np.asarray(distance <= GOAL_RADIUS)


@cache
def ant_model(maze: str) -> mujoco.MjModel:
    """Gymnasium's ant with D4RL's time step, contacts and motors, between the maze's walls."""
    if maze not in MAZES:
        raise unknown("maze", maze, MAZES)
    asset = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "ant.xml"
    spec = mujoco.MjSpec.from_file(str(asset))
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    # a tree of bounding boxes over the few walls costs more than it saves; contacts are the same
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    for motor in spec.actuators:
        motor.gear = [1.0, 0, 0, 0, 0, 0]
        motor.ctrlrange = [-TORQUE, TORQUE]
    for row, column in cells(maze, "1"):
        x, y = centre((row, column))
        spec.worldbody.add_geom(
            name=f"wall_{row}_{column}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[x, y, WALL_HEIGHT / 2],
            size=[CELL / 2, CELL / 2, WALL_HEIGHT / 2],
            contype=1,
            conaffinity=1,
            rgba=[0.7, 0.5, 0.3, 1.0],
        )
    for geom in spec.geoms:
        geom.solref = [0.02, 1.0]
        geom.solimp = [0.8, 0.8, 0.01, 0.5, 2.0]
    return spec.compile()


class AntMazeEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Reach the goal cell; the goal moves a little at every reset and is not observed.

    Observation: 15 positions (x, y first) and 14 velocities. Reward 1 and the end within 0.5 m of the
    goal, else 0. `reset(options={"start": xy, "goal": xy})` puts either elsewhere.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 10,
    }

    def __init__(self, maze: str = "medium", *, max_steps: int = 1000, render_mode: str | None = None) -> None:
        self.maze, self.max_steps, self.render_mode = maze, max_steps, render_mode
        self.model = ant_model(maze)
        self.data = mujoco.MjData(self.model)
        self.simulation = Simulation(self.model, self.data, FRAME_SKIP)
        self._qpos, self._qvel, self._ctrl = self.data.qpos, self.data.qvel, self.data.ctrl
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (29,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)
        self.goal = middle_goal(maze)
        self._steps = 0
        self._renderer: mujoco.Renderer | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        chosen = options or {}
        rng = self.np_random
        qpos = self.model.qpos0 + rng.uniform(-0.1, 0.1, self.model.nq)
        qvel = 0.1 * rng.standard_normal(self.model.nv)
        goal = draw_goal(EVALUATION_GOALS[self.maze], rng)
        if "start" in chosen:
            qpos[:2] = chosen["start"]
        self.goal = np.asarray(chosen.get("goal", goal), np.float64)
        self.set_state(qpos, qvel)
        self._steps = 0
        return self._observation(), {"goal": self.goal.copy(), "success": False}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.advance(action)
        self._steps += 1
        success = bool(reached(self._qpos[:2], self.goal))
        truncated = self._steps >= self.max_steps and not success
        return self._observation(), float(success), success, truncated, {"success": success}

    def advance(self, action: NDArray[Any]) -> None:
        """One control step of the physics alone."""
        np.multiply(np.minimum(np.maximum(action, -1.0), 1.0), TORQUE, out=self._ctrl)
        mujoco.mj_step(self.model, self.data, nstep=FRAME_SKIP)

    def set_state(self, qpos: NDArray[Any], qvel: NDArray[Any]) -> None:
        """Put the ant into a recorded state; nothing of an earlier state remains."""
        mujoco.mj_resetData(self.model, self.data)
        self._qpos[:] = qpos
        self._qvel[:] = qvel
        mujoco.mj_forward(self.model, self.data)

    def state(self) -> NDArray[np.float64]:
        """Positions and velocities in double precision: the observation before rounding."""
        return np.concatenate((self._qpos, self._qvel))

    def _observation(self) -> NDArray[np.float32]:
        return self.state().astype(np.float32)

    def render(self) -> Any:
        """The whole maze from above; needs an OpenGL library (MUJOCO_GL=egl or osmesa)."""
        if self._renderer is None:
            self._renderer = mujoco.Renderer(self.model, 480, 640)
        rows, columns = len(MAZES[self.maze]), len(MAZES[self.maze][0])
        camera = mujoco.MjvCamera()
        camera.lookat[:] = [(columns - 3) / 2 * CELL, (rows - 3) / 2 * CELL, 0.0]
        camera.distance, camera.elevation, camera.azimuth = 1.3 * CELL * rows, -90.0, 90.0
        self._renderer.update_scene(self.data, camera)
        self._mark_goal(self._renderer.scene)
        return self._renderer.render()

    def _mark_goal(self, scene: mujoco.MjvScene) -> None:
        """A green disc on the floor, as wide as what counts as reached; in the picture alone, not in the world."""
        geom = scene.geoms[scene.ngeom]
        size = np.array([GOAL_RADIUS, GOAL_RADIUS, 0.02])
        place = np.array([self.goal[0], self.goal[1], 0.03])
        colour = np.array([0.13, 0.59, 0.33, 1.0], np.float32)
        mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_CYLINDER, size, place, np.eye(3).reshape(-1), colour)
        geom.specular = geom.reflectance = 0.0  # the lamp above would make it white
        scene.ngeom += 1

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
