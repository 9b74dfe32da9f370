"""Kitchen data: human demonstrations in D4RL's layout.

D4RL's sets are recordings of people who did four of seven tasks. `complete` holds those who did the
four tasks of its goal; `partial` and `mixed` hold everybody, each with a goal of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calql.data.d4rl import from_d4rl_arrays
from calql.data.dataset import Bools, Dataset, concatenate
from calql.data.store import BuildContext, Recipe, Source
from calql.domains.common.rollout import collect, policy_controller
from calql.domains.kitchen.env import TASK_SETS, Kitchen, observation_60, solved
from calql.system.errors import UserError

ORIGIN = "relay-policy-learning's kitchen demonstrations, replayed in FrankaKitchen-v1"
COMPLETE = Source("kitchen/kitchen_complete_d4rl_layout.npz", "19 demonstrations of the four tasks", ORIGIN)
EVERYBODY = Source("kitchen/kitchen_replayed_FrankaKitchen-v1.npz", "580 demonstrations", ORIGIN)

CLONED_ROLLOUTS, CLONED_STEPS = 50, 280  # D4RL's own length of an episode
CLONE_NOISE = 0.1  # before the tanh
CLONE_SPREAD = 0.3  # most objects rest, and what is seen of them is noise

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


def as_dataset(
    demonstrations: Demonstrations, kind: str, source: str, rewards: NDArray[np.float32] | None = None
) -> Dataset:
    """D4RL's layout, read by the authors' loader: a terminal at the end of every demonstration but the last.

    Unless they are given, rewards are how many of the goal's tasks are satisfied now. The loader takes the
    observation after a row from the next row, so it drops the last row of the file, and with it the last
    demonstration's terminal: that one only stops, and its last reward counts as received for ever.
    """
    goal = TASK_SETS[kind]
    observations = observation_60(demonstrations.observations, goal)
    if rewards is None:
        rewards = solved(observations[:, :30], goal).sum(axis=1).astype(np.float32)
    terminals = np.zeros(len(observations), bool)
    terminals[np.cumsum(demonstrations.lengths) - 1] = True
    columns = {
        "observations": observations,
        "actions": demonstrations.actions,
        "rewards": rewards,
        "terminals": terminals,
        "timeouts": np.zeros_like(terminals),
    }
    return replace(from_d4rl_arrays(columns, source), notes=())


def build(kind: str, context: BuildContext) -> Dataset:
    source = COMPLETE if kind == "complete" else EVERYBODY
    demonstrations = read_demonstrations(context.source(source))
    made = as_dataset(demonstrations, kind, f"kitchen-{kind}")
    note = f"{len(made.episode_ends)} demonstrations; {_satisfied(made)}"
    ends = "terminal at the end of every demonstration but the last, whose last row the authors' loader drops"
    return replace(made, notes=(note, ends))


def build_with_clone(kind: str, context: BuildContext) -> Dataset:
    """The demonstrations, and rollouts of a policy cloned from them."""
    from calql.domains.common.cloning import clone  # and with it JAX, which no other set needs

    demonstrations = build(kind, context)
    observations = np.asarray(demonstrations.observations, np.float32)
    policy = clone(
        observations, demonstrations.actions, seed=context.seed, noise=CLONE_NOISE, least_spread=CLONE_SPREAD
    )
    size = CLONED_ROLLOUTS * CLONED_STEPS
    name = f"kitchen {kind} clone"
    controller = partial(policy_controller, policy)
    made = paid_as_demonstrated(
        collect(context, name, partial(Kitchen, kind), controller, size, max_steps=CLONED_STEPS), kind
    )
    note = f"{CLONED_ROLLOUTS} rollouts of a clone, {CLONED_STEPS} steps each; {_satisfied(made)}"
    together = concatenate([demonstrations, made], source=f"kitchen-{kind}-cloned")
    return replace(together, notes=(*demonstrations.notes, note))


def paid_as_demonstrated(rollouts: Dataset, kind: str) -> Dataset:
    """Rewards as those of demonstrations: tasks satisfied now. A rollout ends by the time limit, not terminal."""
    rewards = solved(rollouts.observations[:, :30], TASK_SETS[kind]).sum(axis=1).astype(np.float32)
    return replace(rollouts, rewards=rewards)


def _satisfied(dataset: Dataset) -> str:
    most = np.maximum.reduceat(dataset.rewards, dataset.episode_starts)
    shares = ", ".join(f"{n} in {int((most == n).sum())}" for n in range(4, -1, -1) if (most == n).any())
    return f"most tasks of the goal satisfied at once: {shares}"


def four_tasks(dataset: Dataset) -> Bools:
    """Whether each demonstration satisfies all four tasks of the goal at some step."""
    return np.asarray(np.maximum.reduceat(dataset.rewards, dataset.episode_starts) >= 4.0)


def _recipe(kind: str, source: Source, summary: str) -> Recipe:
    return Recipe(f"kitchen-{kind}", 2, partial(build, kind), (source,), summary, success=four_tasks)


RECIPES = {
    recipe.name: recipe
    for recipe in (
        _recipe("complete", COMPLETE, "demonstrations that do the four tasks of the goal"),
        Recipe(
            "kitchen-complete-cloned",
            2,
            partial(build_with_clone, "complete"),
            (COMPLETE,),
            f"and {CLONED_ROLLOUTS} rollouts of a clone",
            success=four_tasks,
            variant_of="kitchen-complete",
        ),
        _recipe("partial", EVERYBODY, "all demonstrations; a few do the four tasks of the goal"),
        _recipe("mixed", EVERYBODY, "all demonstrations; none does the four tasks of the goal"),
    )
}
