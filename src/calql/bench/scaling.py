"""Do more processes step more? Whole rollouts with a policy, in the engine's own workers, by the clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax

from calql.engine.episodes import Request
from calql.engine.rollout import Collect, Stage
from calql.engine.workers import Workers
from calql.experiment import Choice, defaults
from calql.methods import method_entry
from calql.methods.base import Method, Policy
from calql.networks import Spec
from calql.tasks import Task

LONGEST = 200  # steps of an episode that are played
EPISODES = 2  # per process and round, so that an early end leaves nobody idle for long
ROUNDS = 3  # at least


def measure_scaling(task: Task, *, workers: Sequence[int] = (1, 2), seconds: float = 20.0) -> dict[str, Any]:
    """Steps/s for each number of processes, and the last as a share of what the first promises.

    The crews play in turns, so that all meet the same neighbours, and the best round of each counts.
    """
    method, policy = _policy(task)
    stage = Stage(task.make_env, method, min(task.episode_limit, LONGEST))
    crews = {count: Workers(stage, count) for count in workers}
    together = EPISODES * max(workers)
    best = dict.fromkeys(workers, 0.0)
    try:
        for crew in crews.values():
            _round(crew, policy, together)  # environments are made and programs compiled
        begun, rounds = time.perf_counter(), 0
        while rounds < ROUNDS or time.perf_counter() - begun < seconds:
            for count, crew in crews.items():
                best[count] = max(best[count], _round(crew, policy, together))
            rounds += 1
    finally:
        for crew in crews.values():
            crew.close()
    few, many = workers[0], workers[-1]
    return {
        "task": task.name,
        "steps_per_s": {str(count): rate for count, rate in best.items()},
        "share_of_linear": best[many] * few / (best[few] * many),
        "measured": f"clock, best of {rounds} rounds of {together} episodes of at most {stage.episode_limit} steps",
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


def _round(crew: Workers, policy: Policy, episodes: int) -> float:
    """Steps/s of some episodes, one job each."""
    begun = time.perf_counter()
    jobs = [crew.submit(Collect(policy, (Request((0, 0, number)),))) for number in range(episodes)]
    steps = sum(len(episode.rewards) for job in jobs for episode in job.result())
    return steps / (time.perf_counter() - begun)
