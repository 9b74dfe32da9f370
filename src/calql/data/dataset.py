"""Logged data in one columnar form: flat transition arrays plus episode boundaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calql.data.stored import Stored, picked
from calql.system.errors import UserError
from calql.system.layout import Layout, Piece
from calql.system.walk import chunks

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
MASKS = ("action_masks", "next_action_masks")  # columns that are there where some actions are forbidden


class Part(NamedTuple):
    """A named piece of the numbers in observations: features [start, stop) of `Dataset.vectors`."""

    name: str
    start: int
    stop: int


class Fault(NamedTuple):
    """What makes one episode useless, as its reader saw it."""

    episode: int  # of the dataset
    name: str  # what the file calls it
    what: str  # the same words for the same fault


@dataclass(frozen=True)
class Dataset:
    """Transitions in recorded order; an episode is a run of rows that ends with `terminals` or `truncated`.

    The two ends are different things: after a terminal step nothing more can be earned, after a
    truncated one only the recording stopped, and the value goes on.

    Observations may be columns that stay on disk (`calql.data.stored`): any index gives an array, and who needs all
    rows walks them by chunks.
    """

    observations: NDArray[np.float32] | NDArray[np.uint8]  # [row, ...]; images stay uint8
    actions: NDArray[Any]  # float32 [row, action]; int64 [row] where one of several is chosen
    rewards: Floats  # [row], as recorded: no scale, no shift
    next_observations: NDArray[np.float32] | NDArray[np.uint8]  # [row, ...]
    terminals: Bools  # [row]
    truncated: Bools  # [row]
    source: str = "memory"  # where it came from, for messages and manifests
    notes: tuple[str, ...] = field(default=())  # what the reader changed or left out
    action_masks: Bools | None = None  # [row, choice]: what was allowed; None: everything
    next_action_masks: Bools | None = None  # [row, choice]: and at the next observation
    choices: int = 0  # of actions that are one-hot [row, choice], as training has them
    parts: tuple[Part, ...] = ()  # what the numbers in observations are put together from, where that has names
    faults: tuple[Fault, ...] = ()  # bad episodes that are still among the others
    layout: Layout | None = None  # of observations that are packed from cameras and vectors [row, byte]
    camera: str = ""  # what it is called where observations are its pictures alone

    def __post_init__(self) -> None:
        columns = ("actions", "rewards", "next_observations", "terminals", "truncated", *self.masks)
        rows = len(self.observations)
        for name in columns:
            if len(getattr(self, name)) != rows:
                raise UserError(
                    f"'{name}' has {len(getattr(self, name))} rows and 'observations' has {rows}",
                    where=self.source,
                    mend="write one row per transition in every column",
                )
        if rows == 0:
            raise UserError(
                "holds no complete transition",
                where=self.source,
                mend="an episode needs an end in 'terminals' or 'timeouts'",
            )
        if self.layout is not None and self.observations.shape[1:] != self.layout.row_shape:
            raise UserError(
                f"observations have shape {self.observations.shape[1:]}, and their parts {self.layout.row_shape}",
                where=self.source,
                mend="pack them with calql.data.pack_observations",
            )
        if not (self.terminals[-1] or self.truncated[-1]):
            raise UserError("the last row ends no episode", where=self.source, mend="mark it as terminal or truncated")

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        episodes, seen = len(self.episode_ends), list(self.observations.shape[1:])
        acts = "discrete actions" if self.discrete else f"actions {list(self.actions.shape[1:])}"
        return f"<Dataset {self.source}: {len(self)} steps, {episodes} episodes, observations {seen}, {acts}>"

    @property
    def discrete(self) -> bool:
        """Whether an action is one of several."""
        return self.actions.ndim == 1 or self.choices > 0

    @property
    def masks(self) -> dict[str, Any]:
        """The columns that say what was allowed, by name; none where everything was."""
        return {name: mask for name in MASKS if (mask := getattr(self, name)) is not None}

    @property
    def form(self) -> Layout | None:
        """The named parts that observations are made of, packed or not; None where nobody said."""
        if self.layout is not None:
            return self.layout
        if self.camera:
            return Layout((Piece(self.camera, self.observations.shape[1:], image=True),))
        if not self.parts or (self.parts[0].start, self.parts[-1].stop) != (0, self.observations.shape[-1]):
            return None
        return Layout.of([Piece(part.name, (part.stop - part.start,), image=False) for part in self.parts])

    @cached_property
    def vectors(self) -> Floats | None:
        """The numbers in observations [row, feature]; None where they are one image, or no vector."""
        if self.layout is not None:
            return self.numbers("observations")
        return self.observations if self.observations.ndim == 2 else None  # type: ignore[return-value]

    def numbers(self, name: str) -> NDArray[Any]:
        """A column as far as it holds numbers that might not be finite, or far apart."""
        values: NDArray[Any] = getattr(self, name)
        packed = self.layout is not None and name in ("observations", "next_observations")
        if not packed or self.layout is None:
            return values
        return np.concatenate([self.layout.vectors_of(values[rows]) for rows in chunks(values)])

    @cached_property
    def episode_ends(self) -> Ints:
        """Row index of the last step of each episode."""
        return np.flatnonzero(self.terminals | self.truncated)

    @cached_property
    def episode_starts(self) -> Ints:
        """Row index of the first step of each episode."""
        return np.concatenate([[0], self.episode_ends[:-1] + 1]).astype(np.int64)

    @property
    def episode_lengths(self) -> Ints:
        """Steps of each episode."""
        return self.episode_ends - self.episode_starts + 1

    def episodes(self) -> Iterator[slice]:
        """The rows of each episode in turn."""
        for start, end in zip(self.episode_starts, self.episode_ends, strict=True):
            yield slice(int(start), int(end) + 1)

    def select(self, rows: slice | Ints | Bools) -> Dataset:
        """The given rows; whole episodes are the caller's duty, and what was wrong with some is not known of these."""
        return replace(
            self,
            faults=(),
            observations=picked(self.observations, rows),
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            next_observations=picked(self.next_observations, rows),
            terminals=self.terminals[rows],
            truncated=self.truncated[rows],
            **{name: mask[rows] for name, mask in self.masks.items()},
        )

    def select_episodes(self, episodes: Sequence[int] | Ints) -> Dataset:
        """The given episodes, in the given order."""
        starts, ends = self.episode_starts, self.episode_ends
        rows = np.concatenate([np.arange(starts[e], ends[e] + 1) for e in episodes])
        by_episode: dict[int, list[Fault]] = {}
        for fault in self.faults:
            by_episode.setdefault(fault.episode, []).append(fault)
        faults = [f._replace(episode=new) for new, old in enumerate(episodes) for f in by_episode.get(int(old), ())]
        return replace(self.select(rows), faults=tuple(faults))

    @property
    def stored(self) -> bool:
        """Whether observations stay on disk."""
        return isinstance(self.observations, Stored)

    def in_memory(self) -> Dataset:
        """The same with every column in memory."""
        seen: Any = np.asarray(self.observations)
        after: Any = np.asarray(self.next_observations)
        return replace(self, observations=seen, next_observations=after)

    def next_actions(self) -> tuple[NDArray[Any], Bools]:
        """The logged action after each row, and whether there is one.

        The last step of an episode has none: its successor row belongs to another episode.
        """
        known = ~(self.terminals | self.truncated)
        following = np.zeros_like(self.actions)
        following[:-1] = self.actions[1:]
        following[~known] = 0.0
        return following, known

    def split(self, fraction: float, seed: int) -> tuple[Dataset, Dataset | None]:
        """Set aside a fraction of the episodes: (kept, held out); None where that rounds to nothing."""
        count = len(self.episode_ends)
        held = round(fraction * count)
        if held == 0 or held == count:
            return self, None
        order = np.random.default_rng(seed).permutation(count)
        return self.select_episodes(np.sort(order[held:])), self.select_episodes(np.sort(order[:held]))


