"""Franka kitchen: FrankaKitchen-v1's physics, D4RL's observation, the paper's cumulative reward."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from calql.domains.kitchen.env import (
    GOALS,
    NOISE,
    TASK_SETS,
    Kitchen,
    _build_scene,
    goal_vector,
    observation_60,
    solved,
)
from calql.system.errors import UserError

MICROWAVE, SLIDE = 22, 19


@pytest.fixture(scope="module")
def env() -> Kitchen:
    return Kitchen("partial")


def test_goals_are_those_of_gymnasium_robotics() -> None:
    from gymnasium_robotics.envs.franka_kitchen import kitchen_env

    assert kitchen_env.BONUS_THRESH == 0.3
    for task, (entries, wanted) in GOALS.items():
        assert kitchen_env.OBS_ELEMENT_INDICES[task].tolist() == list(entries)
        assert kitchen_env.OBS_ELEMENT_GOALS[task].tolist() == list(wanted)


def test_goal_vectors_are_zero_outside_the_four_tasks() -> None:
    partial, mixed = goal_vector(TASK_SETS["partial"]), goal_vector(TASK_SETS["mixed"])
    assert np.flatnonzero(partial).tolist() == [17, 18, 19, 22, 23, 24, 25, 26, 29]
    assert np.flatnonzero(mixed).tolist() == [11, 12, 17, 18, 22, 23, 24, 25, 26, 29]
    assert partial[17] == np.float32(-0.69)


def test_physics_and_noise_are_those_of_franka_kitchen_to_the_bit(env: Kitchen) -> None:
    original = _build_scene(env.tasks, NOISE, None)
    ours, theirs = env.reset(seed=3)[0], original.reset(seed=3)[0]["observation"]
    assert np.array_equal(ours, observation_60(theirs, env.tasks))
    for action in np.random.default_rng(0).uniform(-1.2, 1.2, (25, 9)):
        ours, theirs = env.step(action)[0], original.step(action)[0]["observation"]
        assert np.array_equal(ours, observation_60(theirs, env.tasks))


def test_a_seed_determines_the_episode(env: Kitchen) -> None:
    def episode(seed: int) -> np.ndarray:
        first, _ = env.reset(seed=seed)
        return np.stack([first, *(env.step(np.full(9, 0.3, np.float32))[0] for _ in range(5))])

    first = episode(1)
    other = episode(2)
    assert np.array_equal(first, episode(1))
    assert not np.array_equal(first, other)


def test_reward_counts_what_was_solved_and_never_falls(env: Kitchen) -> None:
    env.reset(seed=0)
    rest = np.zeros(9, np.float32)
    assert env.step(rest)[1] == 0.0
    env.scene.data.qpos[MICROWAVE] = -0.75
    _, reward, terminated, _, info = env.step(rest)
    assert (reward, terminated, info["solved"], info["success"]) == (1.0, False, ("microwave",), False)
    env.scene.data.qpos[MICROWAVE] = 0.0
    env.scene.data.qpos[SLIDE] = 0.37
    assert env.step(rest)[1] == 2.0
    env._solved[:] = True
    assert env.step(rest)[4]["success"]
    assert env.step(rest)[1:4] == (4.0, False, False)  # no termination when all is done
    env.reset(seed=0)
    assert env.step(rest)[1] == 0.0


def test_a_task_is_solved_within_0_3(env: Kitchen) -> None:
    joints = np.zeros((2, 30))
    joints[:, SLIDE] = [0.37 - 0.299, 0.37 - 0.301]
    assert solved(joints, ("slide cabinet",))[:, 0].tolist() == [True, False]


def test_the_episode_is_cut_at_1000_steps(env: Kitchen) -> None:
    env.reset(seed=0)
    env._steps = 998
    assert env.step(np.zeros(9, np.float32))[2:4] == (False, False)
    assert env.step(np.zeros(9, np.float32))[2:4] == (False, True)


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_accepts_it() -> None:
    check_env(Kitchen("mixed"), skip_render_check=True)


def test_an_unknown_set_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'mixed'"):
        Kitchen("mixd")
