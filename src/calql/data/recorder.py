"""Episodes of a control loop written down as they happen, each in a file of its own that any command reads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calql.data.dataset import Dataset
from calql.data.write import d4rl_columns, written
from calql.system.errors import UserError

NAME = "episode-{:05d}.npz"
COLLECTED, POLICY_ACTIONS = "collected", "policy_actions"  # arrays of such a file besides D4RL's
BEGIN = "call start(observation) when an episode begins"


class Acting(Protocol):
    """A policy that says whose it is: `calql.load_policy` gives one."""

    @property
    def description(self) -> Any: ...
    @property
    def member(self) -> Any: ...


class Recorder:
    """Writes each episode, when it ends, to the next free file of a folder.

    `policy` is the one that acts, as `calql.load_policy` gives it: its checksum goes into the files, so that a project
    of rounds knows which round and seed collected them. Used with `with`, or by itself: an episode that has not ended
    is not written.
    """

    def __init__(self, folder: str | Path, policy: Acting | None = None) -> None:
        self.folder = Path(folder).expanduser()
        self._policy = None if policy is None else whose(policy)
        self._observations: list[NDArray[Any]] = []
        self._masks: list[NDArray[np.bool_]] = []
        self._actions: list[NDArray[Any]] = []
        self._rewards: list[float] = []
        self._success: bool | None = None

    def start(self, observation: ArrayLike, mask: ArrayLike | None = None) -> None:
        """An episode begins; what was recorded of one that never ended is forgotten."""
        self._observations, self._actions, self._rewards, self._success = [_seen(observation)], [], [], None
        self._masks = [] if mask is None else [np.asarray(mask, np.bool_)]

    def step(
        self,
        action: ArrayLike,
        reward: float,
        observation: ArrayLike,
        terminated: bool = False,
        truncated: bool = False,
        *,
        success: bool | None = None,
        mask: ArrayLike | None = None,
    ) -> Path | None:
        """One step: what was done, what it earned, what was seen after it. At an end, the file that was written.

        `terminated`: nothing more can be earned; `truncated`: only the recording stops. `success`, where you know it,
        and `mask`, where some discrete actions are forbidden at this observation.
        """
        if not self._observations:
            raise UserError("a step without an episode", where="Recorder.step", mend=BEGIN)
        acted, seen = np.asarray(action), _seen(observation)
        self._require_alike(acted, seen, float(reward))
        self._require_masks(mask, over=terminated)
        self._observations.append(seen)
        self._actions.append(acted)
        self._rewards.append(float(reward))
        if self._masks:
            self._masks.append(np.ones_like(self._masks[0]) if mask is None else np.asarray(mask, np.bool_))
        if success is not None:
            self._success = bool(success) or bool(self._success)
        return self._write(terminated) if terminated or truncated else None

    def cut(self) -> Path:
        """The recording stops here, and the episode is written as it is: after an emergency stop, for example."""
        if not self._actions:
            raise UserError("no step to cut after", where="Recorder.cut", mend=BEGIN)
        return self._write(terminal=False)

    def _require_alike(self, action: NDArray[Any], seen: NDArray[Any], reward: float) -> None:
        """What a sensor gives that is no number is told at once, while somebody is there to look."""
        first = self._actions[0] if self._actions else action
        if action.shape != first.shape or seen.shape != self._observations[0].shape:
            raise UserError(
                f"an action of shape {action.shape} and an observation of shape {seen.shape} after others of shapes "
                f"{first.shape} and {self._observations[0].shape}",
                where=f"Recorder.step, step {len(self._actions) + 1}",
                mend="give the same kind of both throughout an episode",
            )
        numbers = (action, seen, np.asarray(reward))
        if not all(np.isfinite(each).all() for each in numbers if each.dtype.kind == "f"):
            raise UserError(
                "NaN or inf in an action, observation or reward",
                where=f"Recorder.step, step {len(self._actions) + 1}",
                mend="stop the system and look at its sensors; cut() keeps the episode up to here",
            )

    def _require_masks(self, mask: ArrayLike | None, *, over: bool) -> None:
        """With every observation or with none; after a terminal step nothing is chosen any more."""
        if (mask is not None) != bool(self._masks) and not (mask is None and over):
            raise UserError(
                "a mask with some observations and not with others",
                where=f"Recorder.step, step {len(self._actions) + 1}",
                mend="give `mask` to start and to every step, or to none",
            )

    def _write(self, terminal: bool) -> Path:
        count, discrete = len(self._actions), self._actions[0].ndim == 0
        ends = np.arange(count) == count - 1
        masks = np.stack(self._masks) if self._masks else None
        episode = Dataset(
            observations=np.stack(self._observations[:-1]),
            actions=np.stack(self._actions).astype(np.int64 if discrete else np.float32),
            rewards=np.asarray(self._rewards, np.float32),
            next_observations=np.stack(self._observations[1:]),
            terminals=ends & terminal,
            truncated=ends & (not terminal),
            source=str(self.folder),
            action_masks=None if masks is None else masks[:-1],
            next_action_masks=None if masks is None else masks[1:],
        )
        path = write_recorded(self.folder, episode, self._policy, self._success)
        self._observations, self._actions = [], []
        return path

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._observations, self._actions = [], []


def whose(policy: Acting) -> dict[str, Any]:
    """The seed and the checksum of a loaded policy."""
    seed = policy.member if isinstance(policy.member, int) else policy.member[1]
    place = list(policy.description["seeds"]).index(seed)
    return {"policy": policy.description["checksums"][place], "seed": int(seed)}


def write_recorded(
    folder: Path,
    episode: Dataset,
    policy: dict[str, Any] | None,
    success: bool | None,
    policy_actions: NDArray[np.float32] | None = None,
) -> Path:
    """One episode in the next free file of a folder, with who collected it and whether it succeeded."""
    note = {**(policy or {"policy": None, "seed": None}), "success": success}
    arrays = {**d4rl_columns(episode), COLLECTED: np.frombuffer(json.dumps(note).encode(), np.uint8)}
    if policy_actions is not None:
        arrays[POLICY_ACTIONS] = policy_actions
    aside = folder / f".episode.{uuid4().hex}"
    with written(aside) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return _named(aside)


def _named(aside: Path) -> Path:
    """A written file under the next free name, which two recorders in one folder never give to both of theirs."""
    while True:
        path = aside.with_name(NAME.format(next_free(aside.parent)))
        try:
            os.link(aside, path)
        except FileExistsError:
            continue
        except OSError:  # a file system without links
            os.replace(aside, path)
            return path
        aside.unlink()
        return path


def next_free(folder: Path) -> int:
    """The number of the next file of a folder."""
    numbers = [int(path.stem.rpartition("-")[2]) for path in folder.glob("episode-*.npz") if path.stem[8:].isdigit()]
    return max(numbers, default=-1) + 1


def _seen(observation: ArrayLike) -> NDArray[Any]:
    """A copy: a loop may reuse its array."""
    array = np.array(observation)
    return array if array.dtype == np.uint8 else array.astype(np.float32)
