"""Environment steps/s: one environment on one core, beside what its simulator alone does in the same process.

Machines are shared, so time is the process's own CPU time and the best of several short windows counts;
the simulator's turn follows the environment's in every window, so that both meet the same neighbours.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from calql.domains.common.simulation import Simulation, mujoco
from calql.domains.registry import Task

LONGEST = 100  # steps of an episode that are played
WINDOWS = 40

Env = gymnasium.Env[Any, Any]
Actions = list[NDArray[Any]]


@dataclass(frozen=True)
class Window:
    """CPU seconds of some whole episodes with random actions."""

    steps: int
    stepping: float
    resetting: float
    simulating: float | None  # the same physics without the environment; None without a simulator


def measure_env(task: Task, *, seconds: float = 3.0) -> dict[str, Any]:
    """Steps/s of a task's environment, with and without its resets, and of its simulator alone."""
    env = task.make_env()
    env.action_space.seed(0)
    actions = [np.asarray(env.action_space.sample()) for _ in range(min(task.episode_limit, LONGEST))]
    simulation: Simulation | None = getattr(env.unwrapped, "simulation", None)
    warm = _window(env, simulation, actions, seconds / WINDOWS)
    windows = [_window(env, simulation, actions, seconds / WINDOWS) for _ in range(WINDOWS)]
    env.close()
    found = {
        "task": task.name,
        "env_steps_per_cpu_s": max(w.steps / w.stepping for w in windows),
        "with_resets_per_cpu_s": max(w.steps / (w.stepping + w.resetting) for w in windows),
        "raw_mujoco_steps_per_cpu_s": None,
        "share_of_raw": None,
        "measured": f"process CPU time, best of {WINDOWS} windows of about {warm.steps} random steps",
    }
    raw = [(w, w.simulating) for w in windows if w.simulating]
    if raw:
        found["raw_mujoco_steps_per_cpu_s"] = max(w.steps / alone for w, alone in raw)
        found["share_of_raw"] = float(np.median([alone / w.stepping for w, alone in raw]))
    return found


def distinct(tasks: Iterable[Task]) -> list[Task]:
    """One task of each environment: data of another kind do not change its speed."""
    seen: dict[Any, Task] = {}
    for task in tasks:
        seen.setdefault(_identity(task), task)
    return list(seen.values())


def _identity(task: Task) -> Any:
    make = task.make_env
    if isinstance(make, partial):
        return make.func, make.args, tuple(sorted(make.keywords.items()))
    return make


def _window(env: Env, simulation: Simulation | None, actions: Actions, seconds: float) -> Window:
    """Whole episodes until there has been enough stepping; each is played once more by the simulator alone."""
    steps, stepping, resetting, simulating, seed = 0, 0.0, 0.0, 0.0, 0
    while stepping < seconds:
        physics = None if simulation is None else _controls(env, simulation, actions, seed)
        begun = time.process_time()
        env.reset(seed=seed)
        ready = time.process_time()
        count = _play(env, actions)
        stepping += time.process_time() - ready
        resetting += ready - begun
        if simulation is not None and physics is not None:
            simulating += _simulate(simulation, *physics)
        steps, seed = steps + count, seed + 1
    return Window(steps, stepping, resetting, None if simulation is None else simulating)


def _play(env: Env, actions: Actions) -> int:
    steps = 0
    for action in actions:
        *_, terminated, truncated, _ = env.step(action)
        steps += 1
        if terminated or truncated:
            break
    return steps


def _controls(env: Env, simulation: Simulation, actions: Actions, seed: int) -> tuple[NDArray[Any], Actions]:
    """The state that the episode of a seed starts from, and what it sends to the actuators at each step."""
    env.reset(seed=seed)
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(simulation.model, kind))
    mujoco.mj_getState(simulation.model, simulation.data, state, kind)
    controls = []
    for action in actions:
        *_, terminated, truncated, _ = env.step(action)
        controls.append(simulation.data.ctrl.copy())
        if terminated or truncated:
            break
    return state, controls


def _simulate(simulation: Simulation, state: NDArray[Any], controls: Actions) -> float:
    """CPU seconds of the bare simulator for the same episode."""
    model, data, substeps, ctrl = simulation.model, simulation.data, simulation.substeps, simulation.data.ctrl
    mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    begun = time.process_time()
    for control in controls:
        ctrl[:] = control
        mujoco.mj_step(model, data, nstep=substeps)
    return time.process_time() - begun
