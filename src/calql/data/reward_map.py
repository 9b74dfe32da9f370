"""Rewards from what people have: a column, success flags, one reward at the end, or a function of their own.

Every map says in one sentence what it did, and is refused where it gives no episode anything.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import counted, flag_column, scalar_column, to_float32
from calql.data.dataset import Bools, Dataset, Floats, Ints
from calql.data.reading import Reading
from calql.data.recording import Recording
from calql.system.errors import UserError
from calql.system.walk import chunks

WAYS = "--reward COLUMN, --reward success=FLAG, --reward end (demonstrations that succeed) or --reward package:function"

Mapped = tuple[Floats, Bools, list[str]]  # rewards, terminal flags, what was done
RewardFunction = Callable[[Any, Any, Any], Any]  # of observations, actions, next observations: [row]


def mapped_rewards(recording: Recording, reading: Reading, terminals: Bools, source: str) -> Mapped:
    """Rewards of all rows, and the terminal flags, to which a success or an end may add."""
    kind, _, name = (reading.reward or "").partition("=")
    if is_function(reading.reward):  # once the transitions are there
        return np.zeros(len(terminals), np.float32), terminals, []
    if kind == "success":
        return _by_success(recording, reading, name, terminals, source)
    if kind == "end":
        return _at_the_end(recording, name, terminals, source)
    column = reading.reward or next(iter(recording.chosen("reward", reading, source)), None)
    if column is None:
        raise UserError("nothing says what the reward is", where=source, mend=f"give {WAYS}")
    rewards = to_float32(scalar_column(_column(recording, column, source), column, source))
    told = [] if reading.reward is None else [f"reward: column '{column}', {_range(rewards)}"]
    return rewards, terminals, told


def _by_success(recording: Recording, reading: Reading, name: str, terminals: Bools, source: str) -> Mapped:
    """1 in the first step of an episode that succeeds, which ends it; 0 before."""
    column = name or next(iter(recording.chosen("success", reading, source)), None)
    if column is None:
        raise UserError(
            "no column says that it is the success flag", where=source, mend="name it: --reward success=FLAG"
        )
    flags = flag_column(_column(recording, column, source), column, source)
    before: Ints = np.cumsum(flags) - flags
    starts = np.repeat(np.cumsum(recording.lengths) - recording.lengths, recording.lengths)
    first = flags & (before == before[starts])
    reached = int(first.sum())
    if not reached:
        raise UserError(f"'{column}' is never true: no episode earns a reward", where=source, mend=f"give {WAYS}")
    told = f"reward: 1 where '{column}' is first true, which ends the episode, else 0: " + _earned(reached, recording)
    return first.astype(np.float32), first, [told]


def _at_the_end(recording: Recording, name: str, terminals: Bools, source: str) -> Mapped:
    """The value of a column in the last row of each episode, or 1; a last step that earns something is terminal."""
    last = np.cumsum(recording.lengths)[recording.lengths > 0] - 1
    rewards = np.zeros(len(terminals), np.float32)
    if name:
        rewards[last] = to_float32(scalar_column(_column(recording, name, source), name, source)[last])
    else:
        rewards[last] = 1.0
    earned = rewards != 0
    if not earned.any():
        raise UserError(f"'{name}' is 0 at the end of every episode", where=source, mend=f"give {WAYS}")
    value = f"'{name}'" if name else "1"
    told = f"reward: {value} in the last step of an episode, which is terminal if that is not 0: "
    return rewards, terminals | earned, [told + _earned(int(earned.sum()), recording)]


def _column(recording: Recording, name: str, source: str) -> Any:
    return recording.columns[recording.chosen_name(name, source)].load()


def _earned(count: int, recording: Recording) -> str:
    return f"{count} of {counted(int((recording.lengths > 0).sum()), 'episode')} earn{'s' * (count == 1)} it"


def _range(rewards: Floats) -> str:
    finite = rewards[np.isfinite(rewards)]
    return f"{finite.min() + 0.0:g} to {finite.max() + 0.0:g}" if finite.size else "no finite value"


def is_function(reward: str | None) -> bool:
    """Whether the reward names a function to import."""
    return reward is not None and ":" in reward


def _by_name(dataset: Dataset, rows: NDArray[Any]) -> Any:
    """Observations for a user's function: those that are packed as a dictionary of arrays."""
    return rows if dataset.layout is None else dataset.layout.apart(rows)


def by_function(dataset: Dataset, path: str) -> Dataset:
    """The dataset with the rewards that a user's function gives for all its rows at once."""
    function = _imported(path)
    try:
        given = np.concatenate([np.asarray(function(*columns)) for columns in _pieces(dataset)])
    except Exception as error:
        raise UserError(
            f"the reward function raised {type(error).__name__} ({error})",
            where=path,
            mend="it is called with observations, actions and next observations of all rows",
        ) from error
    if given.shape not in ((len(dataset),), (len(dataset), 1)) or given.dtype.kind not in "fiub":
        raise UserError(
            f"the reward function gave {given.dtype} {given.shape} for {len(dataset)} rows",
            where=path,
            mend="it must give one number a row",
        )
    rewards = to_float32(given.reshape(-1))
    if not np.isfinite(rewards).all():
        row = int(np.flatnonzero(~np.isfinite(rewards))[0])
        raise UserError(f"the reward function gave {rewards[row]} in row {row}", where=path, mend="give finite numbers")
    note = f"reward: {path} of observations, actions and next observations, {_range(rewards)}"
    return replace(dataset, rewards=rewards, notes=(*dataset.notes, note))


def _pieces(dataset: Dataset) -> Iterator[tuple[Any, ...]]:
    """Its columns at once; those of data that stay on disk chunk by chunk."""
    rows = chunks(dataset.observations) if dataset.stored else [slice(None)]
    for part in rows:
        seen, after = (_by_name(dataset, column[part]) for column in (dataset.observations, dataset.next_observations))
        yield seen, dataset.actions[part], after


def _imported(path: str) -> RewardFunction:
    module, _, name = path.partition(":")
    try:
        found: RewardFunction = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise UserError(
            f"the reward function cannot be imported ({type(error).__name__}: {error})",
            where=path,
            mend="name it as package:function, with the package on PYTHONPATH",
        ) from error
    if not callable(found):
        raise UserError(f"the reward function is a {type(found).__name__}", where=path, mend="name a function")
    return found
