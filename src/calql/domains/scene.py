"""What a page about a task's data can use: what its observations are called, and the floor they walk on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from numpy.typing import NDArray

Point = tuple[float, float]
Rectangle = tuple[float, float, float, float]  # left, lower, right, upper


@dataclass(frozen=True)
class FloorPlan:
    """A maze from above, in the units of two features of the observation."""

    x: int  # the feature that runs to the right
    y: int  # and the one that runs upwards
    walls: Sequence[Rectangle]
    start: Point | None = None
    goal: Point | None = None


@dataclass(frozen=True)
class Scene:
    """Of one task. `put` brings an environment into the state that an observation records, to have it drawn."""

    names: Sequence[str] = ()  # of the first features
    plan: FloorPlan | None = None
    put: Callable[[gymnasium.Env[Any, Any], NDArray[Any]], None] | None = None
