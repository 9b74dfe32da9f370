"""The maze as its drawings have it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calql.domains.common.mazes import Maze, Square, point
from calql.domains.point_maze.env import U_TURN


def square_of(mark: str) -> Square:
    """The one that bears a letter."""
    return next((r, c) for r, row in enumerate(U_TURN) for c, letter in enumerate(row) if letter == mark)


def centre(square: Square) -> NDArray[np.float64]:
    """Where the middle of a square of one metre is; the middle of the maze is the origin, y grows upwards."""
    row, column = square
    return np.array([column + 0.5 - len(U_TURN[0]) / 2, len(U_TURN) / 2 - row - 0.5])


START, GOAL = square_of("r"), square_of("g")
MAZE = Maze(U_TURN, centre, 1.0, point(centre(START)), point(centre(GOAL)))