def concatenate(parts: Sequence[Dataset], *, source: str) -> Dataset:
    """Datasets one after the other; each part ends an episode, so boundaries stay where they are."""
    if not parts:
        raise UserError("no parts to join", where=source)
    before = np.cumsum([0, *(len(p.episode_ends) for p in parts)])
    return Dataset(
        observations=np.concatenate([p.observations for p in parts]),
        actions=np.concatenate([p.actions for p in parts]),
        rewards=np.concatenate([p.rewards for p in parts]),
        next_observations=np.concatenate([p.next_observations for p in parts]),
        terminals=np.concatenate([p.terminals for p in parts]),
        truncated=np.concatenate([p.truncated for p in parts]),
        source=source,
        notes=tuple(note for p in parts for note in p.notes),
        choices=parts[0].choices,
        **{name: _joined(name, parts) for name in parts[0].masks},
        parts=parts[0].parts if all(p.parts == parts[0].parts for p in parts) else (),
        layout=_one_layout(parts, source),
        faults=tuple(
            f._replace(episode=f.episode + int(n)) for p, n in zip(parts, before[:-1], strict=True) for f in p.faults
        ),
    )


def _one_layout(parts: Sequence[Dataset], source: str) -> Layout | None:
    """Packed rows of different layouts would be of one length by accident only, and never mean the same."""
    if any(part.layout != parts[0].layout for part in parts):
        raise UserError("observations are packed differently in some parts", where=source, mend="choose the same ones")
    return parts[0].layout


def _joined(name: str, parts: Sequence[Dataset]) -> Any:
    if any(name not in part.masks for part in parts):
        raise UserError(f"some parts have '{name}' and some have not", where=parts[0].source, mend="give it to all")
    return np.concatenate([part.masks[name] for part in parts])
