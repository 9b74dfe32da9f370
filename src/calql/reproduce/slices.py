"""Figure 4, measured: Q along a line through the actions, against the return that each of them truly leads to.

At a logged state of the point maze the first component of the action goes from -1 to 1, the second stays as logged.
The truth is a rollout from that very state: the action once, then the policy that Q belongs to.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql import experiment as experiments
from calql.engine.run import Run
from calql.envs.point_maze import PointMaze
from calql.experiment import Experiment
from calql.methods.base import Method, Moment
from calql.reproduce.cells import SLICES, Cell
from calql.results import Silent
from calql.results.metrics import write_atomically

COLUMNS = ("method", "moment", "state", "action_x", "q", "true_return", "logged", "reference")
POINTS, SMOKE_POINTS = 41, 5
# Logged states to look at, as shares of the first episode.
STATES = {"at the start": 0.0, "half-way": 0.5}

Floats = NDArray[np.float32]


def write_slices(cell: Cell, run_folder: Path, path: Path) -> None:
    """Slices of a finished run, means over its seeds."""
    experiment, _ = experiments.from_config(run_folder)
    run = Run(experiments.plan(experiment), run_folder, Silent())
    try:
        run.restore()
        rows = [row for name, share in STATES.items() for row in _slice(cell, experiment, run, name, share)]
    finally:
        run.close()
    write_atomically(path, _as_csv(rows))


def gather_slices(cells: Sequence[Cell], root: Path, path: Path) -> None:
    """The slices of all cells that have them, in one table."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        if cell.slices and (found := root / cell.id / SLICES).is_file():
            rows += csv.DictReader(found.open(newline=""))
    if rows:
        write_atomically(path, _as_csv(rows))


def _slice(cell: Cell, experiment: Experiment, run: Run, name: str, share: float) -> list[dict[str, Any]]:
    data = experiment.data
    row = int(share * (data.episode_ends[0] - data.episode_starts[0]))
    state, logged = data.observations[row], data.actions[row]
    actions = np.tile(logged, (SMOKE_POINTS if cell.scale == "smoke" else POINTS, 1))
    actions[:, 0] = np.linspace(-1.0, 1.0, len(actions))
    actions = np.concatenate([actions, logged[None]])
    q = run.program.values(run.learning.state, jnp.asarray(np.tile(state, (len(actions), 1))), jnp.asarray(actions))
    assert q is not None  # both methods of the figure have one
    policies = jax.device_get(run.program.policies(run.learning.state))
    true_returns = [
        _returns(experiment, run.program.method, jax.tree.map(lambda leaf, i=i: leaf[i], policies), state, actions)
        for i in range(cell.seeds)
    ]
    reference = float(run.plan.inputs.return_to_go[row])
    columns = zip(actions[:, 0], np.asarray(q).mean(axis=0), np.mean(true_returns, axis=0), strict=True)
    return [
        dict(
            zip(
                COLUMNS,
                (
                    cell.method,
                    cell.slices,
                    name,
                    float(x),
                    float(value),
                    float(truth),
                    int(i == len(actions) - 1),
                    reference,
                ),
                strict=True,
            )
        )
        for i, (x, value, truth) in enumerate(columns)
    ]


def _returns(
    experiment: Experiment, method: Method, policy: Any, state: Floats, actions: Floats
) -> NDArray[np.float64]:
    """What each first action leads to, in training rewards; an episode without success fails for ever after."""
    rewards, discount = experiment.task.rewards, float(experiment.options.discount)
    worst, best = (float(rewards.map(np.asarray(value))) for value in (0.0, 1.0))
    envs = [_env_at(state) for _ in actions]
    observations, alive = np.tile(state, (len(envs), 1)), np.ones(len(envs), bool)
    returns = np.zeros(len(envs))
    act = jax.jit(lambda seen: jax.vmap(lambda one: _greedy(method, policy, one))(seen))
    for step in range(experiment.task.episode_limit):
        chosen = actions if step == 0 else np.asarray(act(observations))
        for index in np.flatnonzero(alive):
            observations[index], _, success, _, _ = envs[index].step(chosen[index])
            returns[index] += discount**step * (best if success else worst)
            alive[index] = not success
        if not alive.any():
            break
    for env in envs:
        env.close()
    return returns + alive * discount**experiment.task.episode_limit * worst / (1.0 - discount)


def _greedy(method: Method, policy: Any, observation: jax.Array) -> jax.Array:
    moment = Moment(observation, jnp.float32(0.0), jnp.int32(0))
    return method.act(policy, method.start(policy), moment, jax.random.key(0), explore=False)[0]


def _env_at(state: Floats) -> PointMaze:
    """The maze in a given state: position, then velocity."""
    env = PointMaze()
    env.reset(seed=0)
    env.maze.point_env.set_state(state[:2].astype(np.float64), state[2:].astype(np.float64))
    return env


def _as_csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
