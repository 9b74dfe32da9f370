"""Visual pick-and-place: the rules of grasping, carrying and dropping, and what the camera shows of them."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from calql.domains.pick_place.env import (
    DISTRACTORS,
    INNER,
    RIM,
    STEPS,
    TASKS,
    THINGS,
    PickPlace,
    image_of,
    in_container,
    looks,
    place,
)

CLOSE, OPEN = 1.0, -1.0


@pytest.fixture
def env() -> PickPlace:
    made = PickPlace()
    made.reset(seed=0)
    return made


def go(env: PickPlace, to: np.ndarray, fingers: float) -> None:
    """Move until there."""
    for _ in range(20):
        off = (to - env.state.gripper) / 0.03
        if np.abs(off).max() < 1e-3:
            return
        env.step(np.append(np.clip(off, -1, 1), fingers).astype(np.float32))


def carry_over_container(env: PickPlace, which: str) -> None:
    at = env.state.task_at if which == "task" else env.state.distractor_at
    go(env, np.append(at[:2], 0.15), OPEN)
    go(env, at, OPEN)
    env.step(np.array([0, 0, 0, CLOSE], np.float32))
    assert env.state.holds == which
    go(env, np.append(at[:2], 0.15), CLOSE)
    go(env, np.append(env.state.container_at, 0.15), CLOSE)


def test_ten_unique_objects_of_which_tasks_and_distractors_are_disjoint() -> None:
    assert len({thing.name for thing in THINGS}) == 10
    assert not {t.name for t in TASKS} & {t.name for t in DISTRACTORS}
    scenes = [place(np.random.default_rng(seed)) for seed in range(200)]
    assert {s.task for s in scenes} == set(TASKS)
    assert {s.distractor for s in scenes} == set(DISTRACTORS)


def test_no_scene_starts_solved_or_overlapping() -> None:
    for seed in range(200):
        state = place(np.random.default_rng(seed))
        assert not in_container(state, state.task_at)
        for at in (state.task_at, state.distractor_at):
            assert np.abs(at[:2] - state.container_at).max() > INNER + 0.02
        assert np.linalg.norm(state.task_at - state.distractor_at) > 0.06


def test_a_seed_determines_the_episode(env: PickPlace) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (10, 4)).astype(np.float32)

    def images(seed: int) -> np.ndarray:
        return np.stack([env.reset(seed=seed)[0], *(env.step(a)[0] for a in actions)])

    first, other = images(3), images(4)
    assert np.array_equal(first, images(3))
    assert not np.array_equal(first, other)


def test_placing_the_task_object_pays_one_and_ends(env: PickPlace) -> None:
    carry_over_container(env, "task")
    image, reward, terminated, truncated, info = env.step(np.array([0, 0, 0, OPEN], np.float32))
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    assert (image.shape, image.dtype) == ((48, 48, 3), np.uint8)


def test_placing_the_distractor_pays_nothing(env: PickPlace) -> None:
    carry_over_container(env, "distractor")
    _, reward, terminated, _, info = env.step(np.array([0, 0, 0, OPEN], np.float32))
    assert in_container(env.state, env.state.distractor_at)
    assert (reward, terminated, info["success"]) == (0.0, False, False)


def test_holding_above_the_container_is_not_yet_success(env: PickPlace) -> None:
    carry_over_container(env, "task")
    go(env, np.append(env.state.container_at, 0.045), CLOSE)
    assert not env.step(np.array([0, 0, 0, CLOSE], np.float32))[4]["success"]


def test_closing_beside_an_object_grasps_nothing_and_dropping_puts_it_on_the_table(env: PickPlace) -> None:
    at = env.state.task_at.copy()
    go(env, at + np.array([0.0, 0.03, 0.0], np.float32), OPEN)
    env.step(np.array([0, 0, 0, CLOSE], np.float32))
    assert env.state.holds is None
    env.step(np.array([0, 0, 0, OPEN], np.float32))
    go(env, at, OPEN)
    env.step(np.array([0, 0, 0, CLOSE], np.float32))
    go(env, at + np.array([0, 0, 0.08], np.float32), CLOSE)
    env.step(np.array([0, 0, 0, OPEN], np.float32))
    assert env.state.holds is None
    assert env.state.task_at[2] == np.float32(env.state.task.half_height)


def test_what_is_held_does_not_pass_through_the_walls(env: PickPlace) -> None:
    carry_over_container(env, "task")
    go(env, np.append(env.state.container_at, 0.03), CLOSE)
    for _ in range(4):
        env.step(np.array([-1, 0, 0, CLOSE], np.float32))
    assert np.abs(env.state.gripper[:2] - env.state.container_at).max() < INNER + 0.01
    assert env.state.gripper[2] < RIM + 0.03


def test_the_episode_is_cut_at_40_steps(env: PickPlace) -> None:
    env.reset(seed=1)
    flags = [env.step(np.zeros(4, np.float32))[2:4] for _ in range(STEPS)]
    assert flags == [(False, False)] * (STEPS - 1) + [(False, True)]


def test_images_tell_objects_gripper_height_and_fingers_apart() -> None:
    state = place(np.random.default_rng(0))
    seen = image_of(state)
    for thing in TASKS:
        state.task = thing
        assert looks(thing, state.task_at)
    images = []
    for thing in TASKS:
        state.task = thing
        images.append(image_of(state))
    assert len({image.tobytes() for image in images}) == len(TASKS)
    state.closed = True
    assert np.any(image_of(state) != seen)
    state.gripper = state.gripper - np.array([0, 0, 0.05], np.float32)
    assert np.mean(np.any(image_of(state) != seen, axis=-1)) > 0.01


def test_the_cached_layer_shows_the_same_as_painting_everything(env: PickPlace) -> None:
    env.reset(seed=2)
    at = env.state.task_at.copy()
    go(env, at, OPEN)
    for action in ([0, 0, 0, CLOSE], [0, 0, 1, CLOSE], [1, 0, 1, CLOSE], [0, 0, 0, OPEN], [1, 1, 1, OPEN]):
        image = env.step(np.array(action, np.float32))[0]
        assert np.array_equal(image, image_of(env.state))


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_accepts_it() -> None:
    check_env(PickPlace(), skip_render_check=True)
