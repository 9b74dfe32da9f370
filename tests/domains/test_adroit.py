"""Adroit binary: the same hand as gymnasium-robotics', with the paper's reward and ending."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from calql.domains.adroit.env import HANDS, AdroitBinary, build_scene
from calql.system.errors import UserError

DIMENSIONS = {"pen": (45, 24, 100), "door": (39, 28, 200), "relocate": (39, 30, 200)}


@pytest.fixture(scope="module", params=sorted(HANDS))
def env(request: pytest.FixtureRequest) -> AdroitBinary:
    return AdroitBinary(request.param)


def actions(env: AdroitBinary, count: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1.2, 1.2, (count, *env.action_space.shape)).astype(np.float32)


def test_dimensions_and_limit(env: AdroitBinary) -> None:
    observation, action, steps = DIMENSIONS[env.task]
    assert env.observation_space.shape == (observation,)
    assert env.action_space.shape == (action,)
    env.reset(seed=0)
    ends = [env.step(np.zeros(action, np.float32)) for _ in range(steps)]
    assert [truncated for _, _, _, truncated, _ in ends] == [False] * (steps - 1) + [True]
    assert {reward for _, reward, *_ in ends} == {-1.0}


def test_physics_and_observations_are_those_of_gymnasium_robotics_to_the_bit(env: AdroitBinary) -> None:
    original = build_scene(HANDS[env.task])
    ours, theirs = env.reset(seed=11)[0], original.reset(seed=11)[0]
    assert np.array_equal(ours, theirs.astype(np.float32))
    for action in actions(env, 60):
        ours, *_, info = env.step(action)
        theirs, *_, original_info = original.step(action)
        assert np.array_equal(ours, theirs.astype(np.float32))
        assert info["success"] == bool(original_info["success"])


def test_a_seed_determines_the_episode_whatever_went_before(env: AdroitBinary) -> None:
    def episode() -> np.ndarray:
        first, _ = env.reset(seed=5)
        return np.stack([first, *(env.step(a)[0] for a in actions(env, 20))])

    before = episode()
    env.reset(seed=6)
    moved = env.state()
    for key in moved.keys() & {"obj_pos", "target_pos", "door_body_pos"}:
        moved[key] = moved[key] + 0.05
    env.reset(options={"state": moved})
    assert np.array_equal(before, episode())


def test_a_recorded_state_is_where_the_episode_starts(env: AdroitBinary) -> None:
    first, _ = env.reset(seed=7)
    state = env.state()
    env.reset(seed=8)
    again, _ = env.reset(options={"state": state})
    assert np.allclose(first, again, atol=1e-6)


def test_the_door_succeeds_at_1_35_rad_and_the_episode_ends_there() -> None:
    for ends in (True, False):
        env = AdroitBinary("door", ends=ends)
        env.reset(seed=0)
        state = env.state()
        state["qpos"][-2] = 1.349
        env.reset(options={"state": state})
        assert not env.step(np.zeros(28, np.float32))[4]["success"] or env.scene.data.qpos[-2] >= 1.35
        state["qpos"][-2] = 1.4
        env.reset(options={"state": state})
        _, reward, terminated, truncated, info = env.step(np.zeros(28, np.float32))
        assert (reward, terminated, truncated, info["success"]) == (0.0, ends, False, True)


def test_relocate_and_pen_succeed_by_their_predicates() -> None:
    relocate = AdroitBinary("relocate")
    relocate.reset(seed=0)
    state = relocate.state()
    state["target_pos"] = state["obj_pos"] + np.array([0.0, 0.0, 0.09])
    assert relocate.reset(options={"state": state})[1]["success"]
    state["target_pos"] = state["obj_pos"] + np.array([0.0, 0.0, 0.11])
    assert not relocate.reset(options={"state": state})[1]["success"]
    pen = AdroitBinary("pen")
    pen.reset(seed=0)
    state = pen.state()
    state["desired_orien"] = pen.scene.model.body_quat[pen.scene.obj_body_id].copy()
    success = pen.reset(options={"state": state})[1]["success"]
    observation = pen.reset(options={"state": state})[0]
    close = np.linalg.norm(observation[39:42]) < 0.075
    assert success == bool(close and observation[33:36] @ observation[36:39] > 0.95)


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_accepts_it() -> None:
    check_env(AdroitBinary("door"), skip_render_check=True)


def test_an_unknown_task_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'door'"):
        AdroitBinary("doors")
