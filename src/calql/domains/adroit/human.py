"""Human demonstrations of the hand: read, replayed in today's simulator, cut at their last success."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Bools, Dataset
from calql.data.formats.minari import in_minari, read_minari
from calql.data.formats.npz import read_npz_arrays
from calql.data.store import BuildContext, Source
from calql.domains.adroit.env import (
    DOOR_OPEN,
    HANDS,
    PEN_COSINE,
    PEN_DISTANCE,
    RELOCATE_DISTANCE,
    AdroitBinary,
    State,
)
from calql.system.errors import UserError

Actions = NDArray[np.float32]

MINARI = {task: f"D4RL/{task}/human-v2" for task in HANDS}


@dataclass(frozen=True)
class Demonstration:
    """A recording that can be replayed: where it starts, and what was done."""

    state: State
    actions: Actions
    observations: NDArray[np.float32]  # as recorded, before each action


def read_human(task: str, path: Path) -> list[Demonstration]:
    """The human demonstrations of a source file, with the states that they start from."""
    try:
        columns = read_npz_arrays(path)
        start = RECORDED[task].start
        return [
            Demonstration(start(columns, index, rows), columns["actions"][rows], columns["observations"][rows])
            for index, rows in enumerate(_episodes(columns))
        ]
    except KeyError as missing:
        raise UserError(f"has no column {missing}", where=str(path), mend="use the file as it was given") from None


def _episodes(columns: dict[str, NDArray[Any]]) -> Iterator[slice]:
    if "episode_lengths" in columns:
        ends = np.cumsum(columns["episode_lengths"])
    else:
        ends = np.flatnonzero(columns["timeouts"] | columns["terminals"]) + 1
    yield from (slice(int(a), int(b)) for a, b in itertools.pairwise([0, *ends]))


def start_of_row(task: str, columns: Mapping[str, NDArray[Any]], row: int) -> State:
    """D4RL's layout: every row knows its state."""
    names = ("qpos", "qvel", {"pen": "desired_orien", "door": "door_body_pos"}[task])
    return {name: columns[f"infos_{name}"][row].astype(np.float64) for name in names}


def replay(env: AdroitBinary, demonstration: Demonstration) -> tuple[NDArray[np.float32], Bools]:
    """Observations [step + 1, ...] and successes [step] of the recorded actions in today's simulator."""
    seen, successes = [env.reset(options={"state": demonstration.state})[0]], []
    for action in demonstration.actions:
        observation, *_, info = env.step(action)
        seen.append(observation)
        successes.append(info["success"])
    return np.stack(seen), np.asarray(successes, bool)


def cut(observations: NDArray[np.float32], actions: Actions, successes: Bools) -> Dataset | None:
    """Everything up to the last successful step, every successful step terminal; None without success."""
    if not successes.any():
        return None
    kept = int(np.flatnonzero(successes)[-1]) + 1
    ends = successes[:kept]
    return Dataset(
        observations=observations[:kept],
        actions=np.clip(actions[:kept], -1.0, 1.0).astype(np.float32),
        rewards=ends.astype(np.float32) - 1.0,
        next_observations=observations[1 : kept + 1],
        terminals=ends,
        truncated=np.zeros_like(ends),
    )


def human_successes(task: str, context: BuildContext) -> tuple[list[Dataset], str]:
    """The human demonstrations that succeed, and where they are from if not from the sources.

    Those of a source file are replayed here; pen's are kept as recorded, because a pen that spins between
    fingers leaves its recorded path within a second, whatever the simulator. Where there is no source
    file, those that `calql data download` put into Minari's store serve: they were recorded in this
    simulator.
    """
    stored = MINARI[task]
    if not context.has(HUMAN[task]) and in_minari(stored):
        demonstrations = read_minari(stored)
        context.used[f"minari:{stored}"] = f"{len(demonstrations)} steps"
        found = [as_recorded(task, demonstrations, rows) for rows in demonstrations.episodes()]
        origin = f", from minari:{stored}"
    else:
        found, origin = _from_file(task, context.source(HUMAN[task])), ""
    return [part for part in found if part is not None], origin


