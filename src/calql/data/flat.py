"""Columns of one length: a column numbers the episodes, or flags or lengths say where they end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import counted, flag_column, scalar_column
from calql.data.dataset import MASKS, Bools, Ints
from calql.data.reading import EXAMPLE, ROLES, Reading
from calql.data.recording import Column, Recording, no_role
from calql.data.stored import picked
from calql.system.errors import UserError

ENDS = ("episode", "terminal", "timeout")  # what may say where an episode ends
LENGTHS = "episode_lengths"  # D4RL's layout as this package writes it down
GROUPS = {"observations/": "next_observations/", "observation/": "next_observation/"}  # of dictionaries, by name


def flat_recording(arrays: Mapping[str, NDArray[Any]], reading: Reading, source: str) -> Recording:
    """The rows in their order, those of one episode together."""
    lengths = arrays.get(LENGTHS)
    columns = {name: Column.of(values) for name, values in arrays.items() if name != LENGTHS}
    plain = Recording(columns, np.zeros(0, np.int64), prefix=group_of(columns))
    _same_length(plain, reading, {name: len(arrays[name]) for name in columns}, source)
    numbered = plain.chosen("episode", reading, source)
    rows = next(iter(len(arrays[name]) for name in columns), 0)
    if numbered:
        found = _by_number(columns, arrays[numbered[0]], numbered[0], source)
    elif lengths is not None:
        found = Recording(columns, _lengths(lengths, rows, source))
    else:
        found = _by_flags(columns, _ends(plain, reading, rows, source), source)
    return _grouped(found, plain.prefix, reading)


def group_of(names: Iterable[str]) -> str:
    """What the names of observations begin with, where they are a dictionary; empty where they are not."""
    held = list(names)
    return next((g for g in GROUPS if g[:-1] not in held and any(name.startswith(g) for name in held)), "")


def _grouped(found: Recording, prefix: str, reading: Reading) -> Recording:
    """With all of a dictionary as the observation, by name, and what comes after each part."""
    if not prefix:
        return found
    members = sorted(name for name in found.columns if name.startswith(prefix))
    after = {name: GROUPS[prefix] + name.removeprefix(prefix) for name in members}
    following = {name: found.columns[other] for name, other in after.items() if other in found.columns}
    asked = reading.observations or "observation" in reading.roles
    parts = ", ".join(name.removeprefix(prefix) for name in members)
    note = () if asked else (f"observations are all parts by name: {parts} (choose others with --observations)",)
    roles = {"observation": tuple(members)}
    return replace(found, roles=roles, following=following, prefix=prefix, notes=(*found.notes, *note))


def wanted(names: list[str], reading: Reading, source: str) -> list[str]:
    """Of all names in a file, those that may be read: by what the user says, and by the names that roles have."""
    prefix = group_of(names)
    members = tuple(name for name in names if prefix and name.startswith(prefix))
    columns = {name: Column((), lambda: np.zeros(0)) for name in names}
    held = Recording(columns, np.zeros(0, np.int64), {"observation": members} if members else {}, prefix=prefix)
    by_role = {role: held.chosen(role, reading, source) for role in ROLES}
    if members:
        _refuse_masks(names, source)
        after = [GROUPS[prefix] + name.removeprefix(prefix) for name in by_role["observation"]]
        by_role["next_observation"] += tuple(name for name in after if name in columns)
    for role in ("observation", "action"):
        if not by_role[role]:
            raise no_role(role, names, reading, source)
    if LENGTHS not in names and not any(by_role[role] for role in ENDS):
        raise no_role("episode, and none the terminal step", names, reading, source)
    found = [name for chosen in by_role.values() for name in chosen]
    _, equals, named = (reading.reward or "").partition("=")
    reward = named if equals else reading.reward
    if reward and ":" not in reward and reward not in ("success", "end"):
        found.append(held.chosen_name(reward, source))
    return list(dict.fromkeys([*found, *(name for name in names if name == LENGTHS)]))


def _refuse_masks(names: Iterable[str], source: str) -> None:
    """Rather than leave out what says that an action is forbidden."""
    found = [name for name in MASKS if name in names]
    if found:
        raise UserError(
            f"has '{found[0]}' beside a dictionary of observations, and both together are not read",
            where=source,
            mend="store observations as one array, or leave the masks out",
        )


def _same_length(plain: Recording, reading: Reading, lengths: Mapping[str, int], source: str) -> None:
    if not lengths:
        raise UserError("holds no columns", where=source, mend="record at least one whole episode")
    first = next(iter(plain.chosen("observation", reading, source)), next(iter(lengths)))
    wrong = {name: length for name, length in lengths.items() if length != lengths[first]}
    if wrong:
        listed = ", ".join(f"'{name}' has {length}" for name, length in list(wrong.items())[:6])
        raise UserError(
            f"lengths disagree: '{first}' has {lengths[first]} rows, {listed}",
            where=source,
            mend="write one row per step in every column",
        )


def _by_number(columns: Mapping[str, Column], ids: NDArray[Any], name: str, source: str) -> Recording:
    if ids.ndim != 1 or not len(ids):
        raise UserError(f"'{name}' has shape {ids.shape}", where=source, mend="one number or name per row")
    gaps = ids.dtype.kind == "f" and not np.isfinite(ids).all()
    if gaps or (ids.dtype.kind == "O" and any(each is None for each in ids)):
        raise UserError(f"'{name}' is missing in some rows", where=source, mend="every row belongs to an episode")
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    _, first, of_row, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)  # episodes as they first appear
    names = [str(ids[row]) for row in first[order]]
    if len(starts) == len(first):
        return Recording(columns, counts[order].astype(np.int64), names=names)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    rows = np.argsort(rank[of_row], kind="stable")
    together = {key: _reordered(column, rows) for key, column in columns.items()}
    note = f"rows of {counted(len(first), 'episode')} lay among each other and were put together by '{name}'"
    return Recording(together, counts[order].astype(np.int64), names=names, notes=(note,))


def _reordered(column: Column, rows: Ints) -> Column:
    return column._replace(load=lambda: picked(column.load(), rows))


def _ends(plain: Recording, reading: Reading, rows: int, source: str) -> Bools:
    ends = np.zeros(rows, np.bool_)
    named = [name for role in ("terminal", "timeout") for name in plain.chosen(role, reading, source)]
    if not named:
        raise UserError("nothing says where episodes end", where=source, mend=f"name a column, {EXAMPLE}")
    for name in named:
        ends |= flag_column(plain.columns[name].load(), name, source)
    return ends


def _by_flags(columns: Mapping[str, Column], ends: Bools, source: str) -> Recording:
    """What follows the last end is left out."""
    at = np.flatnonzero(ends)
    if not len(at):
        raise UserError(
            f"holds no episode: none of its {len(ends)} rows ends one", where=source, mend="flag the last row of each"
        )
    used, lengths = int(at[-1]) + 1, np.diff(np.append(-1, at)).astype(np.int64)
    if used == len(ends):
        return Recording(columns, lengths)
    rows = np.arange(used)
    note = f"{counted(len(ends) - used, 'row')} after the last episode end left out: nothing closes them"
    return Recording({name: _reordered(column, rows) for name, column in columns.items()}, lengths, notes=(note,))


def _lengths(raw: NDArray[Any], rows: int, source: str) -> Ints:
    lengths = scalar_column(raw, LENGTHS, source)
    if (lengths < 1).any() or (lengths != np.round(lengths)).any() or int(lengths.sum()) != rows:
        raise UserError(
            f"'{LENGTHS}' does not add up to the {rows} rows", where=source, mend="give the rows of each episode"
        )
    return lengths.astype(np.int64)
