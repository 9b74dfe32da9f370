"""What `calql bench --envs` compares: an environment, and the same physics without it."""

from __future__ import annotations

import numpy as np
import pytest

from calql.bench.environments import _controls, _simulate, distinct, measure_env
from calql.domains.registry import all_tasks, get_task


@pytest.mark.parametrize("name", ["antmaze-umaze", "hopper-random", "door-binary"])
def test_the_bare_simulator_repeats_the_physics_of_the_episode(name: str) -> None:
    env = get_task(name).make_env()
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(12)]
    state, controls = _controls(env, env.simulation, actions, seed=1)
    reached = env.simulation.data.qpos.copy()
    env.step(actions[0])
    assert not np.array_equal(env.simulation.data.qpos, reached)
    assert _simulate(env.simulation, state, controls) > 0.0
    assert np.array_equal(env.simulation.data.qpos, reached)


def test_an_environment_is_measured_beside_its_simulator() -> None:
    found = measure_env(get_task("halfcheetah-random"), seconds=0.05)
    assert 0.0 < found["with_resets_per_cpu_s"] <= found["env_steps_per_cpu_s"]
    assert found["raw_mujoco_steps_per_cpu_s"] > 0.0
    assert found["share_of_raw"] > 0.0
    assert "CPU time" in found["measured"]


def test_pick_place_has_no_simulator() -> None:
    found = measure_env(get_task("pick-place"), seconds=0.05)
    assert found["env_steps_per_cpu_s"] > 0.0
    assert found["raw_mujoco_steps_per_cpu_s"] is None


def test_each_environment_is_measured_once() -> None:
    names = [task.name for task in distinct(all_tasks().values())]
    assert [name for name in names if name.startswith("hopper")] == ["hopper-random"]
    assert [name for name in names if name.startswith("antmaze")] == [
        "antmaze-umaze",
        "antmaze-medium-play",
        "antmaze-large-play",
    ]
    assert {"pen-binary", "door-binary", "relocate-binary", "pick-place"} <= set(names)
