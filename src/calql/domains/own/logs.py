"""A task from logs alone: there is no environment, and what one would have said of itself is taken from the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.data import Dataset
from calql.data.rewards import RewardRule
from calql.domains.base import NormalisedReturn, Task
from calql.domains.own import NAME
from calql.domains.own.size import PAPER, Size
from calql.domains.own.tasks import OPTIONS, assumptions, logged_range
from calql.system.errors import UserError

HOLD_OUT = 0.1  # of the episodes


def logs_task(data: Dataset, name: str, *, size: Size = PAPER) -> tuple[Task, list[str]]:
    """Described by its data; also what was assumed, in words."""
    failure, reference, assumed = assumptions(data)
    size = size.of_choices() if data.discrete else size
    notes = [*size.notes(online=False), *assumed]
    task = outline(
        name,
        size,
        data=lambda: data,
        episode_limit=int(data.episode_lengths.max()),
        score=NormalisedReturn(*logged_range(data)),
        rewards=RewardRule(failure=failure),
        reference=reference,
        discrete=data.discrete,
    )
    return task, notes


def outline(name: str, size: Size = PAPER, **known: Any) -> Task:
    """What options need to know of the task, before its data are read."""
    described: dict[str, Any] = {
        "data": nothing, "episode_limit": 0, "score": NormalisedReturn(0.0, 1.0), "rewards": RewardRule(),
    }  # fmt: skip
    return Task(
        name=name,
        domain=NAME,
        summary="logs alone",
        make_env=nothing,
        protocol=replace(size.protocol, online_steps=0),
        machine=size.machine,
        fitted=size.options,
        options={**OPTIONS, "hold_out": HOLD_OUT},
        logs_alone=True,
        **{**described, **known},
    )


def name_of(dataset: str | None) -> str:
    """Of the task: its file's, without what says where it lies."""
    return Path(dataset).stem if dataset else "logs"


def nothing() -> NoReturn:
    raise UserError("there is no environment", where="--offline", mend="this run was trained on its logs alone")


def action_space(
    data: Dataset, low: Sequence[float], high: Sequence[float]
) -> tuple[spaces.Box | spaces.Discrete, list[str]]:
    """What an environment would have said of actions: a box, or how many choices there are; and what was assumed."""
    return choices(data, low, high) if data.discrete else action_bounds(data, low, high)


def choices(data: Dataset, low: Sequence[float], high: Sequence[float]) -> tuple[spaces.Discrete, list[str]]:
    """From the first to the last number: as given, as wide as the masks are, else as far as the data reach."""
    masks = data.action_masks if data.action_masks is not None else data.next_action_masks
    first, last = (_whole(bound, name) for bound, name in ((low, "--action-low"), (high, "--action-high")))
    notes = []
    if masks is not None:
        first = first or 0
        last = first + masks.shape[1] - 1 if last is None else last
    if first is None or last is None:
        first, last = _reach(data, first, last)
        notes.append(
            f"choices are taken from the data: {first} to {last}; "
            "if your system has others, give them with --action-low and --action-high"
        )
    least, most = int(data.actions.min()), int(data.actions.max())
    if first > least or last < most:
        raise UserError(
            f"logged actions go from {least} to {most}, and choices from {first} to {last}", where=data.source,
            mend="give the first choice with --action-low and the last with --action-high",
        )  # fmt: skip
    return spaces.Discrete(last - first + 1, start=first), notes


def _reach(data: Dataset, first: int | None, last: int | None) -> tuple[int, int]:
    return int(data.actions.min()) if first is None else first, int(data.actions.max()) if last is None else last


def _whole(given: Sequence[float], name: str) -> int | None:
    if not given:
        return None
    if len(given) != 1 or given[0] != int(given[0]):
        raise UserError(f"{name} is {_words(np.array(given))}", mend="of discrete actions it is one whole number")
    return int(given[0])


def action_bounds(data: Dataset, low: Sequence[float], high: Sequence[float]) -> tuple[spaces.Box, list[str]]:
    """The box of actions: as given, one number for all or one for each; else as far as the data reach."""
    count, notes = data.actions.shape[1], []
    sides = [_side(bound, count, name) for bound, name in ((low, "--action-low"), (high, "--action-high"))]
    bounds = [data.actions.min(axis=0), data.actions.max(axis=0)]
    for place, side in enumerate(sides):
        if side is not None:
            bounds[place] = side
    if None in [None if side is None else 0 for side in sides]:
        flat = bounds[1] <= bounds[0]
        bounds[1] = np.where(flat, bounds[0] + 1.0, bounds[1])
        notes.append(
            f"bounds of actions are taken from the data: {_words(bounds[0])} to {_words(bounds[1])}; "
            "if your system allows others, give them with --action-low and --action-high"
        )
    if np.any(bounds[1] <= bounds[0]):
        raise UserError(
            f"actions go from {_words(bounds[0])} to {_words(bounds[1])}", where="--action-low, --action-high",
            mend="give the lower bound first, below the upper one",
        )  # fmt: skip
    return spaces.Box(bounds[0].astype(np.float32), bounds[1].astype(np.float32)), notes


def _side(given: Sequence[float], count: int, name: str) -> NDArray[np.float32] | None:
    if not given:
        return None
    if len(given) not in (1, count):
        raise UserError(f"{name} has {len(given)} numbers", mend=f"give one, or one for each of {count} actions")
    return np.broadcast_to(np.array(given, np.float32), (count,))


def _words(numbers: NDArray[Any]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
