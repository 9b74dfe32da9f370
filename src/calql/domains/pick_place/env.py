"""Visual pick-and-place: put the task object into the container, seen only through 48x48 images.

A gripper moves over a table with one task object, one distractor and a container. There are ten
objects; those that are tasks never distract, and those that distract are never tasks. Grasping is
kinematic: closing around an object attaches it, opening drops it. No physics engine, no GL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.domains.pick_place.raycast import Box, Camera, Cylinder, Floats, Frame, Image, Primitive, Sphere, vector

SIZE = 48  # pixels
STEPS = 40
REACH = 0.03  # m moved by an action of 1
LOW, HIGH = vector([-0.2, -0.14, 0.03]), vector([0.2, 0.14, 0.2])  # where the gripper can be
START = vector([0.0, 0.0, 0.15])
GRASP = vector([0.02, 0.02, 0.02])  # how far off an object's centre fingers still close around it
INNER, WALL, RIM = 0.055, 0.008, 0.04  # container: half its opening, its wall, its height
APART = 0.09  # between the centres of two things on the table
OPEN, CLOSED = 0.046, 0.012  # half the gap between the fingers


@dataclass(frozen=True)
class Thing:
    """An object by its looks: primitives around (0, 0, 0), which lies `half_height` above what it rests on."""

    name: str
    colour: tuple[float, float, float]
    shape: str  # "ball", "cube", "can", "mushroom", "tower"
    half_height: float = 0.028


THINGS: tuple[Thing, ...] = (
    Thing("red ball", (0.9, 0.12, 0.1), "ball"),
    Thing("yellow cube", (0.95, 0.85, 0.1), "cube"),
    Thing("green can", (0.1, 0.7, 0.2), "can"),
    Thing("orange mushroom", (0.98, 0.5, 0.05), "mushroom", 0.03),
    Thing("pink tower", (0.95, 0.35, 0.65), "tower", 0.03),
    Thing("blue ball", (0.1, 0.25, 0.9), "ball"),
    Thing("white cube", (0.95, 0.95, 0.95), "cube"),
    Thing("black can", (0.08, 0.08, 0.1), "can"),
    Thing("purple mushroom", (0.5, 0.15, 0.75), "mushroom", 0.03),
    Thing("cyan tower", (0.1, 0.8, 0.85), "tower", 0.03),
)
TASKS, DISTRACTORS = THINGS[:5], THINGS[5:]


@dataclass
class State:
    """Everything there is: what a scripted policy may look at, and what an image shows."""

    task: Thing
    distractor: Thing
    task_at: Floats  # xyz of its centre
    distractor_at: Floats
    container_at: Floats  # xy
    gripper: Floats = field(default_factory=START.copy)  # xyz
    closed: bool = False
    holds: str | None = None  # "task" or "distractor"


class PickPlace(gymnasium.Env[Image, Floats]):
    """40 steps to put the task object into the container: reward 1 and the end at success, else 0.

    Action in [-1, 1]: three for the gripper's motion (3 cm at 1), one for its fingers (above 0: close).
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, *, size: int = SIZE, render_mode: str | None = None) -> None:
        self.size, self.render_mode = size, render_mode
        self.observation_space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.state: State
        self._still: Frame  # what does not move, painted once
        self._painted: str | None  # what was held when it was painted
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = options["state"] if options and "state" in options else place(self.np_random)
        self._steps = 0
        self._repaint()
        return self._observe(), {"success": False}

    def step(self, action: Floats) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        state = self.state
        held = state.holds
        move(state, np.clip(np.asarray(action, np.float32), -1.0, 1.0))
        self._steps += 1
        if state.holds != held:
            self._repaint()
        success = state.holds is None and in_container(state, state.task_at)
        truncated = not success and self._steps >= STEPS
        return self._observe(), float(success), success, truncated, {"success": success}

    def render(self) -> Image:
        """What the policy sees, ten times as fine."""
        return image_of(self.state, 10 * SIZE)

    def _repaint(self) -> None:
        self._still = _still(self.state, self.size)

    def _observe(self) -> Image:
        return _moving(self.state, self._still).image()


def place(rng: np.random.Generator) -> State:
    """A random scene: container on the right, task object and distractor elsewhere, apart from each other."""
    container = vector([rng.uniform(0.09, 0.13), rng.uniform(-0.07, 0.07)])
    task, distractor = (group[rng.integers(len(group))] for group in (TASKS, DISTRACTORS))
    while True:
        spots = rng.uniform((-0.18, -0.12), (0.0, 0.12), (2, 2)).astype(np.float32)
        if np.linalg.norm(spots[0] - spots[1]) > APART:
            break
    at = [np.append(spot, thing.half_height) for spot, thing in zip(spots, (task, distractor), strict=True)]
    return State(task, distractor, vector(at[0]), vector(at[1]), container)


def move(state: State, action: Floats) -> None:
    """One step: the gripper moves with what it holds, then its fingers open or close."""
    wanted = np.clip(state.gripper + REACH * action[:3], LOW, HIGH)
    if state.holds is not None:
        wanted = _past_walls(state, wanted)
        _set(state, state.holds, wanted)
    state.gripper = wanted
    close = bool(action[3] > 0.0)
    if close and not state.closed:
        state.holds = _grasped(state)
        if state.holds is not None:
            _set(state, state.holds, state.gripper)
    elif not close and state.holds is not None:
        _set(state, state.holds, _dropped(state))
        state.holds = None
    state.closed = close


def in_container(state: State, at: Floats) -> bool:
    """Whether something at this place is within the container's opening and below its rim."""
    return bool(np.all(np.abs(at[:2] - state.container_at) < INNER) and at[2] < RIM)


