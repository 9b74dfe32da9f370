"""What a page about a task's data can use: what its observations are called, and the floor they walk on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from numpy.typing import NDArray

Point = tuple[float, float]


@dataclass(frozen=True)
class FloorPlan:
    """A maze from above, in the units of two features of the observation."""

    x: int  # the feature that runs to the right
    y: int  # and the one that runs upwards
    walls: Sequence[tuple[float, float, float, float]]  # left, lower, right, upper
    start: Point | None = None
    goal: Point | None = None


@dataclass(frozen=True)
class Scene:
    """Of one task. `put` brings an environment into the state that an observation records, to have it drawn."""

    names: Sequence[str] = ()  # of the first features
    plan: FloorPlan | None = None
    put: Callable[[gymnasium.Env[Any, Any], NDArray[Any]], None] | None = None


def walled(maze: Sequence[str], centre: Callable[[tuple[int, int]], Sequence[float]], size: float) -> list[Any]:
    """The walls of a maze given as rows of letters, 1 for a wall; neighbours in a row are one box."""
    boxes = []
    for row, letters in enumerate(maze):
        column = 0
        while column < len(letters):
            end = column
            while end < len(letters) and letters[end] == "1":
                end += 1
            if end > column:
                first, last = centre((row, column)), centre((row, end - 1))
                half = size / 2
                xs, ys = sorted((first[0], last[0])), sorted((first[1], last[1]))
                boxes.append((xs[0] - half, ys[0] - half, xs[1] + half, ys[1] + half))
            column = max(end, column + 1)
    return boxes
