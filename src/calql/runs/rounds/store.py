"""The episodes of a project: one file each, named by the checksum of what is in it, so that none is there twice."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data import Dataset, from_d4rl_arrays
from calql.data.recorder import POLICY_ACTIONS
from calql.data.write import d4rl_columns, written
from calql.engine.episodes import Episode
from calql.engine.options import RunOptions
from calql.runs.preparation import as_learnt
from calql.runs.rounds.ledger import Entry
from calql.runs.spaces import ActionSpace
from calql.system.archives import read_archive
from calql.system.errors import UserError

EPISODES = "episodes"  # the folder
MEND = "put the file back: every episode of a project is needed to go on from a round before it"


@dataclass(frozen=True)
class Kept:
    """One episode as it was recorded, in the units of the system that it was recorded on."""

    data: Dataset  # of this one episode
    policy_actions: NDArray[np.float32] | None = None  # in the policy's units, where its collector knew them

    @property
    def id(self) -> str:
        """The checksum of its columns: the same episode has the same, whatever file it comes in."""
        return _checksum(d4rl_columns(self.data))


def outline(data: Dataset, rows: slice) -> str:
    """A checksum of what an episode saw and earned: it is known by that where its actions have other units."""
    return _checksum({name: getattr(data, name)[rows] for name in ("observations", "rewards")})


def _checksum(columns: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, column in columns.items():
        digest.update(f"{name} {column.dtype} {column.shape}\n".encode())
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def keep(project: Path, kept: Kept) -> None:
    """Write an episode, unless it is there."""
    path = _path(project, kept.id)
    if path.exists():
        return
    actions = {} if kept.policy_actions is None else {POLICY_ACTIONS: kept.policy_actions}
    with written(path) as file:
        np.savez(file, **d4rl_columns(kept.data), **actions)  # type: ignore[arg-type]


def read(project: Path, id: str) -> Kept:
    """An episode again; its checksum says that it is the one which was added."""
    path = _path(project, id)
    try:
        arrays = read_archive(path, mend=MEND)
    except FileNotFoundError:
        raise UserError("is gone", where=str(path), mend=MEND) from None
    actions = arrays.pop(POLICY_ACTIONS, None)
    kept = Kept(from_d4rl_arrays(arrays, str(path)), actions)
    if kept.id != id:
        raise UserError("is another episode than its name says", where=str(path), mend=MEND)
    return kept


def _path(project: Path, id: str) -> Path:
    return project / EPISODES / f"{id}.npz"


def as_collected(kept: Kept, space: ActionSpace, run: RunOptions, *, success: bool | None) -> Episode:
    """The episode as a run takes it in: actions in the policy's units, what was seen after the last step at its end."""
    learnt = as_learnt(kept.data, space, run)
    actions: Any = learnt.actions if kept.policy_actions is None else kept.policy_actions
    masks = None
    if learnt.action_masks is not None and learnt.next_action_masks is not None:
        masks = np.concatenate([learnt.action_masks, learnt.next_action_masks[-1:]])
    return Episode(
        observations=np.concatenate([learnt.observations, learnt.next_observations[-1:]]),
        actions=actions,
        rewards=learnt.rewards.astype(np.float64),
        terminal=bool(learnt.terminals[-1]),
        success=bool(success),
        masks=masks,
    )


class Stored:
    """What a run is handed: each seed's episodes in their order, read from the project one at a time."""

    def __init__(
        self, project: Path, entries: Sequence[Entry], seeds: Sequence[int], space: ActionSpace, run: RunOptions,
        *, share: bool,
    ) -> None:  # fmt: skip
        self._project, self._space, self._run = project, space, run
        self._of_seed = [[entry for entry in entries if share or entry.seed in (None, seed)] for seed in seeds]

    def count(self, index: int) -> int:
        return len(self._of_seed[index])

    def episode(self, index: int, number: int) -> Episode:
        entry = self._of_seed[index][number]
        return as_collected(read(self._project, entry.id), self._space, self._run, success=entry.success)

    @property
    def steps(self) -> int:
        """Of the seed that has most."""
        return max(sum(entry.steps for entry in mine) for mine in self._of_seed)
