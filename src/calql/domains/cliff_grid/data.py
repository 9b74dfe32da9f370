"""Data of the cliff grid: somebody who knows the way, and never tries anything else."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import numpy as np

from calql.data.dataset import Dataset, concatenate
from calql.data.store import BuildContext, Recipe
from calql.domains.cliff_grid.env import LEDGE, MOVES, CliffGrid, allowed, cells, moved, place
from calql.domains.common.mazes import Square
from calql.domains.common.rollout import earned

EPISODES, HELD_OUT_EPISODES = 100, 20


def distances(grid: tuple[str, ...]) -> dict[Square, int]:
    """Steps from each cell to the goal on ways that stay on the ledge."""
    queue = deque(cells(grid, "g"))
    found = dict.fromkeys(queue, 0)
    while queue:
        cell = queue.popleft()
        for action in range(len(MOVES)):
            before = moved(grid, cell, action)
            if before not in found and grid[before[0]][before[1]] != "x":
                found[before] = found[cell] + 1
                queue.append(before)
    return found


def walks(context: BuildContext, *, masked: bool, episodes: int = EPISODES, purpose: int = 0) -> Dataset:
    """Episodes from any start to the goal."""
    rng, far = np.random.default_rng([context.seed, purpose]), distances(LEDGE)
    env = CliffGrid(masked=masked)
    parts = []
    for episode in range(episodes):
        parts.append(_walk(env, rng, far))
        context.progress("cliff grid", episode + 1, episodes)
    return concatenate(parts, source="cliff-grid")


def _walk(env: CliffGrid, rng: np.random.Generator, far: dict[Square, int]) -> Dataset:
    env.reset(seed=int(rng.integers(2**31)))
    seen, actions, rewards, terminal = [env.cell], [], [], False
    while not terminal:
        actions.append(_action(env, rng, far))
        _, reward, terminal, *_ = env.step(actions[-1])
        seen.append(env.cell)
        rewards.append(reward)
    last = np.arange(len(actions)) == len(actions) - 1
    observations = np.stack([place(env.grid, cell) for cell in seen])
    masks = np.stack([allowed(env.grid, cell) for cell in seen]).astype(bool)
    known: dict[str, Any] = {"action_masks": masks[:-1], "next_action_masks": masks[1:]} if env.masked else {}
    return Dataset(
        observations=observations[:-1],
        actions=np.array(actions, np.int64),
        rewards=np.array(rewards, np.float32),
        next_observations=observations[1:],
        terminals=last,
        truncated=np.zeros_like(last),
        source="cliff-grid",
        **known,
    )


def _action(env: CliffGrid, rng: np.random.Generator, far: dict[Square, int]) -> int:
    """Any that is on a shortest way."""
    towards = [far.get(moved(env.grid, env.cell, action), len(far)) for action in range(len(MOVES))]
    return int(rng.choice(np.flatnonzero(np.array(towards) == min(towards))))


def _recipes(name: str, *, masked: bool, summary: str) -> tuple[Recipe, Recipe]:
    made = partial(walks, masked=masked)
    return (
        Recipe(name, 1, made, summary=summary, success=earned),
        Recipe(
            f"{name}-held-out",
            1,
            partial(made, episodes=HELD_OUT_EPISODES, purpose=1),
            summary="the same, never trained on",
            success=earned,
            variant_of=name,
        ),
    )


RECIPES = {
    recipe.name: recipe
    for recipe in (
        *_recipes("cliff-grid", masked=False, summary="shortest ways to the goal"),
        *_recipes("cliff-grid-masked", masked=True, summary="the same, with masks that forbid the edge"),
    )
}
