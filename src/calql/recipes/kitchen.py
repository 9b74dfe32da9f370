"""Kitchen data: human demonstrations in D4RL's layout, and whether they still cook in today's simulator.

D4RL's sets are recordings of people who did four of seven tasks. `complete` holds those who did the
four tasks of its goal; `partial` and `mixed` hold everybody, each with a goal of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calql.data.certify import Certifier, Check, Recording, spread_rows
from calql.data.dataset import Bools, Dataset
from calql.data.store import BuildContext, Recipe, Source
from calql.envs.kitchen import TASK_SETS, Kitchen, goal_vector, observation_60, solved
from calql.errors import UserError
from calql.recipes.parallel import ordered_map

ORIGIN = "relay-policy-learning's kitchen demonstrations, replayed in FrankaKitchen-v1"
COMPLETE = Source("kitchen/kitchen_complete_d4rl_layout.npz", "19 demonstrations of the four tasks", ORIGIN)
EVERYBODY = Source("kitchen/kitchen_replayed_FrankaKitchen-v1.npz", "580 demonstrations", ORIGIN)

MOST_REPLAYED = 8  # demonstrations of a recording without velocities

# the words of a demonstration's folder name -> tasks
WORDS = {
    "microwave": "microwave",
    "kettle": "kettle",
    "bottomknob": "bottom burner",
    "topknob": "top burner",
    "switch": "light switch",
    "slide": "slide cabinet",
    "hinge": "hinge cabinet",
}


@dataclass(frozen=True)
class Demonstrations:
    """Recordings in FrankaKitchen-v1's layout, and what each of them set out to do."""

    observations: NDArray[np.float32]  # [row, 59]
    actions: NDArray[np.float32]  # [row, 9]
    lengths: NDArray[np.int64]  # [demonstration]
    tasks: tuple[tuple[str, ...], ...]  # [demonstration]

    def rows(self, index: int) -> slice:
        end = int(self.lengths[: index + 1].sum())
        return slice(end - int(self.lengths[index]), end)


def read_demonstrations(path: Path) -> Demonstrations:
    """Either of the two source files: both know full states and the tasks of each demonstration."""
    with np.load(path, allow_pickle=False) as stored:
        if not {"actions", "episode_lengths"} <= set(stored) or not {"observations_v1", "task_dir"} & set(stored):
            raise UserError(
                "holds no kitchen demonstrations with full states (observations_v1, or observations and task_dir)",
                where=str(path),
            )
        lengths = stored["episode_lengths"].astype(np.int64)
        if "observations_v1" in stored:
            observations = stored["observations_v1"]
            tasks = (TASK_SETS["complete"],) * len(lengths)
        else:
            observations = stored["observations"]
            tasks = tuple(tuple(WORDS[word] for word in str(name).split("_")[1:]) for name in stored["task_dir"])
        return Demonstrations(observations, stored["actions"], lengths, tasks)


def as_dataset(demonstrations: Demonstrations, kind: str, source: str) -> Dataset:
    """D4RL's convention: reward = how many of the goal's tasks are satisfied now; terminal at the end.

    The observation after a demonstration's last action is not recorded; as nothing is bootstrapped
    from a terminal row, that row repeats its own.
    """
    goal = TASK_SETS[kind]
    observations = observation_60(demonstrations.observations, goal)
    terminals = np.zeros(len(observations), bool)
    terminals[np.cumsum(demonstrations.lengths) - 1] = True
    following = np.concatenate([observations[1:], observations[-1:]])
    following[terminals] = observations[terminals]
    return Dataset(
        observations=observations,
        actions=demonstrations.actions.astype(np.float32),
        rewards=solved(observations[:, :30], goal).sum(axis=1).astype(np.float32),
        next_observations=following,
        terminals=terminals,
        truncated=np.zeros_like(terminals),
        source=source,
    )


def build(kind: str, context: BuildContext) -> Dataset:
    source = COMPLETE if kind == "complete" else EVERYBODY
    demonstrations = read_demonstrations(context.source(source))
    made = as_dataset(demonstrations, kind, f"kitchen-{kind}")
    most = np.maximum.reduceat(made.rewards, made.episode_starts)
    shares = ", ".join(f"{n} in {int((most == n).sum())}" for n in range(4, -1, -1) if (most == n).any())
    note = f"{len(most)} demonstrations; most tasks of the goal satisfied at once: {shares}"
    return replace(made, notes=(note, "terminal at the end of every demonstration"))


def four_tasks(dataset: Dataset) -> Bools:
    """Whether each demonstration satisfies all four tasks of the goal at some step."""
    return np.asarray(np.maximum.reduceat(dataset.rewards, dataset.episode_starts) >= 4.0)


