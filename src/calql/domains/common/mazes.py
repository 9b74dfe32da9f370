"""A maze of square cells, and what is drawn of it: its floor plan, and a map of values over its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset
from calql.domains.base import StateMap
from calql.domains.scene import FloorPlan, Point, Rectangle

Square = tuple[int, int]  # row, column
FINE = 5  # states along a square


def point(at: NDArray[np.float64]) -> Point:
    x, y = at.tolist()
    return x, y


@dataclass(frozen=True)
class Maze:
    """Of square cells, for observations that begin with x and y."""

    rows: Sequence[str]  # a letter a square; 1: wall
    centre: Callable[[Square], NDArray[np.float64]]  # of a square
    size: float  # of a square
    start: Point
    goal: Point

    def plan(self) -> FloorPlan:
        """From above, for a page about data."""
        return FloorPlan(0, 1, list(self._boxes()), self.start, self.goal)

    def state_map(self, data: Dataset) -> StateMap:
        """The plane is gone through; velocities and joints are those of the nearest logged step.

        At rest, say, most of these states would be unlike any that the data show, and their values would say nothing.
        """
        from scipy.spatial import KDTree  # not above: every command would wait for it, and runs in mazes alone use it

        x = self._fine([self.centre((0, column))[0] for column in range(len(self.rows[0]))])
        y = self._fine([self.centre((row, 0))[1] for row in range(len(self.rows))])
        walls = np.array([[letter == "1" for letter in row] for row in self.rows])
        places = np.stack(np.meshgrid(x, y), axis=-1)  # [row, column, 2]
        logged = np.asarray(data.observations, np.float32)
        observations = logged[KDTree(logged[:, :2]).query(places)[1]]
        observations[..., :2] = places
        return StateMap(
            title="Q of the policy's own action over the maze",
            x=x,
            y=y,
            observations=observations,
            free=~walls.repeat(FINE, axis=0).repeat(FINE, axis=1),
            walls=tuple(self._square((int(row), int(column))) for row, column in np.argwhere(walls)),
            start=self.start,
            goal=self.goal,
        )

    def _boxes(self) -> Iterator[Rectangle]:
        """The walls; neighbours in a row are one box."""
        for row, letters in enumerate(self.rows):
            for wall, columns in groupby(enumerate(letters), lambda each: each[1] == "1"):
                if wall:
                    squares = [self._square((row, column)) for column, _ in columns]
                    x0, y0, x1, y1 = zip(*squares, strict=True)
                    yield min(x0), min(y0), max(x1), max(y1)

    def _fine(self, centres: Sequence[float]) -> NDArray[np.float64]:
        """Centres of the parts of each square, in the squares' order."""
        direction = np.sign(centres[1] - centres[0])
        parts = direction * self.size * ((np.arange(FINE) + 0.5) / FINE - 0.5)
        return (np.array(centres)[:, None] + parts).reshape(-1)

    def _square(self, square: Square) -> Rectangle:
        (x, y), half = point(self.centre(square)), self.size / 2
        return x - half, y - half, x + half, y + half
