"""Adroit data: about 25 successful demonstrations, human ones first, the rest from D4RL's experts.

The paper's sets are narrow: a few human demonstrations and rollouts of a policy cloned from them, of
which only the successful are kept. How much is in them decides how hard the task is, so the
compositions have names: `door-binary`, `door-binary-human`, `door-binary-cloned` and so on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Bools, Dataset, concatenate
from calql.data.store import BuildContext, Recipe, Source
from calql.envs.adroit import (
    DOOR_OPEN,
    HANDS,
    PEN_COSINE,
    PEN_DISTANCE,
    RELOCATE_DISTANCE,
    AdroitBinary,
    State,
)
from calql.errors import UserError
from calql.recipes.parallel import ordered_map
from calql.recipes.policies import Policy, load_policy
from calql.recipes.rollout import episode_rng, stream_of

Actions = NDArray[np.float32]

HUMAN = {
    "pen": Source("d4rl_slices/pen-human-v1.npz", "two human demonstrations", "D4RL's pen-human-v1"),
    "door": Source("adroit_door_human/door_human_v0.npz", "25 human demonstrations", "hand_dapg"),
    "relocate": Source("adroit_relocate_human/relocate_human_24of25.npz", "24 human demonstrations", "hand_dapg"),
}
EXPERT = {
    task: Source(
        f"d4rl_policies/{task}-expert-v1_policy.npz",
        "the expert policy",
        f"D4RL's {task}-expert-v1 (metadata/policy, its layers stored as fc0_weight, fc0_bias, ...)",
    )
    for task in HANDS
}
CLONE_NOISE = 0.1  # before the tanh
CHUNK = 10  # rollouts per job


@dataclass(frozen=True)
class Composition:
    """What goes into a set: human successes, then experts' up to a number, then those of a clone's rollouts."""

    demonstrations: int | None  # with the experts'; None: the human ones alone
    cloned_rollouts: int = 0  # tried; the successful are kept
    summary: str = ""


NARROW = Composition(25, summary="about 25 successful demonstrations")
HUMAN_ONLY = Composition(None, summary="the human successes alone")
COMPOSITIONS: dict[str, tuple[str, Composition]] = {
    "pen-binary": ("pen", NARROW),
    "pen-binary-cloned": ("pen", replace(NARROW, cloned_rollouts=200, summary="and 200 cloned rollouts")),
    "door-binary": ("door", NARROW),
    "door-binary-human": ("door", HUMAN_ONLY),
    "door-binary-cloned": ("door", replace(NARROW, cloned_rollouts=200, summary="and 200 cloned rollouts")),
    "relocate-binary": ("relocate", HUMAN_ONLY),
    "relocate-binary-expert": ("relocate", Composition(49, summary="the human successes and as many experts'")),
    "relocate-binary-cloned": ("relocate", Composition(None, 200, "the human successes and 200 cloned rollouts")),
}


@dataclass(frozen=True)
class Demonstration:
    """A recording that can be replayed: where it starts, and what was done."""

    state: State
    actions: Actions
    observations: NDArray[np.float32]  # as recorded, before each action


def read_human(task: str, path: Path) -> list[Demonstration]:
    """The human demonstrations of a source file, with the states that they start from."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            columns = dict(stored)
        return [
            Demonstration(start_of(task, columns, index, rows), columns["actions"][rows], columns["observations"][rows])
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


def start_of(task: str, columns: dict[str, NDArray[Any]], index: int, rows: slice) -> State:
    if task == "pen":  # D4RL's layout: every row knows its state
        names = ("qpos", "qvel", "desired_orien")
        return {name: columns[f"infos_{name}"][rows][0].astype(np.float64) for name in names}
    qpos = columns["init_qpos"][index].astype(np.float64)
    if task == "door":
        return {
            "qpos": qpos,
            "qvel": columns["init_qvel"][index],
            "door_body_pos": columns["init_door_body_pos"][index],
        }
    places = {"obj_pos": columns["init_obj_pos"][index], "target_pos": columns["init_target_pos"][index]}
    return {"qpos": qpos, "qvel": np.zeros_like(qpos), **places}


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


def human_successes(task: str, path: Path) -> list[Dataset]:
    """The human demonstrations that succeed, replayed here; pen's as recorded.

    A pen that spins between fingers leaves its recorded path within a second, whatever the simulator.
    """
    env = AdroitBinary(task, ends=False)
    found = []
    for demonstration in read_human(task, path):
        if task == "pen":
            seen = demonstration.observations
            found.append(cut(seen, demonstration.actions[:-1], success_of(task, seen[1:])))
        else:
            seen, successes = replay(env, demonstration)
            found.append(cut(seen, demonstration.actions, successes))
    return [part for part in found if part is not None]


@dataclass(frozen=True)
class Rollouts:
    task: str
    policy: Policy
    stream: int
    seed: int
    first: int
    count: int


def roll_out(job: Rollouts) -> list[Dataset | None]:
    """Episodes of a policy as the environment plays them: they end at the first success. None: failed."""
    env = AdroitBinary(job.task)
    return [
        _episode(env, job.policy, episode_rng(job.seed, job.stream, number))
        for number in range(job.first, job.first + job.count)
    ]


def _episode(env: AdroitBinary, policy: Policy, rng: np.random.Generator) -> Dataset | None:
    seen, actions, success = [env.reset(seed=int(rng.integers(2**31)))[0]], [], False
    for _ in range(env.limit):
        actions.append(policy.sample(seen[-1], rng))
        observation, _, success, _, _ = env.step(actions[-1])
        seen.append(observation)
        if success:
            break
    successes = np.zeros(len(actions), bool)
    successes[-1] = success
    return cut(np.stack(seen), np.stack(actions), successes)


def successful_rollouts(
    task: str,
    policy: Policy,
    context: BuildContext,
    name: str,
    enough: Callable[[int, int], bool],
    total: int,
) -> tuple[list[Dataset], int]:
    """Successes in the order of their numbers until there are `enough` of (kept, tried); and how many were tried."""
    first = Rollouts(task, policy, stream_of(name), context.seed, 0, CHUNK)
    jobs = (replace(first, first=CHUNK * index) for index in itertools.count())
    kept: list[Dataset] = []
    tried = 0
    chunks = ordered_map(roll_out, jobs, context.processes)
    for part in itertools.chain.from_iterable(chunks):
        if enough(len(kept), tried):
            break
        tried += 1
        if part is not None:
            kept.append(part)
        context.progress(name, min(len(kept), total), total)
    chunks.close()
    return kept, tried


def build(name: str, context: BuildContext) -> Dataset:
    task, composition = COMPOSITIONS[name]
    parts = human_successes(task, context.source(HUMAN[task]))
    notes = [f"{len(parts)} human successes, {_rows(parts)} transitions"]
    missing = (composition.demonstrations or 0) - len(parts)
    if missing > 0:
        expert = load_policy(context.source(EXPERT[task]))
        made, tried = successful_rollouts(
            task, expert, context, f"{task} expert", lambda kept, _: kept == missing, missing
        )
        parts += made
        notes.append(f"{len(made)} expert successes of {tried} tried, {_rows(made)} transitions")
    if composition.cloned_rollouts:
        made = _cloned(task, parts, composition.cloned_rollouts, context)
        tried = composition.cloned_rollouts
        parts += made
        notes.append(f"{len(made)} successes of {tried} rollouts of a clone, {_rows(made)} transitions")
    notes.append("only successes, cut after the last one; every step with reward 0 is terminal")
    return replace(concatenate(parts, source=name), notes=tuple(notes))


def _cloned(task: str, demonstrations: Sequence[Dataset], rollouts: int, context: BuildContext) -> list[Dataset]:
    """Successes of a policy cloned from the demonstrations, out of a stated number of rollouts."""
    from calql.recipes.cloning import clone  # and with it JAX, which no other set needs

    together = concatenate(demonstrations, source=task)
    observations = np.asarray(together.observations, np.float32)
    policy = clone(observations, together.actions, seed=context.seed, noise=CLONE_NOISE)
    return successful_rollouts(task, policy, context, f"{task} clone", lambda _, tried: tried == rollouts, rollouts)[0]


def _rows(parts: Sequence[Dataset]) -> int:
    return sum(map(len, parts))


def demonstrations_succeed(dataset: Dataset) -> Bools:
    return np.asarray(dataset.rewards[dataset.episode_ends] == 0.0)


def success_of(task: str, observations: NDArray[Any]) -> Bools:
    """The task's success predicate, from what is observed."""
    if task == "door":
        return np.asarray(observations[:, 28] >= DOOR_OPEN)
    if task == "relocate":
        return np.asarray(np.linalg.norm(observations[:, 36:39], axis=1) < RELOCATE_DISTANCE)
    close = np.linalg.norm(observations[:, 39:42], axis=1) < PEN_DISTANCE
    return np.asarray(close & (np.sum(observations[:, 33:36] * observations[:, 36:39], axis=1) > PEN_COSINE))


def _recipe(name: str) -> Recipe:
    task, composition = COMPOSITIONS[name]
    needs = (HUMAN[task],) + ((EXPERT[task],) if composition.demonstrations else ())
    summary = f"{task}: {composition.summary}"
    variant = "" if name == f"{task}-binary" else f"{task}-binary"
    return Recipe(name, 1, partial(build, name), needs, summary, success=demonstrations_succeed, variant_of=variant)


RECIPES = {name: _recipe(name) for name in COMPOSITIONS}