@dataclass(frozen=True)
class Replay:
    """A demonstration to be replayed from its first recorded state."""

    qpos: NDArray[np.float32]  # [30]
    qvel: NDArray[np.float32]  # [29]
    seen: NDArray[np.float32]  # [step, 9], the robot's positions as recorded
    actions: NDArray[np.float32]  # [step, 9]
    tasks: tuple[str, ...]


def reaches_its_tasks(job: Replay) -> bool:
    """Whether the recorded actions still lead to all the tasks that the demonstration did.

    An action is a velocity that starts from the *observed* position, so the noise in the recorded
    observations is part of what was commanded: each action starts from the position recorded with it.
    """
    if not job.tasks:
        return True
    env = _quiet_kitchen()
    env.reset(seed=0, options={"state": (job.qpos, job.qvel)})
    done = np.zeros(len(job.tasks), bool)
    for seen, action in zip(job.seen, job.actions, strict=True):
        env.seen[:9] = seen
        env.step(action)
        done |= solved(env.scene.data.qpos, job.tasks)
        if done.all():
            return True
    return False


@cache
def _quiet_kitchen() -> Kitchen:
    """One environment per process: building it costs more than replaying the start of a demonstration."""
    return Kitchen("complete", noise=0.0)


def replayed(path: Path, *, indices: Sequence[int] | None = None, processes: int = 1) -> Bools:
    """Which demonstrations of a file with full states reach all their tasks again."""
    demonstrations = read_demonstrations(path)
    chosen = range(len(demonstrations.lengths)) if indices is None else indices
    jobs = (_with_velocities(demonstrations, index) for index in chosen)
    return np.array(list(ordered_map(reaches_its_tasks, jobs, processes)), bool)


def _with_velocities(demonstrations: Demonstrations, index: int) -> Replay:
    rows = demonstrations.rows(index)
    v1 = demonstrations.observations[rows]
    first = v1[0]
    qpos, qvel = np.concatenate([first[:9], first[18:39]]), np.concatenate([first[9:18], first[39:]])
    return Replay(qpos, qvel, v1[:, :9], demonstrations.actions[rows], demonstrations.tasks[index])


def _at_rest(dataset: Dataset, rows: slice, goal: Sequence[str]) -> Replay:
    """From D4RL's layout, which has no velocities: demonstrations start almost at rest."""
    joints = np.asarray(dataset.observations[rows, :30], np.float32)
    tasks = tuple(task for task in goal if solved(joints, (task,)).any())
    return Replay(joints[0], np.zeros(29, np.float32), joints[:, :9], dataset.actions[rows], tasks)


def check(kind: str, recording: Recording) -> Sequence[Check]:
    """Goals and rewards follow from the observations, and demonstrations replay to the tasks they did."""
    dataset, goal = recording.dataset, TASK_SETS[kind]
    rewards = solved(dataset.observations[:, :30], goal).sum(axis=1)
    other = np.any(dataset.observations[:, 30:] != goal_vector(goal), axis=1)
    return [
        Check("rows whose goal is not this task's", float(other.sum()), 0),
        Check("share of rows whose reward differs", float(np.mean(rewards != dataset.rewards)), 0.001),
        _replay_check(dataset, goal, recording.path),
    ]


def _replay_check(dataset: Dataset, goal: Sequence[str], path: Path | None) -> Check:
    if path is not None and _has_states(path):
        reached = replayed(path)
        what, limit = "share of demonstrations that replay to their four tasks", 0.96
    else:
        episodes = list(dataset.episodes())
        some = [episodes[i] for i in spread_rows(len(episodes), MOST_REPLAYED)]
        reached = np.array([reaches_its_tasks(_at_rest(dataset, rows, goal)) for rows in some], bool)
        what, limit = "share of demonstrations that replay to the tasks they did", 0.75
    return Check(what, float(reached.mean()), limit, at_least=True, detail=f"of {len(reached)}")


def _has_states(path: Path) -> bool:
    if path.suffix != ".npz" or not path.is_file():
        return False
    with np.load(path, allow_pickle=False) as stored:
        return "observations_v1" in stored or "task_dir" in stored


def _recipe(kind: str, source: Source, summary: str) -> Recipe:
    return Recipe(f"kitchen-{kind}", 1, partial(build, kind), (source,), summary, success=four_tasks)


RECIPES = {
    recipe.name: recipe
    for recipe in (
        _recipe("complete", COMPLETE, "demonstrations that do the four tasks of the goal"),
        _recipe("partial", EVERYBODY, "all demonstrations; a few do the four tasks of the goal"),
        _recipe("mixed", EVERYBODY, "all demonstrations; none does the four tasks of the goal"),
    )
}
CERTIFIERS = {f"kitchen-{kind}": Certifier((60,), (9,), partial(check, kind)) for kind in TASK_SETS}
