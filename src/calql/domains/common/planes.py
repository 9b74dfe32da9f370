"""States over the plane of a maze, for maps of values: the plane is gone through, the rest is as in the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset
from calql.domains.base import Rectangle, StateMap

Cell = tuple[int, int]  # row, column
FINE = 5  # states along a cell


def over_maze(
    data: Dataset,
    maze: Sequence[str],
    centre: Callable[[Cell], NDArray[np.float64]],
    size: float,
    *,
    start: Cell,
    goal: NDArray[np.float64],
) -> StateMap:
    """A map of a maze of square cells ('1': wall), for observations that begin with x and y.

    Velocities and joints are those of the nearest logged step: at rest, say, most of these states would be unlike any
    that the data show, and their values would say nothing.
    """
    from scipy.spatial import KDTree  # not above: every command would wait for it, and runs in mazes alone draw maps

    rows, columns = len(maze), len(maze[0])
    walls = [(r, c) for r in range(rows) for c in range(columns) if maze[r][c] == "1"]
    x = _fine([centre((0, c))[0] for c in range(columns)], size)
    y = _fine([centre((r, 0))[1] for r in range(rows)], size)
    free = np.array([[cell != "1" for cell in row] for row in maze]).repeat(FINE, axis=0).repeat(FINE, axis=1)
    places = np.stack(np.meshgrid(x, y), axis=-1)  # [row, column, 2]
    logged = np.asarray(data.observations, np.float32)
    observations = logged[KDTree(logged[:, :2]).query(places)[1]]
    observations[..., :2] = places
    begin = centre(start)
    return StateMap(
        title="Q of the policy's own action over the maze",
        x=x,
        y=y,
        observations=observations,
        free=free,
        walls=tuple(_square(centre(cell), size) for cell in walls),
        start=(float(begin[0]), float(begin[1])),
        goal=(float(goal[0]), float(goal[1])),
    )


def _fine(centres: Sequence[float], size: float) -> NDArray[np.float64]:
    """Centres of the parts of each cell, in the cells' order."""
    direction = np.sign(centres[1] - centres[0])
    parts = direction * size * ((np.arange(FINE) + 0.5) / FINE - 0.5)
    return (np.array(centres)[:, None] + parts).reshape(-1)


def _square(middle: NDArray[np.float64], size: float) -> Rectangle:
    x, y, half = float(middle[0]), float(middle[1]), size / 2
    return x - half, y - half, x + half, y + half
