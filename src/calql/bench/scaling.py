"""Do more processes step more? Whole rollouts with a policy, in the engine's own workers, by the clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from calql.domains.registry import Task
from calql.engine.episodes import Request
from calql.engine.rollout import Collect, RolloutSetup, RolloutWorker
from calql.engine.workers import ProcessPool
from calql.methods import DEFAULT_METHOD, method_entry
from calql.methods.base import Method, Policy
from calql.networks import Spec
from calql.runs.request import Choice, defaults
from calql.system.cores import available_cores, machine

LONGEST = 200  # steps of an episode that are played
EPISODES = 2  # per process and round, so that an early end leaves nobody idle for long
ROUNDS = 3  # at least


@dataclass(frozen=True)
class Rate:
    """Steps/s of all processes by the clock, and of one process while it has a core."""

    clock: float
    processor: float


def measure_scaling(task: Task, *, workers: Sequence[int] = (), seconds: float = 20.0) -> dict[str, Any]:
    """Steps/s for each number of processes, and the last as a share of what the first promises.

    The pools take rounds, so that all meet the same neighbours, and the best round of each counts. Where processes
    wait for a core, rates by the clock fall; where they are in each other's way on it, those by processor time too.
    """
    workers = workers or doublings(available_cores())
    method, policy = _policy(task)
    setup = RolloutSetup(task.make_env, method, min(task.episode_limit, LONGEST))
    pools = {count: ProcessPool(setup, count) for count in workers}
    best = dict.fromkeys(workers, Rate(0.0, 0.0))
    try:
        for count, pool in pools.items():
            _round(pool, policy, count)  # environments are made and programs compiled
        begun, rounds = time.perf_counter(), 0
        while rounds < ROUNDS or time.perf_counter() - begun < seconds:
            for count, pool in pools.items():
                found, so_far = _round(pool, policy, EPISODES * count), best[count]
                best[count] = Rate(max(so_far.clock, found.clock), max(so_far.processor, found.processor))
            rounds += 1
    finally:
        for pool in pools.values():
            pool.close()
    few, many = workers[0], workers[-1]
    return {
        "task": task.name,
        "machine": machine(),
        "steps_per_s": {str(count): rate.clock for count, rate in best.items()},
        "steps_per_processor_s": {str(count): rate.processor for count, rate in best.items()},
        "share_of_linear": best[many].clock * few / (best[few].clock * many),
        "measured": f"best of {rounds} rounds of {EPISODES} episodes a process, of at most {setup.episode_limit} steps",
    }


def doublings(most: int) -> list[int]:
    """1, 2, 4 and on, and the most; 1 and 2 at least."""
    return sorted({1, 2, max(most, 2), *(2**power for power in range(most.bit_length()))})


def _policy(task: Task) -> tuple[Method, Policy]:
    """An untrained policy of the size that the task trains."""
    method = method_entry(DEFAULT_METHOD).make(defaults(Choice(task=task.name), task)[1])
    env = task.make_env()
    assert env.observation_space.shape is not None
    assert env.action_space.shape is not None
    spec = Spec(env.observation_space.shape, env.action_space.shape[0])
    env.close()
    return method, jax.device_get(method.policy(method.init(jax.random.key(0), spec)))


@dataclass(frozen=True)
class _Timed:
    """A job for a worker: how many steps some episodes have, and the processor time they took."""

    collect: Collect

    def __call__(self, worker: RolloutWorker) -> tuple[int, float]:
        begun = time.process_time()
        steps = sum(len(episode.rewards) for episode in self.collect(worker))
        return steps, time.process_time() - begun


def _round(pool: ProcessPool, policy: Policy, episodes: int) -> Rate:
    """Of some episodes, one job each."""
    begun = time.perf_counter()
    jobs = [pool.submit(_Timed(Collect(policy, (Request((0, 0, number)),)))) for number in range(episodes)]
    steps, processor = (sum(column) for column in zip(*(job.result() for job in jobs), strict=True))
    return Rate(steps / (time.perf_counter() - begun), steps / processor)
