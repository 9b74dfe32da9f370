"""What is wrong with logged data, as far as they alone can tell: one set of checks for `data inspect` and for `train`.

An error is what no training can make sense of, and is refused. A warning is what is probably a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.columns import bad_values, counted
from calql.data.dataset import Dataset, Fault
from calql.data.jumps import jumps
from calql.data.stored import Stored
from calql.system.errors import UserError
from calql.system.walk import chunks, extremes

LARGE = 1e4  # size of an observation from which on networks learn badly
MOST_REPEATED = 0.01  # share of rows
SHUFFLED = 0.7  # of the distance between any two rows, at which consecutive ones are no longer neighbours
FEWEST = 50  # rows, below which that distance says little
SAMPLE = 100_000
CLIPPED = 0.1  # share of rows at the very largest or smallest value, from which on a column looks cut off
VARIED = 50  # different values, below which a column is rather a switch
LISTED = 8  # episodes and features named in a message
LAST_TERMINAL = "the last row is terminal and left out"  # as the reader of D4RL's layout notes it


@dataclass(frozen=True)
class Findings:
    errors: tuple[UserError, ...]
    warnings: tuple[str, ...]


def findings(dataset: Dataset, episode_limit: int | None = None) -> Findings:
    """Errors and warnings; with the time limit of an environment, also whether episodes keep to it."""
    broken, inside = broken_sequence(dataset), int((~(dataset.terminals | dataset.truncated)).sum())
    errors = [
        *_form_errors(dataset),
        *bad_episode_errors(dataset),
        *_constant_successors(dataset, broken, inside),
        *order_errors(dataset, broken, inside),
    ]
    warnings = [
        *_rewards(dataset),
        *_ends(dataset),
        *([] if errors else missing_end_notes(broken)),
        *([] if errors else _shuffled(dataset)),
        *feature_notes(dataset),
        *_actions(dataset),
        *_clipped(dataset),
        *repetition_notes(dataset),
        *([] if episode_limit is None else length_notes(dataset, episode_limit)),
    ]
    return Findings(tuple(errors), tuple(warnings))


def require_sound(dataset: Dataset, episode_limit: int) -> list[str]:
    """Refuse what no training can make sense of; the warnings about the rest."""
    found = findings(dataset, episode_limit)
    if found.errors:
        raise found.errors[0]
    return list(found.warnings)


def episode_faults(dataset: Dataset) -> tuple[Fault, ...]:
    """What is wrong with single episodes: what their reader saw, and values that are not finite."""
    known = {fault.episode for fault in dataset.faults}
    found = list(dataset.faults)
    for name in ("observations", "actions", "rewards", "next_observations"):
        bad, _, _ = bad_values(dataset.numbers(name))
        episodes = np.unique(np.searchsorted(dataset.episode_ends, bad))
        found += [Fault(int(e), str(e), not_finite(name)) for e in episodes if e not in known]
        known.update(map(int, episodes))
    return tuple(found)


def not_finite(column: str) -> str:
    """The words for a fault that readers and checks both find."""
    return f"NaN or inf in '{column}'"


def without_bad_episodes(dataset: Dataset) -> Dataset:
    """The dataset without the episodes that have faults; how many they were, and why, is in its notes."""
    faults = episode_faults(dataset)
    bad = {fault.episode for fault in faults}
    if not bad:
        return dataset
    episodes = len(dataset.episode_ends)
    good = [episode for episode in range(episodes) if episode not in bad]
    if not good:
        raise UserError(
            f"every one of its {counted(episodes, 'episode')} is bad: {'; '.join(_by_kind(faults))}",
            where=dataset.source,
            mend="look at it with calql data inspect",
        )
    note = f"{len(bad)} of {counted(episodes, 'episode')} dropped: {'; '.join(_by_kind(faults))}"
    kept = dataset.select_episodes(good)
    return replace(kept, notes=(*dataset.notes, note))


def _by_kind(faults: tuple[Fault, ...]) -> list[str]:
    """The same fault of several episodes in one phrase."""
    kinds: dict[str, list[str]] = {}
    for fault in faults:
        kinds.setdefault(fault.what, []).append(fault.name)
    return [f"{what} (episode{'s' * (len(names) > 1)} {_some(names)})" for what, names in kinds.items()]


def _some(names: Sequence[object]) -> str:
    return ", ".join(map(str, names[:LISTED])) + (", ..." if len(names) > LISTED else "")


def bad_episode_errors(dataset: Dataset) -> list[UserError]:
    """Episodes that cannot be learned from, in one error."""
    faults = episode_faults(dataset)
    if not faults:
        return []
    bad = len({fault.episode for fault in faults})
    are = "is" if bad == 1 else "are"
    return [
        UserError(
            f"{bad} of {counted(len(dataset.episode_ends), 'episode')} {are} bad: {'; '.join(_by_kind(faults))}",
            where=dataset.source,
            mend="mend them, or go on without them with --drop-bad-episodes",
        )
    ]


def _form_errors(dataset: Dataset) -> list[UserError]:
    """Observations that are neither a vector nor a picture, which no network here takes."""
    observations = dataset.observations
    axes = 4 if observations.dtype == np.uint8 and dataset.layout is None else 2
    if len(observations.shape) == axes:
        return []
    return [
        UserError(
            f"'observations' holds {observations.dtype} of shape {list(observations.shape[1:])} in each row",
            where=dataset.source,
            mend="store vectors as [row, feature], and pictures as uint8 [row, pixel row, pixel column, colour]",
        )
    ]


def broken_sequence(dataset: Dataset) -> int:
    """Rows inside an episode whose next observation is not the observation of the following row."""
    inside = ~(dataset.terminals | dataset.truncated)
    return int((jumps(dataset) & inside).sum())


def duplicate_rows(dataset: Dataset) -> int:
    """Rows whose observation, action and reward are those of an earlier row, by a checksum of 64 bits."""
    known = dataset.observations.facts.get("repeated_rows") if isinstance(dataset.observations, Stored) else None
    return len(dataset) - len(np.unique(checksums(dataset))) if known is None else int(known)


def checksums(dataset: Dataset) -> NDArray[np.uint64]:
    """[row]: of its observation, action and reward."""
    parts = [
        row_sums(dataset.observations[rows], dataset.actions[rows], dataset.rewards[rows])
        for rows in chunks(dataset.observations)
    ]
    return np.concatenate(parts)


def constant_features(dataset: Dataset) -> tuple[int, ...]:
    """Features of vector observations that have one value throughout; images have none."""
    observations = dataset.vectors
    if observations is None or len(observations) < 2:
        return ()
    first, same = observations[0], np.ones(observations.shape[1], np.bool_)
    for rows in chunks(observations):
        same &= (observations[rows] == first).all(axis=0)
    return tuple(int(i) for i in np.flatnonzero(same))


def row_sums(*parts: NDArray[Any]) -> NDArray[np.uint64]:
    """Of each row: its bytes as 64-bit numbers, each times an odd number of its place."""
    raw = [np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in parts]
    joined = np.concatenate(raw, axis=1)
    words = np.ascontiguousarray(np.pad(joined, ((0, 0), (0, -joined.shape[1] % 8)))).view(np.uint64)
    factors = np.random.default_rng(0).integers(0, 2**64, words.shape[1], np.uint64) | np.uint64(1)
    mixed = (words ^ (words >> np.uint64(29))) * factors  # the low bits of a float are often the same
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64))


def _constant_successors(dataset: Dataset, broken: int, inside: int) -> list[UserError]:
    """Rows that all have one next observation; none where these are the following rows', as those made of them are."""
    if inside and not broken:
        return []
    following = dataset.next_observations
    if len(dataset) < 2 or not _one_value(following) or _one_value(dataset.observations):
        return []
    value = " (all zero)" if not following[0].any() else ""
    return [
        UserError(
            f"'next_observations' are the same in every row{value}",
            where=dataset.source,
            mend="record them, or leave the column out: they are then taken from the following row",
        )
    ]


