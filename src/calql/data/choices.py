"""Discrete actions: logged as whole numbers, learnt as one-hot rows, some of them forbidden at some states.

What is allowed comes with the data in the columns `action_masks` and `next_action_masks`, and from an environment as
`action_mask`, in its info or in a dictionary of observations. Where nobody says anything, everything is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from calql.data.columns import counted
from calql.data.dataset import Bools, Dataset, Floats
from calql.system.errors import UserError

MASK = "action_mask"  # of an environment: a flag for each action, 1 where it is allowed
SAME = "data and environment must have the same action space"


def one_hot(dataset: Dataset, space: spaces.Discrete) -> Dataset:
    """The dataset with actions as one-hot rows [row, choice] and masks for every row; refuses what does not fit."""
    _require_choices(dataset, space)
    count = int(space.n)
    actions: Floats = np.zeros((len(dataset), count), np.float32)
    actions[np.arange(len(dataset)), dataset.actions.astype(np.int64) - int(space.start)] = 1.0
    masks = _masks(dataset, count)
    _require_allowed(masks, actions, dataset.source)
    after = _next_masks(dataset, masks)
    return replace(dataset, actions=actions, choices=count, action_masks=masks, next_action_masks=after)


def _require_choices(dataset: Dataset, space: spaces.Discrete) -> None:
    if dataset.actions.ndim != 1:
        raise UserError(
            f"actions are {dataset.actions.dtype} {list(dataset.actions.shape)} and those of the environment {space}",
            where=dataset.source,
            mend=f"store one whole number per row: actions as an integer array [row]{_as_choices(dataset)}",
        )
    first, last = int(space.start), int(space.start + space.n) - 1
    outside = np.flatnonzero((dataset.actions < first) | (dataset.actions > last))
    if outside.size:
        raise UserError(
            f"{counted(outside.size, 'action')} outside {first} to {last}, the first is "
            f"{int(dataset.actions[outside[0]])} in row {outside[0]}",
            where=dataset.source,
            mend=SAME,
        )


def _as_choices(dataset: Dataset) -> str:
    """How they become whole numbers, where that is plain: they are, in a column too many, or as one-hot rows."""
    actions = dataset.actions
    if actions.shape[1:] == (1,) and np.array_equal(actions, np.round(actions)):
        return ", here actions[:, 0].astype(int)"
    one_hot_rows = bool(np.all((actions == 0) | (actions == 1)) and np.all(actions.sum(axis=1) == 1))
    return ", here actions.argmax(axis=1)" if actions.shape[1] > 1 and one_hot_rows else ""


def _masks(dataset: Dataset, count: int) -> Bools:
    for name, mask in dataset.masks.items():
        if mask.shape[1] != count:
            raise UserError(
                f"'{name}' has {mask.shape[1]} columns and the environment {count} actions",
                where=dataset.source,
                mend=SAME,
            )
    if dataset.action_masks is not None:
        return dataset.action_masks
    if dataset.next_action_masks is not None:
        raise UserError("has 'next_action_masks' alone", where=dataset.source, mend="store 'action_masks' too")
    return np.ones((len(dataset), count), np.bool_)


def _require_allowed(masks: Bools, actions: Floats, source: str) -> None:
    _require_none(~masks.any(axis=1), "'action_masks' forbids every action", source)
    _require_none(~(masks & (actions > 0)).any(axis=1), "'action_masks' forbids the logged action", source)


def _require_none(bad: Any, what: str, source: str) -> None:
    rows = np.flatnonzero(bad)
    if rows.size:
        raise UserError(
            f"{what} in {counted(rows.size, 'row')}, the first is row {rows[0]}",
            where=source,
            mend="a mask is of the observation in its row: 1 for each action that could be taken there",
        )


def _next_masks(dataset: Dataset, masks: Bools) -> Bools:
    """As stored, else as the following row has them. After a terminal step nothing is chosen, so nothing counts."""
    after = dataset.next_action_masks
    if after is None:
        after = np.concatenate([masks[1:], masks[-1:]])
        cut = dataset.truncated & ~dataset.terminals
        if cut.any() and not masks.all():
            raise UserError(
                f"{counted(int(cut.sum()), 'episode')} only stopped being recorded, and nothing says what was allowed "
                "after the last row",
                where=dataset.source,
                mend="store 'next_action_masks'",
            )
        after = np.where(cut[:, None], True, after)
    _require_none(~after.any(axis=1) & ~dataset.terminals, "'next_action_masks' forbids every action", dataset.source)
    return np.asarray(after | dataset.terminals[:, None])


# -- environments -------------------------------------------------------------------------------------------


class MaskApart(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Observations without their part `action_mask`, which goes into the info."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Dict)
        rest = {name: space for name, space in env.observation_space.spaces.items() if name != MASK}
        self._only = next(iter(rest)) if len(rest) == 1 else None
        self.observation_space = rest[self._only] if self._only else spaces.Dict(rest)

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        seen, info = self.env.reset(**given)
        return self._parts(seen, info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, info = self.env.step(action)
        rest, info = self._parts(seen, info)
        return rest, reward, terminated, truncated, info

    def _parts(self, seen: Mapping[str, Any], info: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        rest = {name: part for name, part in seen.items() if name != MASK}
        return (rest[self._only] if self._only else rest), {**info, MASK: seen[MASK]}


def mask_apart(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The environment as it is, unless it has its mask among its observations."""
    seen, acted = env.observation_space, env.action_space
    within = isinstance(seen, spaces.Dict) and MASK in seen.spaces and isinstance(acted, spaces.Discrete)
    return MaskApart(env) if within else env


def mask_in(info: Mapping[str, Any], count: int) -> Bools | None:
    """What an info allows [choice]; None where it says nothing. ValueError for a mask that is none."""
    if MASK not in info:
        return None
    found: NDArray[Any] = np.asarray(info[MASK])
    if found.shape != (count,):
        raise ValueError(f"its {MASK} has shape {found.shape}, not ({count},)")
    return found.astype(np.bool_)
