"""A grid with a cliff: reach the goal at the far end of a ledge, one cell at a time, without stepping off.

Stepping off ends the episode with no reward. Nothing earns less than that, so what is thought to be worth less than 0
loses to it: a learner whose values are too low walks off the cliff as soon as it has tried.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.domains.common.mazes import Square

LEDGE = (
    "s........",
    ".........",
    "s...xxxxx",
    "....x...g",
    "s.......x",
)
MOVES = ((0, 1), (-1, 0), (0, -1), (1, 0))  # right, up, left, down, as (row, column)

Observation = NDArray[np.float32]


class CliffGrid(gymnasium.Env[Observation, int]):
    """Reward 1 and the end at the goal, the end without one off the cliff; a wall at the edge of the grid.

    The observation is (row, column) in [-1, 1]. With `masked`, steps into the edge are forbidden and the info says so;
    else they lead nowhere. `reset(seed=...)` decides the start, and all else follows from the actions.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, grid: tuple[str, ...] = LEDGE, *, masked: bool = False, render_mode: str | None = None) -> None:
        self.grid, self.masked, self.render_mode = grid, masked, render_mode
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))  # type: ignore[assignment]
        self.cell: Square = cells(grid, "s")[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        starts = cells(self.grid, "s")
        self.cell = starts[int(self.np_random.integers(len(starts)))]
        return place(self.grid, self.cell), self._info(success=False)

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.cell = moved(self.grid, self.cell, int(action))
        success, fallen = (self.grid[self.cell[0]][self.cell[1]] == mark for mark in "gx")
        return place(self.grid, self.cell), float(success), success or fallen, False, self._info(success=success)

    def _info(self, *, success: bool) -> dict[str, Any]:
        return {"success": success} | ({"action_mask": allowed(self.grid, self.cell)} if self.masked else {})

    def render(self) -> Any:
        colours = {".": (235, 235, 235), "s": (215, 225, 240), "x": (45, 45, 55), "g": (90, 170, 100)}
        picture = np.array([[colours[mark] for mark in row] for row in self.grid], np.uint8)
        picture[self.cell] = (210, 90, 60)
        return picture.repeat(24, axis=0).repeat(24, axis=1)


def cells(grid: tuple[str, ...], marks: str) -> list[Square]:
    return [(r, c) for r, row in enumerate(grid) for c, mark in enumerate(row) if mark in marks]


def moved(grid: tuple[str, ...], cell: Square, action: int) -> Square:
    """Where a move leads; at the edge, nowhere."""
    row, column = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
    return (row, column) if 0 <= row < len(grid) and 0 <= column < len(grid[0]) else cell


def allowed(grid: tuple[str, ...], cell: Square) -> NDArray[np.int8]:
    """[action]: 1 where a move leads somewhere."""
    return np.array([moved(grid, cell, action) != cell for action in range(len(MOVES))], np.int8)


def place(grid: tuple[str, ...], cell: Square) -> Observation:
    """(row, column) of a cell as it is observed."""
    largest = np.array([len(grid) - 1, len(grid[0]) - 1])
    return (2.0 * np.array(cell) / largest - 1.0).astype(np.float32)
