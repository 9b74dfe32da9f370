"""Adroit data: about 25 successful demonstrations, human ones first, the rest from D4RL's experts.

The paper's sets are narrow: a few human demonstrations and rollouts of a policy cloned from them, of
which only the successful are kept. How much is in them decides how hard the task is, so the
compositions have names: `door-binary`, `door-binary-human`, `door-binary-cloned` and so on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calql.data.dataset import Bools, Dataset, concatenate
from calql.data.store import BuildContext, Recipe, Source
from calql.domains.adroit.env import HANDS, AdroitBinary
from calql.domains.adroit.human import HUMAN, cut, human_successes
from calql.domains.common.parallel import ordered_map
from calql.domains.common.policies import StoredPolicy, load_policy
from calql.domains.common.rollout import episode_rng, stream_of

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
AS_PUBLISHED = replace(NARROW, cloned_rollouts=500, summary="and 500 cloned rollouts, as many as the paper's have")
HUMAN_ONLY = Composition(None, summary="the human successes alone")
COMPOSITIONS: dict[str, tuple[str, Composition]] = {
    "pen-binary": ("pen", NARROW),
    "pen-binary-cloned": ("pen", replace(NARROW, cloned_rollouts=200, summary="and 200 cloned rollouts")),
    "pen-binary-cloned-500": ("pen", AS_PUBLISHED),
    "door-binary": ("door", NARROW),
    "door-binary-human": ("door", HUMAN_ONLY),
    "door-binary-cloned": ("door", replace(NARROW, cloned_rollouts=200, summary="and 200 cloned rollouts")),
    "door-binary-cloned-500": ("door", AS_PUBLISHED),
    "door-binary-human-cloned": ("door", Composition(None, 500, "the human successes and 500 cloned rollouts")),
    "relocate-binary": ("relocate", HUMAN_ONLY),
    "relocate-binary-expert": ("relocate", Composition(49, summary="the human successes and as many experts'")),
    "relocate-binary-cloned": ("relocate", Composition(None, 200, "the human successes and 200 cloned rollouts")),
    "relocate-binary-cloned-500": ("relocate", Composition(None, 500, "the human successes and 500 cloned rollouts")),
}


@dataclass(frozen=True)
class Rollouts:
    task: str
    policy: StoredPolicy
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


def _episode(env: AdroitBinary, policy: StoredPolicy, rng: np.random.Generator) -> Dataset | None:
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
    policy: StoredPolicy,
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
    parts, origin = human_successes(task, context)
    notes = [f"{len(parts)} human successes, {_rows(parts)} transitions{origin}"]
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
    from calql.domains.common.cloning import clone  # and with it JAX, which no other set needs

    together = concatenate(demonstrations, source=task)
    observations = np.asarray(together.observations, np.float32)
    policy = clone(observations, together.actions, seed=context.seed, noise=CLONE_NOISE)
    return successful_rollouts(task, policy, context, f"{task} clone", lambda _, tried: tried == rollouts, rollouts)[0]


def _rows(parts: Sequence[Dataset]) -> int:
    return sum(map(len, parts))


def demonstrations_succeed(dataset: Dataset) -> Bools:
    """Whether each recorded trajectory succeeds; one that goes on after a success is one, not several."""
    starts = dataset.episode_starts
    goes_on = np.all(dataset.observations[starts[1:]] == dataset.next_observations[starts[1:] - 1], axis=1)
    first = starts[np.concatenate([[True], ~goes_on])]
    return np.asarray(np.maximum.reduceat(dataset.rewards, first) == 0.0)


def _recipe(name: str) -> Recipe:
    task, composition = COMPOSITIONS[name]
    needs = (HUMAN[task],) + ((EXPERT[task],) if composition.demonstrations else ())
    summary = f"{task}: {composition.summary}"
    variant = "" if name == f"{task}-binary" else f"{task}-binary"
    return Recipe(name, 1, partial(build, name), needs, summary, success=demonstrations_succeed, variant_of=variant)


RECIPES = {name: _recipe(name) for name in COMPOSITIONS}