def _from_file(task: str, path: Path) -> list[Dataset | None]:
    env = AdroitBinary(task, ends=False)
    found = []
    for demonstration in read_human(task, path):
        if RECORDED[task].replays:
            seen, successes = replay(env, demonstration)
            found.append(cut(seen, demonstration.actions, successes))
        else:
            seen = demonstration.observations
            found.append(cut(seen, demonstration.actions[:-1], success_of(task, seen[1:])))
    return found


def as_recorded(task: str, recorded: Dataset, rows: slice) -> Dataset | None:
    """One episode of a recording with the binary reward; its own rewards are of another bargain."""
    seen = np.concatenate([recorded.observations[rows], recorded.next_observations[rows][-1:]])
    return cut(seen, recorded.actions[rows], success_of(task, seen[1:]))


def success_of(task: str, observations: NDArray[Any]) -> Bools:
    """The task's success predicate, from what is observed."""
    return RECORDED[task].success(observations)


def _pen_start(columns: Mapping[str, NDArray[Any]], index: int, rows: slice) -> State:
    return start_of_row("pen", columns, rows.start)


def _door_start(columns: Mapping[str, NDArray[Any]], index: int, rows: slice) -> State:
    return {
        "qpos": columns["init_qpos"][index].astype(np.float64),
        "qvel": columns["init_qvel"][index],
        "door_body_pos": columns["init_door_body_pos"][index],
    }


def _relocate_start(columns: Mapping[str, NDArray[Any]], index: int, rows: slice) -> State:
    qpos = columns["init_qpos"][index].astype(np.float64)
    places = {"obj_pos": columns["init_obj_pos"][index], "target_pos": columns["init_target_pos"][index]}
    return {"qpos": qpos, "qvel": np.zeros_like(qpos), **places}


def _pen_success(observations: NDArray[Any]) -> Bools:
    close = np.linalg.norm(observations[:, 39:42], axis=1) < PEN_DISTANCE
    return np.asarray(close & (np.sum(observations[:, 33:36] * observations[:, 36:39], axis=1) > PEN_COSINE))


def _door_success(observations: NDArray[Any]) -> Bools:
    return np.asarray(observations[:, 28] >= DOOR_OPEN)


def _relocate_success(observations: NDArray[Any]) -> Bools:
    return np.asarray(np.linalg.norm(observations[:, 36:39], axis=1) < RELOCATE_DISTANCE)


def _source(task: str, path: str, what: str, origin: str) -> Source:
    return Source(path, what, f"{origin} (or, from Minari: calql data download {task}-binary)")


@dataclass(frozen=True)
class Recorded:
    """The human demonstrations of a task."""

    source: Source
    start: Callable[[Mapping[str, NDArray[Any]], int, slice], State]  # of an episode: its number, its rows
    success: Callable[[NDArray[Any]], Bools]  # from observations
    replays: bool = True  # the recorded actions lead to the recorded states


RECORDED: Mapping[str, Recorded] = {
    "pen": Recorded(
        _source("pen", "d4rl_slices/pen-human-v1.npz", "two human demonstrations", "D4RL's pen-human-v1"),
        _pen_start,
        _pen_success,
        replays=False,
    ),
    "door": Recorded(
        _source("door", "adroit_door_human/door_human_v0.npz", "25 human demonstrations", "hand_dapg"),
        _door_start,
        _door_success,
    ),
    "relocate": Recorded(
        _source("relocate", "adroit_relocate_human/relocate_human_24of25.npz", "24 human demonstrations", "hand_dapg"),
        _relocate_start,
        _relocate_success,
    ),
}
HUMAN: Mapping[str, Source] = {task: recorded.source for task, recorded in RECORDED.items()}