def _set(state: State, which: str, at: Floats) -> None:
    if which == "task":
        state.task_at = at
    else:
        state.distractor_at = at


def _thing(state: State, which: str) -> tuple[Thing, Floats]:
    return (state.task, state.task_at) if which == "task" else (state.distractor, state.distractor_at)


def _grasped(state: State) -> str | None:
    """What the closing fingers get hold of: the nearer of the things within their grasp."""
    offsets = {which: np.abs(state.gripper - _thing(state, which)[1]) for which in ("task", "distractor")}
    within = {which: float(o @ o) for which, o in offsets.items() if np.all(o <= GRASP)}
    return min(within, key=lambda which: within[which]) if within else None


def _past_walls(state: State, wanted: Floats) -> Floats:
    """A held object below the rim does not go through the container's walls."""
    assert state.holds is not None
    low = wanted[2] - _thing(state, state.holds)[0].half_height < RIM
    was_over, is_over = (np.all(np.abs(p[:2] - state.container_at) < INNER + WALL) for p in (state.gripper, wanted))
    return np.append(state.gripper[:2], wanted[2]) if low and is_over != was_over else wanted


def _dropped(state: State) -> Floats:
    """Where the held object comes to rest: in the container, or on the table beside it."""
    assert state.holds is not None
    thing, at = _thing(state, state.holds)
    offset = at[:2] - state.container_at
    if np.all(np.abs(offset) < INNER):
        return np.append(at[:2], np.float32(thing.half_height + WALL))
    outside = INNER + WALL + 0.02
    if np.all(np.abs(offset) < outside):  # on the rim: it falls off on the outer side
        axis = int(np.argmax(np.abs(offset)))
        offset[axis] = np.copysign(outside, offset[axis])
    return np.append(state.container_at + offset, np.float32(thing.half_height))


def looks(thing: Thing, at: Floats) -> list[Primitive]:
    """The primitives of an object whose centre is at `at`."""
    colour, half = vector(thing.colour), thing.half_height
    darker = 0.6 * colour + vector([0.1, 0.1, 0.1])
    match thing.shape:
        case "ball":
            return [Sphere(at, half, colour)]
        case "cube":
            return [Box(at, vector([0.025, 0.025, half]), colour)]
        case "can":
            return [Cylinder(at, 0.025, half, colour)]
        case "mushroom":
            stem = Cylinder(at - vector([0, 0, 0.4 * half]), 0.013, 0.6 * half, vector([0.9, 0.88, 0.8]))
            return [stem, Cylinder(at + vector([0, 0, 0.6 * half]), 0.03, 0.4 * half, colour)]
        case "tower":
            base = Box(at - vector([0, 0, 0.5 * half]), vector([0.028, 0.028, 0.5 * half]), darker)
            return [base, Box(at + vector([0, 0, 0.5 * half]), vector([0.015, 0.015, 0.5 * half]), colour)]
    raise ValueError(thing.shape)


def _container(at: Floats) -> list[Primitive]:
    colour = vector([0.55, 0.38, 0.22])
    outer = INNER + WALL
    parts: list[Primitive] = [
        Box(np.append(at, 0.5 * WALL).astype(np.float32), vector([outer, outer, 0.5 * WALL]), 0.7 * colour)
    ]
    for x, y in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        centre = vector([at[0] + x * (INNER + 0.5 * WALL), at[1] + y * (INNER + 0.5 * WALL), 0.5 * RIM])
        half = vector([0.5 * WALL if x else outer, 0.5 * WALL if y else outer, 0.5 * RIM])
        parts.append(Box(centre, half, colour))
    return parts


def _gripper(state: State) -> list[Primitive]:
    """Two fingers and the palm that carries them; the point between the finger tips is `state.gripper`."""
    gap = OPEN if not state.closed else (0.032 if state.holds else CLOSED)
    metal, dark = vector([0.75, 0.77, 0.8]), vector([0.25, 0.26, 0.3])
    at = state.gripper
    fingers: list[Primitive] = [
        Box(at + vector([side * gap, 0, 0.01]), vector([0.008, 0.012, 0.03]), metal) for side in (-1, 1)
    ]
    return [*fingers, Box(at + vector([0, 0, 0.05]), vector([0.056, 0.016, 0.012]), dark)]


@cache
def camera(size: int) -> Camera:
    return Camera([0.0, -0.44, 0.56], [0.0, 0.03, 0.05], view=38.0, width=size, height=size)


@cache
def _table(size: int) -> Frame:
    return Frame(camera(size), vector([0.62, 0.66, 0.62]), vector([0.2, 0.22, 0.25]))


def _still(state: State, size: int) -> Frame:
    """Table, container and whatever rests: repainted only when something is grasped or dropped."""
    frame = _table(size).copy()
    resting = [_thing(state, which) for which in ("task", "distractor") if which != state.holds]
    for _, at in resting:
        frame.shade(at[:2] + vector([0.006, 0.008]), 0.03)
    frame.paint(_container(state.container_at))
    for thing, at in resting:
        frame.paint(looks(thing, at))
    return frame


def _moving(state: State, still: Frame) -> Frame:
    """The gripper and what it holds, over what rests, with the shadow that tells how high they are."""
    frame = still.copy()
    height = state.gripper[2]
    frame.shade(state.gripper[:2] + 0.3 * height, 0.036)
    if state.holds is not None:
        frame.paint(looks(*_thing(state, state.holds)))
    frame.paint(_gripper(state))
    return frame


def image_of(state: State, size: int = SIZE) -> NDArray[np.uint8]:
    """What the camera sees of a state."""
    return _moving(state, _still(state, size)).image()
