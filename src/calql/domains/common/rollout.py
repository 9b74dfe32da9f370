"""Trajectories recorded from an environment: in chunks over processes, joined in order."""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.data.dataset import Bools, Dataset, concatenate
from calql.data.store import BuildContext
from calql.domains.common.parallel import ordered_map
from calql.domains.common.policies import StoredPolicy

Controller = Callable[[NDArray[Any], np.random.Generator], NDArray[Any]]
Row = tuple[NDArray[Any], NDArray[Any], float, NDArray[Any], bool]  # o, a, r, o', terminal


@dataclass(frozen=True)
class Rollouts:
    """A chunk of episodes of one controller; every field must be picklable."""

    make_env: Callable[[], gymnasium.Env[Any, Any]]
    make_controller: Callable[[int], Controller]  # of the episode's number: a mixture changes with it
    stream: int  # which independent sequence of random numbers
    seed: int
    first: int  # number of the first episode
    count: int
    max_steps: int = 1000


def policy_controller(policy: StoredPolicy, episode: int) -> Controller:
    """Actions sampled from a stored policy, in every episode alike."""
    return policy.sample


def episode_rng(seed: int, stream: int, episode: int) -> np.random.Generator:
    """The random numbers of one episode, whoever records it and when."""
    return np.random.default_rng([seed, stream, episode])


def stream_of(name: str) -> int:
    """A number for a name, so that sets of different names share no randomness."""
    return zlib.crc32(name.encode())


def record(job: Rollouts) -> Dataset:
    """Play the episodes of a chunk to their end or limit."""
    env = job.make_env()
    parts = []
    for episode in range(job.first, job.first + job.count):
        rng = episode_rng(job.seed, job.stream, episode)
        parts.append(pack(_episode(env, job.make_controller(episode), rng, job.max_steps)))
    env.close()
    return concatenate(parts, source="rollouts")


def _episode(
    env: gymnasium.Env[Any, Any], controller: Controller, rng: np.random.Generator, max_steps: int
) -> Iterator[Row]:
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    for _ in range(max_steps):
        action = np.asarray(controller(observation, rng), np.float32)
        following, reward, terminated, truncated, _ = env.step(action)
        yield observation, action, float(reward), following, bool(terminated)
        if terminated or truncated:
            return
        observation = following


def pack(rows: Iterator[Row]) -> Dataset:
    """One episode as columns; its last row is truncated unless it is terminal."""
    observations, actions, rewards, following, terminals = zip(*rows, strict=True)
    ends = np.asarray(terminals, bool)
    truncated = np.zeros_like(ends)
    truncated[-1] = not ends[-1]
    kind: type[np.generic] = np.uint8 if observations[0].dtype == np.uint8 else np.float32  # images stay
    return Dataset(
        np.asarray(observations, kind),
        np.asarray(actions, np.float32),
        np.asarray(rewards, np.float32),
        np.asarray(following, kind),
        ends,
        truncated,
    )


def earned(dataset: Dataset) -> Bools:
    """Whether each episode was ever paid, where a step pays nothing or 1."""
    return np.add.reduceat(dataset.rewards, dataset.episode_starts) > 0


def collect(
    context: BuildContext,
    name: str,
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    make_controller: Callable[[int], Controller],
    size: int,
    *,
    max_steps: int = 1000,
    chunk: int = 4,
) -> Dataset:
    """`size` transitions of a controller's episodes; the last episode is cut where the size is reached."""
    first = Rollouts(make_env, make_controller, stream_of(name), context.seed, 0, chunk, max_steps)
    jobs = (replace(first, first=index * chunk) for index in itertools.count())
    return gather(ordered_map(record, jobs, context.processes), size, context, name)


def gather(chunks: Generator[Dataset, None, None], size: int, context: BuildContext, what: str) -> Dataset:
    """Join chunks until there are `size` rows. Memory: the result and the chunks on their way."""
    columns: dict[str, NDArray[Any]] = {}
    names = ("observations", "actions", "rewards", "next_observations", "terminals", "truncated")
    done = 0
    context.progress(what, 0, size)
    with contextlib.closing(chunks):  # ends the workers, however this ends
        for part in chunks:
            if not columns:
                columns = {n: _room(getattr(part, n), size) for n in names}
            taken = min(len(part), size - done)
            for n in names:
                columns[n][done : done + taken] = getattr(part, n)[:taken]
            done += taken
            context.progress(what, done, size)
            if done == size:
                break
    columns["truncated"][-1] |= not columns["terminals"][-1]
    o, a, r, following, ends, cuts = (columns[n] for n in names)
    return Dataset(o, a, r, following, ends, cuts, source=what)


def _room(like: NDArray[Any], size: int) -> NDArray[Any]:
    return np.empty((size, *like.shape[1:]), like.dtype)
