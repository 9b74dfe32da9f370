"""From a recording to transitions: columns chosen, rewards given, every episode looked at on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import (
    OnProblem,
    action_column,
    bad_values,
    check_finite,
    counted,
    flag_column,
    same_length,
    scalar_column,
    stop,
)
from calql.data.dataset import Bools, Dataset, Fault, Floats, Ints
from calql.data.findings import not_finite
from calql.data.packing import Observed, put_together, vector
from calql.data.reading import Reading
from calql.data.recording import Column, Recording, Trouble, no_role
from calql.data.reward_map import mapped_rewards
from calql.data.stored import picked
from calql.system.errors import UserError
from calql.system.layout import Layout


@dataclass(frozen=True)
class _Rows:
    """The chosen columns, all of the same rows."""

    observations: NDArray[Any]
    following: NDArray[Any] | None
    actions: Floats | Ints
    rewards: Floats
    terminals: Bools
    timeouts: Bools
    episode: Ints  # of the recording, for each row

    def select(self, rows: NDArray[Any]) -> _Rows:
        following = None if self.following is None else picked(self.following, rows)
        rest = (self.actions, self.rewards, self.terminals, self.timeouts, self.episode)
        return _Rows(picked(self.observations, rows), following, *(column[rows] for column in rest))


def assemble(recording: Recording, reading: Reading, source: str, on_problem: OnProblem = stop) -> Dataset:
    """Transitions of all episodes; the bad ones are among them and listed in `faults`."""
    if not len(recording.lengths) or int(recording.lengths.sum()) == 0:
        raise UserError("holds no episode", where=source, mend="record at least one whole episode")
    rows, seen, notes = _rows(recording, reading, source)
    same_length({"actions": len(rows.actions), "episodes": len(rows.episode)}, len(rows.observations), source)
    check_finite(_numbers(rows.observations, seen.layout), "observations", source, on_problem)
    for name in ("actions", "rewards"):
        check_finite(getattr(rows, name), name, source, on_problem)
    if rows.following is not None:
        check_finite(_numbers(rows.following, seen.layout), "next_observations", source, on_problem)
    troubles = [*recording.troubles, *_backwards(recording, reading, source), *_not_finite(rows, seen.layout)]
    rows, cut = _until_terminal(rows)
    made, left_out = _transitions(rows, source)
    of_episode = made.episode[np.flatnonzero(made.terminals | made.timeouts)]
    assert made.following is not None
    return Dataset(
        observations=made.observations,
        actions=made.actions,
        rewards=made.rewards,
        next_observations=made.following,
        terminals=made.terminals,
        truncated=made.timeouts,
        source=source,
        notes=(*recording.notes, *notes, *cut, *left_out),
        parts=seen.parts,
        layout=seen.layout,
        camera=seen.camera,
        faults=_faults(recording, troubles, of_episode),
    )


def _rows(recording: Recording, reading: Reading, source: str) -> tuple[_Rows, Observed, list[str]]:
    names, notes = _observed(recording, reading, source)
    seen = put_together(_short(recording, {name: recording.columns[name] for name in names}), source)
    actions = _actions(recording, reading, source)
    terminals, timeouts = (_flags(recording, role, reading, source) for role in ("terminal", "timeout"))
    rewards, terminals, told = mapped_rewards(recording, reading, terminals, source)
    rows = _Rows(
        seen.values,
        _following(recording, reading, names, seen, source),
        actions,
        rewards,
        terminals,
        timeouts,
        np.repeat(np.arange(len(recording.lengths)), recording.lengths),
    )
    return rows, seen._replace(values=np.empty(0)), [*notes, *told]


def _short(recording: Recording, columns: Mapping[str, Column]) -> dict[str, Column]:
    """By the names that people use, without what a format puts before them."""
    return {name.removeprefix(recording.prefix): column for name, column in columns.items()}


def _observed(recording: Recording, reading: Reading, source: str) -> tuple[tuple[str, ...], list[str]]:
    """Which columns are the observation; where there are several that could be, the user has to say."""
    names = recording.chosen("observation", reading, source)
    if names:
        return names, []
    could = recording.observed()
    vectors = [name for name in could if not recording.columns[name].image]
    cameras = [name for name in could if name not in vectors]
    short = [name.removeprefix(recording.prefix) for name in (*vectors, *cameras)]
    if len(vectors) == 1:
        with_them = f" (with --observations {' '.join(short[:4])} they are)"
        return (vectors[0],), [f"cameras not read: {', '.join(cameras)}{with_them}"] if cameras else []
    if cameras and not vectors:
        took = [f"observations are all cameras: {', '.join(short)} (choose others with --observations)"]
        return tuple(cameras), took if len(cameras) > 1 else []
    if not could:
        raise no_role("observation", recording.columns, reading, source)
    listed = ", ".join(f"{name.removeprefix(recording.prefix)} {recording.columns[name].shape}" for name in could[:12])
    both = [*short[:2], *(name.removeprefix(recording.prefix) for name in cameras[:1])]
    raise UserError(
        f"observations are a dictionary of {listed}{', ...' if len(could) > 12 else ''}",
        where=source,
        mend=f"choose and order them, as --observations {' '.join(both)}",
    )


def _actions(recording: Recording, reading: Reading, source: str) -> Floats | Ints:
    """[row, action]; one column of whole numbers is a choice among several [row]."""
    names = recording.chosen("action", reading, source)
    if not names:
        raise no_role("action", recording.columns, reading, source)
    if len(names) == 1 and recording.columns[names[0]].shape == ():
        values = recording.columns[names[0]].load()
        if values.dtype.kind in "iub":
            return action_column(values, source)
    return action_column(np.concatenate([vector(recording.columns[n], n, source) for n in names], axis=1), source)


def _flags(recording: Recording, role: str, reading: Reading, source: str) -> Bools:
    names = recording.chosen(role, reading, source)
    if not names:
        return np.zeros(int(recording.lengths.sum()), np.bool_)
    return flag_column(recording.columns[names[0]].load(), names[0], source)


def _following(
    recording: Recording, reading: Reading, names: tuple[str, ...], seen: Observed, source: str
) -> NDArray[Any] | None:
    """Next observations as they were stored; None where they are known from the sequence only."""
    asked = recording.chosen("next_observation", reading, source)
    if asked:
        found = {name: recording.columns[name] for name in asked}
    elif all(name in recording.following for name in names):
        found = {name: recording.following[name] for name in names}
    else:
        return None
    after = put_together(found, source)
    if after.values.shape != seen.values.shape or _forms(after.layout) != _forms(seen.layout):
        raise UserError(
            f"next observations have shape {after.values.shape[1:]} and observations {seen.values.shape[1:]}",
            where=source,
            mend="choose the same columns for both, in the same order",
        )
    return after.values


def _forms(layout: Layout | None) -> list[Any]:
    """What is packed how, whatever it is called."""
    return [] if layout is None else [piece[1:] for piece in layout.pieces]


def _numbers(values: NDArray[Any], layout: Layout | None) -> NDArray[Any]:
    return values if layout is None else layout.vectors_of(values)


def _until_terminal(rows: _Rows) -> tuple[_Rows, list[str]]:
    """An episode ends with its first terminal step; what was recorded after it is left out."""
    before: Ints = np.cumsum(rows.terminals) - rows.terminals
    first = np.searchsorted(rows.episode, rows.episode)  # the first row of each row's episode
    keep: Bools = before == before[first]
    if keep.all():
        return rows, []
    return rows.select(np.flatnonzero(keep)), [f"{counted(int((~keep).sum()), 'row')} after a terminal step left out"]


def _transitions(rows: _Rows, source: str) -> tuple[_Rows, list[str]]:
    """Rows with the observation after each; a row that has none and is not terminal is left out, and ends nothing."""
    ends = np.append(rows.episode[1:] != rows.episode[:-1], True) | rows.terminals | rows.timeouts
    if rows.following is not None:
        return _closed(rows, ends), []
    keep = ~ends | rows.terminals
    after = np.arange(len(ends)) + ~ends  # nothing follows a terminal row that could matter
    if not keep.any():
        raise UserError(
            "holds no episode of two rows", where=source, mend="store next observations, or longer episodes"
        )
    chosen = np.flatnonzero(keep)
    piece: Ints = (np.cumsum(ends) - ends)[chosen]
    last = np.append(piece[1:] != piece[:-1], True)
    kept = rows.select(chosen)
    following = picked(rows.observations, after[chosen])
    return _closed(replace(kept, following=following), last), _left_out(rows, keep)


def _closed(rows: _Rows, ends: Bools) -> _Rows:
    truncated = rows.timeouts | (ends & ~rows.terminals)
    return replace(rows, timeouts=truncated)


def _left_out(rows: _Rows, keep: Bools) -> list[str]:
    lost = int((~keep).sum())
    if not lost:
        return []
    worth = int((rows.rewards[~keep] != 0).sum())
    told = (
        f" ({worth} of them with a reward that is not 0: where the task ends there, say so with --columns "
        "terminal=NAME or --reward)"
        if worth
        else ""
    )
    last = "the last row of 1 episode" if lost == 1 else f"the last rows of {lost} episodes"
    return [f"{last} left out, as the observation after is not stored{told}"]


def _backwards(recording: Recording, reading: Reading, source: str) -> list[Trouble]:
    names = recording.chosen("time", reading, source)
    if not names:
        return []
    time = scalar_column(recording.columns[names[0]].load(), names[0], source)
    episode = np.repeat(np.arange(len(recording.lengths)), recording.lengths)
    back = np.flatnonzero((np.diff(time) < 0) & (episode[1:] == episode[:-1]))
    return [Trouble(int(e), f"'{names[0]}' goes backwards") for e in np.unique(episode[back])]


def _not_finite(rows: _Rows, layout: Layout | None) -> list[Trouble]:
    found = []
    columns = {"observations": _numbers(rows.observations, layout), "actions": rows.actions, "rewards": rows.rewards}
    for name, values in columns.items():
        bad, _, _ = bad_values(values)
        found += [Trouble(int(e), not_finite(name)) for e in np.unique(rows.episode[bad])]
    return found


def _faults(recording: Recording, troubles: list[Trouble], of_episode: Ints) -> tuple[Fault, ...]:
    """By the episodes of the dataset, of which one recorded episode may have become several, or none."""
    by_recorded: dict[int, list[str]] = {}
    for trouble in troubles:
        by_recorded.setdefault(trouble.episode, []).append(trouble.what)
    return tuple(
        Fault(episode, recording.name(int(recorded)), what)
        for episode, recorded in enumerate(of_episode)
        for what in by_recorded.get(int(recorded), ())
    )
