"""The mazes as their drawings have them."""

from __future__ import annotations

from functools import cache

from calql.domains.antmaze.env import CELL, MAZES, cells, centre, middle_goal
from calql.domains.common.mazes import Maze, point


@cache
def maze(name: str) -> Maze:
    (start,) = cells(name, "R")
    return Maze(MAZES[name], centre, CELL, point(centre(start)), point(middle_goal(name)))
