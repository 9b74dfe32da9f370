"""Whether a recording is of the kitchen: its goal, its rewards, and tasks that are done again when replayed."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calql.data.bar import Bar
from calql.data.dataset import Dataset
from calql.domains.checks import Certifier, Check, Recording, spread_rows
from calql.domains.common.parallel import ordered_map
from calql.domains.kitchen.data import Demonstrations, as_dataset, read_demonstrations
from calql.domains.kitchen.env import TASK_SETS, Kitchen, goal_vector, solved
from calql.system.cores import available_cores

MOST_REPLAYED = 8  # demonstrations of a recording without velocities
ROBOT = 9  # of the 30 joints
REWARDS = {  # columns of the source file without `rewards`: complete and partial have one goal
    "complete": "reward_partial_d4rl",
    "partial": "reward_partial_d4rl",
    "mixed": "reward_mixed_d4rl",
}


@dataclass(frozen=True)
class Replay:
    """A demonstration to be replayed from its first recorded state."""

    qpos: NDArray[np.float32]  # [30]
    qvel: NDArray[np.float32]  # [29]
    joints: NDArray[np.float32]  # [step, 30], as recorded
    actions: NDArray[np.float32]  # [step, 9]
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Replayed:
    """What became of it: its tasks, and how far from the recording it went until the last of them was done."""

    reached: bool
    robot: float  # mean error of the robot's joints
    objects: float  # the same of the kitchen's


def replay(job: Replay) -> Replayed:
    """Whether the recorded actions still lead to all the tasks that the demonstration did.

    An action is a velocity that starts from the *observed* position, so the noise in the recorded
    observations is part of what was commanded: each action starts from the position recorded with it.
    """
    env = _quiet_kitchen()
    env.reset(seed=0, options={"state": (job.qpos, job.qvel)})
    done = np.zeros(len(job.tasks), bool)
    errors = []
    for row, action in enumerate(job.actions):
        if done.all():
            break
        env.seen[:ROBOT] = job.joints[row, :ROBOT]
        env.step(action)
        done |= solved(env.scene.data.qpos, job.tasks)
        if row + 1 < len(job.joints):
            errors.append(np.abs(env.scene.data.qpos - job.joints[row + 1]))
    drift = np.mean(errors, axis=0) if errors else np.zeros(30)
    return Replayed(bool(done.all()), float(drift[:ROBOT].mean()), float(drift[ROBOT:].mean()))


@cache
def _quiet_kitchen() -> Kitchen:
    """One environment per process: building it costs more than replaying the start of a demonstration."""
    return Kitchen("complete", noise=0.0)


def replayed(path: Path, *, indices: Sequence[int] | None = None, processes: int = 1) -> list[Replayed]:
    """What becomes of the demonstrations of a file with full states."""
    demonstrations = read_demonstrations(path)
    chosen = range(len(demonstrations.lengths)) if indices is None else indices
    jobs = (_with_velocities(demonstrations, index) for index in chosen)
    found: list[Replayed] = []
    with Bar() as bar:
        for one in ordered_map(replay, jobs, processes):
            found.append(one)
            bar.show("demonstrations replayed", len(found), len(chosen))
    return found


def _with_velocities(demonstrations: Demonstrations, index: int) -> Replay:
    rows = demonstrations.rows(index)
    v1 = demonstrations.observations[rows]
    joints, first = np.concatenate([v1[:, :9], v1[:, 18:39]], axis=1), v1[0]
    qvel = np.concatenate([first[9:18], first[39:]])
    return Replay(joints[0], qvel, joints, demonstrations.actions[rows], demonstrations.tasks[index])


def _at_rest(dataset: Dataset, rows: slice, goal: Sequence[str]) -> Replay:
    """From D4RL's layout, which has no velocities: demonstrations start almost at rest."""
    joints = np.asarray(dataset.observations[rows, :30], np.float32)
    tasks = tuple(task for task in goal if solved(joints, (task,)).any())
    return Replay(joints[0], np.zeros(29, np.float32), joints, dataset.actions[rows], tasks)


def read(kind: str, path: Path) -> Dataset | None:
    """Demonstrations in FrankaKitchen-v1's layout, with the rewards recorded beside them; None: another layout."""
    if not _has_states(path):
        return None
    with np.load(path, allow_pickle=False) as stored:
        if "rewards" in stored:
            return None
        recorded = stored.get(REWARDS[kind])
    return as_dataset(read_demonstrations(path), kind, str(path), recorded)


def check(kind: str, recording: Recording) -> Sequence[Check]:
    """Goals and rewards follow from the observations, and demonstrations replay to the tasks they did."""
    dataset, goal = recording.dataset, TASK_SETS[kind]
    rewards = solved(dataset.observations[:, :30], goal).sum(axis=1)
    other = np.any(dataset.observations[:, 30:] != goal_vector(goal), axis=1)
    return [
        Check("rows whose goal is not this task's", float(other.sum()), 0),
        Check("share of rows whose reward differs", float(np.mean(rewards != dataset.rewards)), 0.001),
        *_replay_checks(dataset, goal, recording.path),
    ]


def _replay_checks(dataset: Dataset, goal: Sequence[str], path: Path | None) -> list[Check]:
    if path is not None and _has_states(path):
        found = replayed(path, processes=available_cores())
        what, limit = "share of demonstrations that replay to their four tasks", 0.965
    else:
        episodes = list(dataset.episodes())
        some = [episodes[i] for i in spread_rows(len(episodes), MOST_REPLAYED)]
        found = [replay(_at_rest(dataset, rows, goal)) for rows in some]
        what, limit = "share of demonstrations that replay to the tasks they did", 0.75
    reached = sum(one.reached for one in found)
    robot, objects = (float(np.median([getattr(one, part) for one in found])) for part in ("robot", "objects"))
    return [
        Check(what, reached / len(found), limit, at_least=True, detail=f"{reached} of {len(found)}"),
        Check("error of the robot's joints on the way, mean of a demonstration, median (rad)", robot, 0.05),
        Check("error of the kitchen's joints, likewise", objects, 0.02),
    ]


def _has_states(path: Path) -> bool:
    if path.suffix != ".npz" or not zipfile.is_zipfile(path):
        return False
    with np.load(path, allow_pickle=False) as stored:
        return "observations_v1" in stored or "task_dir" in stored


CERTIFIERS = {
    f"kitchen-{kind}": Certifier((60,), (9,), partial(check, kind), partial(read, kind)) for kind in TASK_SETS
}
