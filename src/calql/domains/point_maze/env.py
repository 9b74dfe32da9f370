"""A sparse-reward point maze: gymnasium-robotics' PointMaze with one start, one goal that is not observed."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.domains.common.simulation import Simulation, robotics
from calql.domains.point_maze.drawing import Drawing

U_TURN = ("1111111", "1r00001", "1111101", "1g00001", "1111111")
ACTION_REPEAT = 5
GOAL_RADIUS = 0.45


class PointMaze(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Reward 1 and the end within 0.45 of the goal, else 0; observation (x, y, vx, vy); force held for 5 steps.

    `reset(seed=...)` determines the whole episode. Options "reset_cell" and "goal_cell" (row, column)
    move the start and the goal, for collecting diverse data.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - gymnasium's own form

    def __init__(
        self, maze: tuple[str, ...] = U_TURN, *, position_noise: float = 0.15, render_mode: str | None = None
    ) -> None:
        cells = [[cell if cell in "rg" else int(cell) for cell in row] for row in maze]
        self.maze = robotics(
            "maze.point_maze",
            "PointMazeEnv",
            maze_map=cells,
            reward_type="sparse",
            continuing_task=False,
        )
        self.render_mode = render_mode
        self._drawing = Drawing(maze, GOAL_RADIUS) if render_mode == "rgb_array" else None
        self._trail: list[tuple[float, float]] = []  # where the ball was, while it is drawn
        self.maze.position_noise_range = position_noise
        os.remove(self.maze.tmp_xml_file_path)
        point = self.maze.point_env
        self.simulation = Simulation(point.model, point.data, ACTION_REPEAT * point.frame_skip)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        observation, _ = self.maze.reset(seed=seed, options=options)
        self._trail.clear()
        return observation["observation"].astype(np.float32), {"success": False}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        point = self.maze.point_env
        success = False
        for _ in range(ACTION_REPEAT):
            state, *_ = point.step(action)
            success = bool(np.hypot(state[0] - self.maze.goal[0], state[1] - self.maze.goal[1]) <= GOAL_RADIUS)
            if success:
                break
        return state.astype(np.float32), float(success), success, False, {"success": success}

    def render(self) -> Any:
        """The maze from above, with the way since the first picture of the episode."""
        if self._drawing is None:
            return None
        x, y = map(float, self.maze.point_env.data.qpos)
        self._trail.append((x, y))
        goal_x, goal_y = map(float, self.maze.goal)
        return self._drawing.picture((x, y), (goal_x, goal_y), self._trail)

    def close(self) -> None:
        self.maze.close()
