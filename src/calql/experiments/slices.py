"""Figure 4, measured: Q along a line through the actions, against the return that each of them truly leads to.

At a logged state of the point maze the first component of the action goes from -1 to 1, the second stays as logged.
The truth is a rollout from that very state: the action once, then the policy that Q belongs to.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.domains.registry import Task, get_scene
from calql.engine.run import Run
from calql.experiments.cells import SLICES, Cell
from calql.methods.base import Method, TimeStep
from calql.results import Silent
from calql.results.metrics import write_atomically
from calql.runs import preparation, record
from calql.runs.preparation import Prepared

COLUMNS = ("method", "moment", "state", "action_x", "q", "true_return", "logged", "reference")
POINTS, SMOKE_POINTS = 41, 5
# Logged states to look at, as shares of the first episode.
STATES = {"at the start": 0.0, "half-way": 0.5}

Floats = NDArray[np.float32]
Act = Callable[[Floats], jax.Array]
Env = gymnasium.Env[Any, Any]


def write_slices(cell: Cell, run_folder: Path, path: Path) -> None:
    """Slices of a finished run, means over its seeds."""
    prepared, _ = record.from_config(run_folder)
    points = SMOKE_POINTS if cell.scale == "smoke" else POINTS
    run = Run(preparation.plan(prepared), run_folder, Silent())
    envs = [prepared.task.make_env() for _ in range(points + 1)]
    try:
        run.restore()
        rows = [row for name, share in STATES.items() for row in _slice(cell, prepared, run, envs, name, share)]
    finally:
        run.close()
        for env in envs:
            env.close()
    write_atomically(path, _as_csv(rows))


def gather_slices(cells: Sequence[Cell], root: Path, path: Path) -> None:
    """The slices of all cells that have them, in one table."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        if cell.slices and (found := root / cell.id / SLICES).is_file():
            rows += csv.DictReader(found.open(newline=""))
    if rows:
        write_atomically(path, _as_csv(rows))


def _slice(
    cell: Cell, prepared: Prepared, run: Run, envs: Sequence[Env], name: str, share: float
) -> list[dict[str, Any]]:
    data = prepared.data
    row = int(share * (data.episode_ends[0] - data.episode_starts[0]))
    state, logged = data.observations[row], data.actions[row]
    actions = np.tile(logged, (len(envs), 1))
    actions[:-1, 0] = np.linspace(-1.0, 1.0, len(envs) - 1)  # and last the logged one itself
    q = run.program.values(run.learning.state, jnp.asarray(np.tile(state, (len(actions), 1))), jnp.asarray(actions))
    assert q is not None  # both methods of the figure have one
    policies = jax.device_get(run.program.policies(run.learning.state))
    of_seed = [jax.tree.map(lambda leaf, i=i: leaf[i], policies) for i in range(cell.seeds)]
    act = jax.jit(jax.vmap(partial(_greedy, run.program.method), in_axes=(None, 0)))
    task, discount = prepared.task, float(prepared.options.discount)
    truth = [true_returns(task, discount, partial(act, policy), envs, state, actions) for policy in of_seed]
    reference = float(run.plan.inputs.return_to_go[row])
    columns = zip(actions[:, 0], np.asarray(q).mean(axis=0), np.mean(truth, axis=0), strict=True)
    return [
        {
            "method": cell.method,
            "moment": cell.slices,
            "state": name,
            "action_x": float(x),
            "q": float(value),
            "true_return": float(came_to),
            "logged": int(index == len(envs) - 1),
            "reference": reference,
        }
        for index, (x, value, came_to) in enumerate(columns)
    ]


def true_returns(
    task: Task, discount: float, act: Act, envs: Sequence[Env], state: Floats, actions: Floats
) -> NDArray[np.float64]:
    """What each first action leads to, in training rewards; an episode without success fails for ever after."""
    worst, best = (float(task.rewards.map(np.asarray(value))) for value in (0.0, 1.0))
    put, count = get_scene(task.name).put, len(envs)
    assert put is not None  # the tasks of the figure can be put into a recorded state
    for env in envs:
        env.reset(seed=0)
        put(env, state)
    observations, alive, returns = np.tile(state, (count, 1)), np.ones(count, bool), np.zeros(count)
    for step in range(task.episode_limit):
        chosen = actions if step == 0 else np.asarray(act(observations))
        for index in map(int, np.flatnonzero(alive)):
            observations[index], _, success, _, _ = envs[index].step(chosen[index])
            returns[index] += discount**step * (best if success else worst)
            alive[index] = not success
        if not alive.any():
            break
    return returns + alive * discount**task.episode_limit * worst / (1.0 - discount)


def _greedy(method: Method, policy: Any, observation: jax.Array) -> jax.Array:
    time_step = TimeStep(observation, jnp.float32(0.0), jnp.int32(0))
    return method.act(policy, method.start(policy), time_step, jax.random.key(0), explore=False)[0]


def _as_csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
