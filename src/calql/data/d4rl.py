"""D4RL's flat layout made into transitions, by the rules that published results rest on.

Where the file stores no `next_observations`, the observation after a row is the one of the following
row. That makes a time-out row useless (what follows it is the next reset) and the very last row too.
An episode, here a piece, is closed by a terminal or a time-out; what follows the last close is open
and left out. A recording that goes on after a terminal step becomes a piece of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import Columns, OnProblem, counted, read_columns, stop
from calql.data.dataset import Bools, Dataset, Ints
from calql.data.stored import picked
from calql.system.errors import UserError


def from_d4rl_arrays(arrays: Mapping[str, NDArray[Any]], source: str, *, on_problem: OnProblem = stop) -> Dataset:
    """Arrays by D4RL's key names, as transitions; everything left out is counted in `notes`."""
    columns = read_columns(arrays, source, on_problem=on_problem)
    closes = columns.terminals | columns.timeouts
    if not closes.any():
        raise UserError(
            f"holds no episode: none of its {len(closes)} rows ends one",
            where=source,
            mend="set 'terminals' or 'timeouts' at the last row of each episode",
        )
    piece: Ints = np.cumsum(closes) - closes  # of each row: how many pieces closed before it
    closed: Bools = piece < closes.sum()
    build = _from_sequence if columns.next_observations is None else _from_stored
    return build(columns, piece, closed, source)


def _from_stored(columns: Columns, piece: Ints, closed: Bools, source: str) -> Dataset:
    """Every row of a closed piece is usable; a time-out row is a truncated one."""
    assert columns.next_observations is not None
    notes = [*columns.notes, *_open_note(closed)]
    if kept := int((columns.timeouts & ~columns.terminals).sum()):
        notes.append(f"{counted(kept, 'time-out row')} kept as truncated: 'next_observations' are stored")
    return Dataset(
        observations=picked(columns.observations, closed),
        actions=columns.actions[closed],
        rewards=columns.rewards[closed],
        next_observations=picked(columns.next_observations, closed),
        terminals=columns.terminals[closed],
        truncated=columns.timeouts[closed],
        source=source,
        notes=tuple(notes),
        **_at(columns.masks, closed),
    )


def _from_sequence(columns: Columns, piece: Ints, closed: Bools, source: str) -> Dataset:
    """Rows whose next observation is the following row's; the last one kept of a piece ends it."""
    keep = closed & ~columns.timeouts
    keep[-1] = False
    rows = np.flatnonzero(keep)
    if rows.size == 0:
        raise UserError(
            f"holds no usable transition in {len(keep)} rows",
            where=source,
            mend="store 'next_observations', or episodes of at least two rows",
        )
    of_piece = piece[rows]
    last: Bools = np.append(of_piece[1:] != of_piece[:-1], True)
    terminals = columns.terminals[rows]
    return Dataset(
        observations=picked(columns.observations, rows),
        actions=columns.actions[rows],
        rewards=columns.rewards[rows],
        next_observations=picked(columns.observations, rows + 1),
        terminals=terminals,
        truncated=last & ~terminals,
        source=source,
        notes=(*columns.notes, *_left_out(columns, closed, pieces_kept=int(last.sum()))),
        **_masks(columns.masks, rows),
    )


def _at(masks: Mapping[str, Bools], rows: Ints | Bools) -> dict[str, Any]:
    return {name: mask[rows] for name, mask in masks.items()}


def _masks(masks: Mapping[str, Bools], rows: Ints) -> dict[str, Any]:
    """What was allowed at those rows, and after them: the following row says it where no column does."""
    found = _at(masks, rows)
    return {"next_action_masks": masks["action_masks"][rows + 1], **found} if "action_masks" in masks else found


def _left_out(columns: Columns, closed: Bools, *, pieces_kept: int) -> list[str]:
    notes = _open_note(closed)
    if timeouts := int(columns.timeouts.sum()):
        also = int((columns.timeouts & columns.terminals).sum())
        both = f" ({also} of them also terminal)" if also else ""
        rows = counted(timeouts, "time-out row")
        notes.append(f"{rows} left out{both}: the following observation is not stored")
    if columns.terminals[-1] and not columns.timeouts[-1]:
        notes.append(
            "the last row is terminal and left out, as the observation after it is not stored: its episode "
            "loses its end (store 'next_observations' to keep it)"
        )
    pieces = int((columns.terminals | columns.timeouts).sum())
    if empty := pieces - pieces_kept:
        notes.append(f"{counted(empty, 'episode')} of one row left out with that row")
    return notes


def _open_note(closed: Bools) -> list[str]:
    rows = int((~closed).sum())
    return [f"{counted(rows, 'row')} after the last episode end left out: nothing closes them"] if rows else []
