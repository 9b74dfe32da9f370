"""The maze drawn from above, by Pillow: a flat world needs no OpenGL, and nothing hides behind a wall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

CELL = 96  # pixels along a cell of one metre
FLOOR, WALL, EDGE = (238, 240, 243), (92, 102, 117), (74, 83, 97)
GOAL, TRAIL, BALL, RIM = (33, 150, 83), (120, 170, 230), (31, 95, 191), (15, 50, 110)
BALL_RADIUS = 0.1  # metres, as in the simulator
Point = tuple[float, float]


class Drawing:
    """A maze of square cells of one metre whose middle is the origin, with y upwards."""

    def __init__(self, maze: Sequence[str], goal_radius: float) -> None:
        self._rows, self._columns, self._reach = len(maze), len(maze[0]), goal_radius
        self._still = Image.new("RGB", (self._columns * CELL, self._rows * CELL), FLOOR)
        draw = ImageDraw.Draw(self._still)
        for row, cells in enumerate(maze):
            for column, cell in enumerate(cells):
                if cell == "1":
                    left, top = column * CELL, row * CELL
                    draw.rectangle((left, top, left + CELL - 1, top + CELL - 1), fill=WALL, outline=EDGE)

    def picture(self, ball: Point, goal: Point, trail: Sequence[Point]) -> NDArray[np.uint8]:
        """The goal with the circle that counts as reached, the way so far, and the ball."""
        image = self._still.copy()
        draw = ImageDraw.Draw(image)
        draw.ellipse(self._circle(goal, self._reach), outline=GOAL, width=4)
        draw.ellipse(self._circle(goal, 0.06), fill=GOAL)
        if len(trail) > 1:
            draw.line([self._pixel(point) for point in trail], fill=TRAIL, width=4, joint="curve")
        draw.ellipse(self._circle(ball, BALL_RADIUS), fill=BALL, outline=RIM, width=2)
        return np.asarray(image)

    def _pixel(self, point: Point) -> tuple[float, float]:
        return (point[0] + self._columns / 2) * CELL, (self._rows / 2 - point[1]) * CELL

    def _circle(self, middle: Point, radius: float) -> tuple[float, float, float, float]:
        (x, y), half = self._pixel(middle), radius * CELL
        return x - half, y - half, x + half, y + half
