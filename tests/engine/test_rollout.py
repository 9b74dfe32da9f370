"""Episodes: decided by their numbers, the same in this process and in workers, in the environment's own units."""

from __future__ import annotations

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_task as toy

import corridor
from calql.engine.program import Program
from calql.engine.rollout import Episode, Player, Request, Stage, to_env_action
from calql.engine.workers import InProcess, Workers
from calql.errors import UserError
from calql.networks import Spec

METHOD = toy.tiny("cal-ql")
STAGE = Stage(corridor.Corridor, METHOD, episode_limit=6)


def policies(count: int = 3) -> object:
    keys = jnp.stack([jax.random.key(seed) for seed in range(count)])
    program = Program(METHOD)
    return jax.device_get(program.policies(program.start(keys, Spec((2,), 1))))


def requests(lanes: list[int]) -> list[Request]:
    return [Request(lane, (lane, 0, number)) for number, lane in enumerate(lanes)]


def same_episode(left: Episode, right: Episode) -> None:
    np.testing.assert_allclose(np.stack(left.observations), np.stack(right.observations), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.stack(left.actions), np.stack(right.actions), rtol=1e-5, atol=1e-6)
    assert left.rewards == right.rewards


def test_an_episode_follows_from_its_number_alone() -> None:
    player = Player(STAGE)
    first = player.play(policies(), requests([0, 1, 2]), explore=True)
    again = player.play(policies(), requests([0, 1, 2]), explore=True)
    for left, right in zip(first, again, strict=True):
        np.testing.assert_array_equal(np.stack(left.observations), np.stack(right.observations))
    alone = player.play(policies(), requests([0, 1, 2])[1:2], explore=True)[0]
    same_episode(first[1], alone)


def test_other_numbers_give_other_episodes() -> None:
    player = Player(STAGE)
    one, other = player.play(policies(), [Request(0, (0, 0, 1)), Request(0, (0, 0, 2))], explore=True)
    assert not np.allclose(one.observations[0], other.observations[0])
    assert not np.allclose(one.actions[0], other.actions[0])


def test_evaluation_is_deterministic_given_the_start() -> None:
    player = Player(STAGE)
    left = player.play(policies(), [Request(0, (0, 1, 5))], explore=False)[0]
    gaussian_free = player.play(policies(), [Request(0, (0, 1, 5))], explore=False)[0]
    np.testing.assert_array_equal(np.stack(left.actions), np.stack(gaussian_free.actions))
    explored = player.play(policies(), [Request(0, (0, 1, 5))], explore=True)[0]
    assert not np.allclose(np.stack(left.actions)[0], np.stack(explored.actions)[0])


def test_the_limit_cuts_without_a_terminal() -> None:
    episode = Player(STAGE).play(policies(), [Request(0, (0, 0, 0))], explore=False)[0]
    assert len(episode.rewards) == 6  # an untrained policy does not reach the end
    assert len(episode.observations) == 7
    assert not episode.terminal


def test_workers_play_the_same_episodes() -> None:
    workers, here = Workers(STAGE, 2), InProcess(STAGE)
    try:
        asked = requests([0, 1, 2, 1, 0])
        for left, right in zip(
            workers.play(policies(), asked, explore=True), here.play(policies(), asked, explore=True), strict=True
        ):
            same_episode(left, right)
    finally:
        workers.close()
        here.close()


@pytest.mark.parametrize("count", [0, 1])
def test_an_environment_that_raises_is_reported(count: int) -> None:
    stage = Stage(corridor.Broken, METHOD, episode_limit=6)
    rollouts = Workers(stage, count) if count else InProcess(stage)
    try:
        with pytest.raises(UserError, match="the motor is off"):
            rollouts.play(policies(), requests([0]), explore=True)
    finally:
        rollouts.close()


def test_actions_reach_the_bounds_of_the_environment() -> None:
    space = gymnasium.spaces.Box(np.array([-2.0, 0.0]), np.array([2.0, 10.0]), dtype=np.float64)
    np.testing.assert_allclose(to_env_action(space, np.array([1.0, 1.0])), [2.0, 10.0])
    np.testing.assert_allclose(to_env_action(space, np.array([-1.0, -1.0])), [-2.0, 0.0])
    np.testing.assert_allclose(to_env_action(space, np.array([0.0, 0.5])), [0.0, 7.5])
