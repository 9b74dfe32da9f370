"""Do more processes step more? Whole rollouts with a policy, in the engine's own workers, by the clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax

from calql.domains.registry import Task
from calql.engine.episodes import Request
from calql.engine.rollout import Collect, RolloutSetup
from calql.engine.workers import ProcessPool
from calql.methods import method_entry
from calql.methods.base import Method, Policy
from calql.networks import Spec
from calql.runs.request import Choice, defaults

LONGEST = 200  # steps of an episode that are played
EPISODES = 2  # per process and round, so that an early end leaves nobody idle for long
ROUNDS = 3  # at least


def measure_scaling(task: Task, *, workers: Sequence[int] = (1, 2), seconds: float = 20.0) -> dict[str, Any]:
    """Steps/s for each number of processes, and the last as a share of what the first promises.

    The pools take rounds, so that all meet the same neighbours, and the best round of each counts.
    """
    method, policy = _policy(task)
    setup = RolloutSetup(task.make_env, method, min(task.episode_limit, LONGEST))
    pools = {count: ProcessPool(setup, count) for count in workers}
    together = EPISODES * max(workers)
    best = dict.fromkeys(workers, 0.0)
    try:
        for pool in pools.values():
            _round(pool, policy, together)  # environments are made and programs compiled
        begun, rounds = time.perf_counter(), 0
        while rounds < ROUNDS or time.perf_counter() - begun < seconds:
            for count, pool in pools.items():
                best[count] = max(best[count], _round(pool, policy, together))
            rounds += 1
    finally:
        for pool in pools.values():
            pool.close()
    few, many = workers[0], workers[-1]
    return {
        "task": task.name,
        "steps_per_s": {str(count): rate for count, rate in best.items()},
        "share_of_linear": best[many] * few / (best[few] * many),
        "measured": f"clock, best of {rounds} rounds of {together} episodes of at most {setup.episode_limit} steps",
    }


def _policy(task: Task) -> tuple[Method, Policy]:
    """An untrained policy of the size that the task trains."""
    method = method_entry("cal-ql").make(defaults(Choice(task=task.name), task)[1])
    env = task.make_env()
    assert env.observation_space.shape is not None
    assert env.action_space.shape is not None
    spec = Spec(env.observation_space.shape, env.action_space.shape[0])
    env.close()
    return method, jax.device_get(method.policy(method.init(jax.random.key(0), spec)))


def _round(pool: ProcessPool, policy: Policy, episodes: int) -> float:
    """Steps/s of some episodes, one job each."""
    begun = time.perf_counter()
    jobs = [pool.submit(Collect(policy, (Request((0, 0, number)),))) for number in range(episodes)]
    steps = sum(len(episode.rewards) for job in jobs for episode in job.result())
    return steps / (time.perf_counter() - begun)
