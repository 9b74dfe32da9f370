"""Episodes: decided by their numbers, the same in this process and in workers, in the environment's own units."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_task as toy

import corridor
from calql.engine.boundary import to_env_action
from calql.engine.episodes import Episode, Request
from calql.engine.program import Program
from calql.engine.rollout import Collect, Evaluate, RolloutSetup, RolloutWorker, policy_of
from calql.engine.workers import InProcessPool, ProcessPool
from calql.networks import Spec
from calql.system.errors import UserError

METHOD = toy.tiny("cal-ql")
SETUP = RolloutSetup(corridor.Corridor, METHOD, episode_limit=6)


def policies(count: int = 3) -> object:
    keys = jnp.stack([jax.random.key(seed) for seed in range(count)])
    program = Program(METHOD)
    return jax.device_get(program.policies(program.start(keys, Spec((2,), 1))))


def policy(index: int = 0) -> object:
    return policy_of(policies(), index)


def requests(count: int) -> tuple[Request, ...]:
    return tuple(Request((0, 0, number)) for number in range(count))


def same_episode(left: Episode, right: Episode) -> None:
    np.testing.assert_array_equal(left.observations, right.observations)
    np.testing.assert_array_equal(left.actions, right.actions)
    np.testing.assert_array_equal(left.rewards, right.rewards)


def test_an_episode_follows_from_its_number_alone() -> None:
    worker = RolloutWorker(SETUP)
    first = worker.play(policy(), requests(3), explore=True)
    again = worker.play(policy(), requests(3), explore=True)
    for left, right in zip(first, again, strict=True):
        same_episode(left, right)
    alone = worker.play(policy(), requests(3)[1:2], explore=True)[0]
    np.testing.assert_allclose(first[1].observations, alone.observations, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(first[1].actions, alone.actions, rtol=1e-5, atol=1e-6)


def test_other_numbers_and_other_policies_give_other_episodes() -> None:
    worker = RolloutWorker(SETUP)
    one, other = worker.play(policy(), requests(2), explore=True)
    assert not np.allclose(one.observations[0], other.observations[0])
    assert not np.allclose(one.actions[0], other.actions[0])
    third = worker.play(policy(1), requests(1), explore=True)[0]
    np.testing.assert_array_equal(one.observations[0], third.observations[0])
    assert not np.allclose(one.actions[0], third.actions[0])


def test_evaluation_is_deterministic_given_the_start() -> None:
    worker = RolloutWorker(SETUP)
    left, right = (worker.play(policy(), requests(1), explore=False)[0] for _ in range(2))
    np.testing.assert_array_equal(left.actions, right.actions)
    explored = worker.play(policy(), requests(1), explore=True)[0]
    assert not np.allclose(left.actions[0], explored.actions[0])


def test_the_limit_cuts_without_a_terminal() -> None:
    episode = RolloutWorker(SETUP).play(policy(), requests(1), explore=False)[0]
    assert len(episode.rewards) == 6  # an untrained policy does not reach the end
    assert len(episode.observations) == 7
    assert not episode.terminal


@pytest.mark.slow
def test_workers_play_the_same_episodes_whoever_takes_them() -> None:
    workers, here = ProcessPool(SETUP, 2), InProcessPool(SETUP)
    jobs = [Collect(policy(index), requests(count)) for index, count in ((0, 1), (1, 3), (2, 1), (1, 1), (0, 3))]
    try:
        asked = [workers.submit(job) for job in jobs]
        for future, job in zip(asked, jobs, strict=True):
            for left, right in zip(future.result(), here.submit(job).result(), strict=True):
                same_episode(left, right)
        summaries = workers.submit(Evaluate(policy(), requests(2))).result()
        assert summaries == here.submit(Evaluate(policy(), requests(2))).result()
    finally:
        workers.close()
        here.close()


@pytest.mark.slow
def test_a_worker_that_dies_is_reported() -> None:
    workers = ProcessPool(SETUP, 1)
    try:
        with pytest.raises(UserError, match="a worker process died"):
            workers.submit(_die).result()
    finally:
        workers.close()


@pytest.mark.slow
def test_a_worker_computes_where_it_is_asked() -> None:
    """Handing the computation to another thread and waiting for it takes as long as acting does."""
    workers = ProcessPool(SETUP, 1)
    try:
        assert workers.submit(_ready_at_once).result()
    finally:
        workers.close()


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1])
def test_a_policy_that_has_played_is_kept_by_nobody(count: int) -> None:
    """Else a run holds every policy that it ever played with."""
    pool = ProcessPool(SETUP, count) if count else InProcessPool(SETUP)
    try:
        alive = [pool.submit(_ModulesAfter(Collect(policy(), requests(1)))).result() for _ in range(4)]
        assert alive[1:] == alive[:1] * 3
    finally:
        pool.close()


@dataclass(frozen=True)
class _ModulesAfter:
    """A job that plays another and counts the modules of the process that plays it."""

    job: Collect

    def __call__(self, worker: RolloutWorker) -> int:
        self.job(worker)
        gc.collect()
        return sum(issubclass(type(thing), eqx.Module) for thing in gc.get_objects())


def _ready_at_once(_: RolloutWorker) -> bool:
    slow, matrix = jax.jit(jnp.dot), jnp.ones((1500, 1500))
    slow(matrix, matrix).block_until_ready()  # compiled
    return slow(matrix, matrix).is_ready()


def _die(_: RolloutWorker) -> None:
    os._exit(1)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1])
def test_an_environment_that_raises_is_reported(count: int) -> None:
    setup = RolloutSetup(corridor.Broken, METHOD, episode_limit=6)
    pool = ProcessPool(setup, count) if count else InProcessPool(setup)
    try:
        with pytest.raises(UserError, match="the motor is off"):
            pool.submit(Collect(policy(), requests(1))).result()
    finally:
        pool.close()


def test_actions_reach_the_bounds_of_the_environment() -> None:
    space = gymnasium.spaces.Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), dtype=np.float64)
    np.testing.assert_allclose(to_env_action(space, np.array([1.0, 1.0])), [2.0, 10.0])
    np.testing.assert_allclose(to_env_action(space, np.array([-1.0, -1.0])), [-2.0, 0.0])
    np.testing.assert_allclose(to_env_action(space, np.array([0.0, 0.5])), [0.0, 7.5])
