"""The columns of a raw data file: which keys they go by, what they must look like, how they are cast."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data import hints
from calql.data.dataset import MASKS, Bools, Floats, Ints
from calql.data.sources import as_float32
from calql.data.stored import Stored
from calql.system.errors import UserError
from calql.system.walk import chunks

REQUIRED = ("observations", "actions", "rewards")
ENDS = ("terminals", "timeouts", "episode_lengths")
ALSO_CALLED = {"terminated": "terminals", "truncated": "timeouts"}  # Gymnasium's names for D4RL's
KNOWN = (*REQUIRED, "next_observations", *MASKS, *ENDS, *ALSO_CALLED)

OnProblem = Callable[[UserError], None]


def stop(problem: UserError) -> None:
    """What to do with bad values unless told otherwise; a listing collects them instead."""
    raise problem


@dataclass(frozen=True)
class Columns:
    """The rows of one file as recorded, cast and of one length; nothing is left out yet."""

    observations: NDArray[Any]  # float32, or uint8 for images
    actions: Floats | Ints
    rewards: Floats
    next_observations: NDArray[Any] | None  # None: only known from the sequence
    terminals: Bools
    timeouts: Bools
    notes: tuple[str, ...]
    masks: Mapping[str, Bools]  # which actions were allowed, by the name of the column


def require_keys(present: Collection[str], source: str) -> None:
    """Stop where a column is missing, naming those that look like it."""
    missing = [key for key in REQUIRED if key not in present]
    for key, known in ALSO_CALLED.items():
        if key in present and known in present:
            raise UserError(f"has '{key}' and '{known}', which are the same", where=source, mend="keep one of them")
    if not missing and any(key in present for key in (*ENDS, *ALSO_CALLED)):
        return
    if not missing:
        raise UserError(
            "nothing says where episodes end",
            where=source,
            mend=f"add 'terminals' and 'timeouts' (one flag per row), or 'episode_lengths'{_or_named(present)}",
        )
    held = ", ".join(sorted(present)[:8]) + (", ..." if len(present) > 8 else "")
    absent = ", ".join(f"'{key}'" for key in missing)
    raise UserError(f"no {absent} among its keys ({held or 'none'})", where=source, mend=_rename(missing, present))


def _rename(missing: list[str], present: Collection[str]) -> str:
    free = sorted(set(present) - set(KNOWN))
    pairs = [(name, key) for key in missing for name in free if hints.role_of(name) == key.removesuffix("s")]
    if len(pairs) == len(missing):
        renamed = ", ".join(f"'{name}' to '{key}'" for name, key in pairs)
        return f"rename {renamed}, or say what they are: {hints.named(sorted(present), KNOWN)}"
    for key in missing:
        alike = [name for name in free if name.startswith(key[:3])] or difflib.get_close_matches(key, free, n=1)
        if alike:
            return f"rename {' or '.join(repr(name) for name in alike[:3])} to '{key}'"
    if missing == ["rewards"]:
        return "say what is rewarded: --reward end (1 in the last step), success=FLAG, a column, or package:function"
    return f"D4RL's key names are needed: {', '.join(REQUIRED)}, terminals, timeouts"


def _or_named(present: Collection[str]) -> str:
    """How a column that seems to be such a flag is named."""
    free = [name for name in sorted(present) if hints.role_of(name) in ("terminal", "timeout", "episode")]
    return f"; or say which column it is, with {hints.named(free, KNOWN)}" if free else ""


def read_columns(arrays: Mapping[str, NDArray[Any]], source: str, *, on_problem: OnProblem = stop) -> Columns:
    """Check and cast the columns; values that are not numbers go to `on_problem`, all else stops here."""
    require_keys(arrays.keys(), source)
    arrays = {ALSO_CALLED.get(key, key): array for key, array in arrays.items()}
    observations = observation_column(arrays["observations"], "observations", source)
    rows = len(observations)
    if rows == 0:
        raise UserError("'observations' has no rows", where=source, mend="record at least one whole episode")
    actions = action_column(arrays["actions"], source)
    rewards = to_float32(scalar_column(arrays["rewards"], "rewards", source))
    following = None
    if "next_observations" in arrays:
        following = observation_column(arrays["next_observations"], "next_observations", source)
        if following.shape[1:] != observations.shape[1:] or following.dtype != observations.dtype:
            raise UserError(
                f"'next_observations' is {following.dtype} {following.shape} and 'observations' is "
                f"{observations.dtype} {observations.shape}",
                where=source,
                mend="store both in the same form",
            )
    flags = {key: flag_column(arrays[key], key, source) for key in ENDS[:2] if key in arrays}
    masks = {key: mask_column(arrays[key], key, actions, source) for key in MASKS if key in arrays}
    columns = {"actions": actions, "rewards": rewards, "next_observations": following, **flags, **masks}
    same_length({key: len(value) for key, value in columns.items() if value is not None}, rows, source)
    for key, values in {"observations": observations, **columns}.items():
        if values is not None:
            check_finite(values, key, source, on_problem)
    terminals, timeouts, notes = _ends(flags, arrays.get("episode_lengths"), rows, source)
    return Columns(observations, actions, rewards, following, terminals, timeouts, notes, masks)


def _ends(
    flags: Mapping[str, Bools], lengths: NDArray[Any] | None, rows: int, source: str
) -> tuple[Bools, Bools, tuple[str, ...]]:
    """Terminal and time-out flags; ends known only from 'episode_lengths' are time-outs."""
    terminals = flags.get("terminals", np.zeros(rows, np.bool_))
    timeouts = flags.get("timeouts", np.zeros(rows, np.bool_))
    notes = []
    if "terminals" not in flags:
        notes.append("no 'terminals' are stored: no step is taken as terminal")
    if lengths is not None:
        ends = np.zeros(rows, np.bool_)
        ends[np.cumsum(_lengths(lengths, rows, source)) - 1] = True
        only_here = ends & ~terminals & ~timeouts
        timeouts = timeouts | only_here
        if only_here.any():
            ends_here = counted(int(only_here.sum()), "episode end")
            notes.append(f"{ends_here} known from 'episode_lengths' only: taken as time-outs")
    elif "timeouts" not in flags:
        notes.append("no 'timeouts' are stored: an episode ends at terminal rows only")
    return terminals, timeouts, tuple(notes)


def _lengths(raw: NDArray[Any], rows: int, source: str) -> Ints:
    lengths = scalar_column(raw, "episode_lengths", source)
    if not np.array_equal(lengths, np.round(lengths)) or lengths.min(initial=1) < 1:
        raise UserError(
            "'episode_lengths' holds values that are not whole numbers from 1 on",
            where=source,
            mend="give the number of rows of each episode",
        )
    if int(lengths.sum()) != rows:
        raise UserError(
            f"'episode_lengths' adds up to {int(lengths.sum())} and 'observations' has {rows} rows",
            where=source,
            mend="give the number of rows of each episode, in recorded order",
        )
    return lengths.astype(np.int64)


def same_length(lengths: Mapping[str, int], rows: int, source: str) -> None:
    wrong = {key: length for key, length in lengths.items() if length != rows}
    if wrong:
        listed = ", ".join(f"'{key}' has {length}" for key, length in wrong.items())
        raise UserError(
            f"lengths disagree: 'observations' has {rows} rows, {listed}",
            where=source,
            mend="write one row per transition in every column",
        )


def observation_column(raw: NDArray[Any], name: str, source: str) -> NDArray[Any]:
    """[row, ...]: float32, or uint8 where a row is an image."""
    values = raw if isinstance(raw, Stored) else np.asarray(raw)
    _require_numbers(values, name, source)
    if values.ndim < 2 or 0 in values.shape[1:]:
        raise UserError(
            f"'{name}' has shape {values.shape}",
            where=source,
            mend="one row per step and at least one feature",
        )
    return values if values.dtype == np.uint8 and values.ndim > 2 else to_float32(values)


def action_column(raw: NDArray[Any], source: str) -> Floats | Ints:
    """[row, action], continuous; or whole numbers [row], where one of several actions was chosen."""
    values = _numbers(raw, "actions", source)
    if values.ndim == 2 and values.shape[1] > 0:
        return to_float32(values)
    if values.ndim == 1 and values.dtype.kind in "iub":
        return values.astype(np.int64)
    raise UserError(
        f"'actions' has shape {values.shape} and type {values.dtype}",
        where=source,
        mend="store continuous actions as [row, action], and discrete ones as whole numbers [row]",
    )


def mask_column(raw: NDArray[Any], name: str, actions: NDArray[Any], source: str) -> Bools:
    """[row, choice] of true or false, also where stored as 0 and 1."""
    values = _numbers(raw, name, source)
    if actions.ndim != 1:
        raise UserError(f"has '{name}' and continuous actions", where=source, mend="leave one of them out")
    if values.ndim != 2:
        raise UserError(f"'{name}' has shape {values.shape}", where=source, mend="one flag per action: [row, choice]")
    strange = ((values != 0) & (values != 1)).any(axis=1)
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        raise UserError(f"'{name}' holds {values[row]} in row {row}", where=source, mend="flags must be 0 or 1")
    return values.astype(np.bool_)


def scalar_column(raw: NDArray[Any], name: str, source: str) -> NDArray[np.float64]:
    """[row]; D4RL stores some as [row, 1]."""
    values = _numbers(raw, name, source)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise UserError(f"'{name}' has shape {values.shape}", where=source, mend="one number per row")
    return values.astype(np.float64)


def flag_column(raw: NDArray[Any], name: str, source: str) -> Bools:
    """[row] of true or false, also where stored as 0 and 1."""
    values = scalar_column(raw, name, source)
    strange = (values != 0.0) & (values != 1.0)
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        raise UserError(f"'{name}' holds {values[row]} in row {row}", where=source, mend="flags must be 0 or 1")
    return values.astype(np.bool_)


def check_finite(values: Any, name: str, source: str, on_problem: OnProblem = stop) -> None:
    """Which column holds values that are not finite, from which row on, and how many."""
    rows, count, nans = bad_values(values)
    if not count:
        return
    what = "NaN" if nans == count else "NaN or inf" if nans else "inf"
    on_problem(
        UserError(
            f"'{name}' holds {counted(count, f'{what} value')} in {counted(len(rows), 'row')}, "
            f"the first in row {rows[0]}",
            where=source,
            mend="mend them, or go on without their episodes with --drop-bad-episodes",
        )
    )


def bad_values(values: Any) -> tuple[Ints, int, int]:
    """Rows with values that are not finite, how many such values there are, and how many of them are NaN."""
    rows: list[Ints] = [np.zeros(0, np.int64)]
    count = nans = 0
    for part in chunks(values) if values.dtype.kind == "f" else ():
        chunk = values[part]
        bad = ~np.isfinite(chunk)
        if bad.any():
            rows.append(part.start + np.flatnonzero(bad.reshape(len(chunk), -1).any(axis=1)))
            count, nans = count + int(bad.sum()), nans + int(np.isnan(chunk).sum())
    return np.concatenate(rows), count, nans


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def to_float32(values: Any) -> Any:
    if isinstance(values, Stored):
        return as_float32(values)
    with np.errstate(over="ignore"):  # what is too large becomes inf, and is reported as such
        return np.asarray(values, np.float32)


def _numbers(raw: NDArray[Any], name: str, source: str) -> NDArray[Any]:
    values = np.asarray(raw)
    _require_numbers(values, name, source)
    return values


def _require_numbers(values: Any, name: str, source: str) -> None:
    if values.dtype.kind not in "fiub":
        raise UserError(f"'{name}' holds {values.dtype}, not numbers", where=source, mend="store plain numeric arrays")
