"""Map data warnings to the episodes that cause them.

Sentences are matched by the functions that made them, so that none can be reworded out of its place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calql.data import findings
from calql.data.dataset import Dataset, Ints
from calql.data.inspect import COLUMNS, sentence
from calql.data.jumps import jumps


def concerned(dataset: Dataset, problems: Sequence[str], episode_limit: int | None) -> dict[str, tuple[int, ...]]:
    """Of each problem that some rows show: their episodes, counted from 0."""
    located = dict(_located(dataset, episode_limit))
    found = {}
    for problem in problems:
        rows = located.get(problem, _not_finite(dataset, problem))
        if len(rows):
            found[problem] = episodes_of(dataset, rows)
    return found


def episodes_of(dataset: Dataset, rows: Sequence[int] | Ints) -> tuple[int, ...]:
    """The episodes that rows belong to."""
    found = np.searchsorted(dataset.episode_ends, np.asarray(rows, np.int64))
    return tuple(int(episode) for episode in np.unique(found))


def repeated_rows(dataset: Dataset) -> Ints:
    """Rows whose observation, action and reward are those of an earlier row."""
    sums = findings.checksums(dataset)
    order = np.argsort(sums, kind="stable")
    again = sums[order][1:] == sums[order][:-1]
    return np.sort(order[1:][again])


def _located(dataset: Dataset, episode_limit: int | None) -> list[tuple[str, Ints]]:
    inside = ~(dataset.terminals | dataset.truncated)
    broken = np.flatnonzero(jumps(dataset) & inside)
    errors = findings.order_errors(dataset, len(broken), int(inside.sum()))
    pairs = [(f"{error.what}; {error.mend}", broken) for error in errors]
    bad = dataset.episode_ends[sorted({fault.episode for fault in findings.episode_faults(dataset)})]
    pairs += [(f"{error.what}; {error.mend}", bad) for error in findings.bad_episode_errors(dataset)]
    pairs += [(text, broken) for text in findings.missing_end_notes(len(broken))]
    pairs += [(text, _large(dataset)) for text in findings.feature_notes(dataset) if "exceed" in text]
    pairs += [(text, repeated_rows(dataset)) for text in findings.repetition_notes(dataset)]
    if episode_limit is not None:
        longer = dataset.episode_ends[dataset.episode_lengths > episode_limit]
        pairs += [(text, longer) for text in findings.length_notes(dataset, episode_limit)]
    return [(sentence(text), rows) for text, rows in pairs]


def _large(dataset: Dataset) -> Ints:
    flat = np.abs(dataset.numbers("observations").reshape(len(dataset), -1))
    return np.flatnonzero(flat.max(axis=1, initial=0.0) > findings.LARGE)


def _not_finite(dataset: Dataset, problem: str) -> Ints:
    """The rows of the columns that a problem names, where it is about values that are no numbers."""
    named = [name for name in COLUMNS if f"'{name}'" in problem]
    if not ("NaN" in problem or "inf" in problem):
        return np.zeros(0, np.int64)
    bad = np.zeros(len(dataset), np.bool_)
    for name in named:
        values = dataset.numbers(name)
        if values.dtype.kind == "f":
            bad |= ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    return np.flatnonzero(bad)