def _one_value(column: Any) -> bool:
    """Whether all rows are the same; most differ soon."""
    first = column[:1]
    return all(bool((column[rows] == first).all()) for rows in chunks(column))


def order_errors(dataset: Dataset, broken: int, inside: int) -> list[UserError]:
    """Rows that do not follow each other in more than half of the places where they should."""
    if 2 * broken <= inside:
        return []
    return [
        UserError(
            f"{broken} of {inside} rows inside episodes have a next observation that is not the following row's: "
            "rows are out of order, or most episode ends are missing",
            where=dataset.source,
            mend="store rows in the order of recording, or cut episodes there with --split-at-jumps",
        )
    ]


def missing_end_notes(broken: int) -> list[str]:
    """Rows that are not followed by the next one, where they are few."""
    if not broken:
        return []
    have = "row has" if broken == 1 else "rows have"
    return [f"{broken} {have} a next observation that is not the following row's: an episode end may be missing there"]


def _shuffled(dataset: Dataset) -> list[str]:
    """Neighbours in time are neighbours in space, in one feature at least; rows in random order are not."""
    inside = np.flatnonzero(~(dataset.terminals | dataset.truncated))
    if dataset.vectors is None or len(inside) < FEWEST:
        return []
    rows = inside[:: max(len(inside) // SAMPLE, 1)]
    before = dataset.vectors[rows].astype(np.float64)
    gap = ((dataset.numbers("next_observations")[rows] - before) ** 2).mean(axis=0)
    any_two = 2.0 * before.var(axis=0)
    moving = any_two > 0
    if not moving.any() or not np.min(gap[moving] / any_two[moving]) >= SHUFFLED:
        return []
    return ["consecutive observations are as far apart as any two rows: rows may have been shuffled"]


def _rewards(dataset: Dataset) -> list[str]:
    low, high = float(dataset.rewards.min()), float(dataset.rewards.max())
    return [f"every reward is {low:g}: there is nothing to tell good from bad"] if low == high else []


def _ends(dataset: Dataset) -> list[str]:
    if dataset.terminals.any() or any(note.startswith(LAST_TERMINAL) for note in dataset.notes):
        return []
    return ["no episode ends in a terminal step: returns are cut where the recording stopped"]


def feature_notes(dataset: Dataset) -> list[str]:
    """Features that never change, and those of a size that no network takes well."""
    found = []
    if features := constant_features(dataset):
        named = ", ".join(map(str, features[:8])) + (", ..." if len(features) > 8 else "")
        found.append(
            f"{counted(len(features), 'observation feature')} never change{'s' * (len(features) == 1)} ({named})"
        )
    if dataset.vectors is not None and np.abs(extremes(dataset.vectors)).max(initial=0.0) > LARGE:
        found.append(f"some observations exceed {LARGE:g} in size: networks learn badly from such values")
    return found


def _actions(dataset: Dataset) -> list[str]:
    constant = np.flatnonzero((dataset.actions == dataset.actions[0]).all(axis=0))
    if not len(constant) or len(dataset) < 2:
        return []
    return [f"{counted(len(constant), 'action')} never change{'s' * (len(constant) == 1)} ({_some(list(constant))})"]


def _clipped(dataset: Dataset) -> list[str]:
    """Columns that stand at their largest or smallest value in many rows, as those do that a sensor cuts off."""
    found = []
    for name, values in (("observation feature", dataset.vectors), ("action", dataset.actions)):
        if values is None or values.ndim != 2 or len(values) < FEWEST:
            continue
        stuck = np.flatnonzero(_at_ends(values) > CLIPPED)
        some = values[:SAMPLE] if len(stuck) else values[:0]
        cut = [int(i) for i in stuck if len(np.unique(some[:, i])) > VARIED]
        if cut:
            found.append(
                f"{counted(len(cut), name)} ({_some(cut)}) stand{'s' * (len(cut) == 1)} at the largest or smallest "
                f"value in more than {CLIPPED:.0%} of rows: they may have been clipped"
            )
    return found


def _at_ends(values: Any) -> NDArray[np.float64]:
    """[feature]: share of rows at its largest or its smallest value, whichever is more."""
    counts = np.zeros((2, values.shape[1]), np.int64)
    low, high = extremes(values)
    for rows in chunks(values):
        chunk = values[rows]
        counts += np.stack([(chunk == end).sum(axis=0) for end in (low, high)])
    return np.asarray(counts.max(axis=0) / len(values))


def repetition_notes(dataset: Dataset) -> list[str]:
    """Rows that are there twice, where they are many."""
    repeated = duplicate_rows(dataset)
    return [f"{repeated} rows repeat an earlier row"] if repeated > MOST_REPEATED * len(dataset) else []


def length_notes(dataset: Dataset, limit: int) -> list[str]:
    """Episodes longer than the environment allows, where they are most."""
    lengths = dataset.episode_lengths
    longer = int((lengths > limit).sum())
    if 2 * longer <= len(lengths):
        return []
    return [
        f"{longer} of {len(lengths)} episodes are longer than the time limit of {limit} steps ({lengths.min()} to "
        f"{lengths.max()}): they may be of another task, or episode ends are missing"
    ]
