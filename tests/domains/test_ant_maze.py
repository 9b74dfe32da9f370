"""The ant's maze: geometry, rewards, determinism, and real recordings that it must continue."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from calql.domains.antmaze.env import (
    EVALUATION_GOALS,
    MAZES,
    AntMazeEnv,
    ant_model,
    cells,
    centre,
    draw_goal,
    middle_goal,
    reached,
)
from calql.system.errors import UserError

SHARED = Path(os.environ.get("CALQL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.parametrize("maze", MAZES)
def test_map_is_closed_and_its_cells_are_where_d4rl_has_them(maze: str) -> None:
    rows = MAZES[maze]
    assert {len(row) for row in rows} == {len(rows[0])}
    assert set(rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows)) == {"1"}
    assert cells(maze, "R") == [(1, 1)]
    assert np.array_equal(centre((1, 1)), [0.0, 0.0])
    assert EVALUATION_GOALS[maze] in cells(maze, "0RG")


def test_evaluation_goals_are_d4rls() -> None:
    assert np.array_equal(centre(EVALUATION_GOALS["medium"]), [20.0, 20.0])
    assert np.array_equal(centre(EVALUATION_GOALS["large"]), [32.0, 24.0])
    assert np.array_equal(centre(EVALUATION_GOALS["umaze"]), [0.0, 8.0])
    rng = np.random.default_rng(0)
    offsets = np.array([draw_goal((6, 6), rng) - 20.0 for _ in range(4000)])
    assert offsets.min() >= 0.0
    assert offsets.max() <= 1.5
    assert np.allclose(offsets.mean(0), 0.75, atol=0.02)
    assert np.allclose(middle_goal("medium"), 20.75)


def test_model_is_d4rls_ant() -> None:
    model = ant_model("medium")
    assert (model.nq, model.nv, model.nu) == (15, 14, 8)
    assert model.opt.timestep == 0.02
    assert np.all(model.actuator_ctrlrange == [-30.0, 30.0])
    assert np.all(model.actuator_gear[:, 0] == 1.0)
    assert np.all(model.geom_solimp[:, :3] == [0.8, 0.8, 0.01])
    assert model.ngeom == 14 + len(cells("medium", "1"))
    with pytest.raises(UserError, match="did you mean 'medium'"):
        AntMazeEnv("medum")


def test_follows_gymnasiums_interface() -> None:
    check_env(AntMazeEnv("umaze"), skip_render_check=True)
    env: gymnasium.Env[np.ndarray, np.ndarray] = AntMazeEnv("umaze")
    observation, _ = env.reset(seed=1)
    assert observation.shape == (29,)
    assert observation.dtype == np.float32
    assert np.all(np.abs(observation[:2]) <= 0.1)


def test_seed_determines_the_episode() -> None:
    def play(env: AntMazeEnv) -> tuple[np.ndarray, np.ndarray]:
        env.reset(seed=7)
        actions = np.random.default_rng(3).uniform(-1, 1, (40, 8)).astype(np.float32)
        return np.array([env.step(a)[0] for a in actions]), env.goal

    used = AntMazeEnv("medium")
    play(used)
    first, goal = play(used)
    second, same_goal = play(AntMazeEnv("medium"))
    assert np.array_equal(first, second)
    assert np.array_equal(goal, same_goal)
    used.reset()
    assert not np.array_equal(used.goal, goal)


def test_goal_pays_one_and_ends_and_the_limit_truncates() -> None:
    env = AntMazeEnv("umaze", max_steps=3)
    env.reset(seed=0, options={"start": [0.5, 8.5], "goal": [0.5, 8.5]})
    _, reward, terminated, truncated, info = env.step(np.zeros(8, np.float32))
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    env.reset(seed=0)
    ends = [env.step(np.zeros(8, np.float32))[1:4] for _ in range(3)]
    assert ends == [(0.0, False, False), (0.0, False, False), (0.0, False, True)]
    assert reached(np.array([0.0, 0.5]), np.zeros(2))
    assert not reached(np.array([0.0, 0.5001]), np.zeros(2))


def test_walls_hold() -> None:
    env = AntMazeEnv("umaze")
    env.reset(seed=0, options={"start": [0.0, 1.2]})
    env.data.qvel[1] = 10.0  # towards the wall at y = 2
    for _ in range(20):
        env.advance(np.zeros(8))
    assert env.data.qpos[1] < 2.2


def test_walls_are_touched_as_with_mujocos_tree_of_bounding_boxes() -> None:
    """The environment leaves the tree out because it is slower; a walk along a wall is the same to the bit."""

    def walk(env: AntMazeEnv) -> np.ndarray:
        env.reset(seed=0, options={"start": [2.0, -1.0]})
        rng = np.random.default_rng(0)
        touched, states = 0, []
        for _ in range(60):
            env.advance(rng.uniform(-1.0, 1.0, 8))
            env.data.qvel[1] = -1.0  # towards the walls at y = -2, near the seam of two
            touched += int(any(c.geom[0] in walls or c.geom[1] in walls for c in env.data.contact))
            states.append(env.state())
        assert touched > 10
        return np.stack(states)

    without, with_tree = AntMazeEnv("medium"), AntMazeEnv("medium")
    walls = {g for g in range(without.model.ngeom) if without.model.geom(g).name.startswith("wall")}
    with_tree.model = copy.copy(without.model)
    assert with_tree.model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_MIDPHASE
    with_tree.model.opt.disableflags = 0
    assert np.array_equal(walk(without), walk(with_tree))


@pytest.mark.parametrize(
    "name", ["umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse"]
)
def test_continues_real_recordings(name: str) -> None:
    path = SHARED / "d4rl_slices" / f"antmaze-{name}-v0.npz"
    if not path.is_file():
        pytest.skip(f"needs the recorded slice {path.name} (CALQL_SHARED_DATA)")
    with np.load(path) as recorded:
        states, actions = recorded["observations"].astype(np.float64), recorded["actions"]
        following = recorded["infos_qpos"]  # of D4RL's generator: the state after the step
    env = AntMazeEnv(name.split("-")[0])
    errors = []
    for row in range(0, len(states), 10):
        env.set_state(states[row, :15], states[row, 15:])
        env.advance(actions[row])
        errors.append(np.linalg.norm(env.data.qpos[:2] - following[row, :2]))
    assert np.median(errors) < 0.01
