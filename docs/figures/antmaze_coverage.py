"""Draw docs/figures/antmaze_coverage.png and print the table of docs/domains/antmaze.md.

python docs/figures/antmaze_coverage.py --slices FOLDER_OF_D4RL_SLICES [--size 200000]

The sets must be built (calql data build NAME --size SIZE). The slices are what is compared with.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from calql.data.store import obtain
from calql.domains.antmaze.data import coverage, walk_success
from calql.domains.antmaze.env import CELL, MAZES, cells, centre, middle_goal
from calql.domains.datasets import recipe

NAMES = ("medium-play", "medium-diverse", "large-play", "large-diverse")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--slices", type=Path, required=True)
    parser.add_argument("--size", type=int, default=200_000)
    chosen = parser.parse_args()
    figure, axes = plt.subplots(2, 4, figsize=(13, 6.2), constrained_layout=True)
    for column, name in enumerate(NAMES):
        maze = name.split("-")[0]
        built = obtain(recipe(f"antmaze-{name}"), size=chosen.size)
        with np.load(chosen.slices / f"antmaze-{name}-v0.npz") as stored:
            recorded = {key: stored[key] for key in ("observations", "actions", "rewards", "terminals")}
        draw(axes[0, column], maze, recorded["observations"], 3.0, f"D4RL, {len(recorded['rewards'])} recorded steps")
        draw(axes[1, column], maze, built.observations[::10], 0.4, f"built, {len(built):,} steps")
        axes[0, column].set_title(f"antmaze-{name}\n{axes[0, column].get_title()}", fontsize=9)
        walks = split(recorded["observations"])
        print(
            f"| {name}, D4RL slice | {summary(maze, walks, recorded['actions'])} | {bool(recorded['rewards'].any())} |"
        )
        ends = np.flatnonzero(built.truncated) + 1
        walks = np.split(built.observations, ends[:-1])
        print(f"| {name}, built | {summary(maze, walks, built.actions)} | {walk_success(built).mean():.1%} |")
    figure.savefig(Path(__file__).with_name("antmaze_coverage.png"), dpi=110)


def split(observations: np.ndarray) -> list[np.ndarray]:
    """Walks of a recording, cut where the position jumps: the flags of v0 files are two rows off."""
    jumps = np.flatnonzero(np.linalg.norm(np.diff(observations[:, :2], axis=0), axis=1) > 1.5) + 1
    return [walk for walk in np.split(observations, jumps) if len(walk) > 50]


def summary(maze: str, walks: list[np.ndarray], actions: np.ndarray) -> str:
    """Walks, length, those that end on their backs, speed before that, actions, area that two walks cover."""
    whole = [walk for walk in walks if len(walk) > 500] or walks
    upright = [1.0 - 2.0 * (walk[:, 4] ** 2 + walk[:, 5] ** 2) > 0.0 for walk in whole]  # the torso's up direction
    fallen = sum(not up[-1] for up in upright)
    steps = [
        np.linalg.norm(np.diff(walk[:, :2], axis=0), axis=1)[up[1:]] for walk, up in zip(whole, upright, strict=True)
    ]
    speed = np.concatenate(steps).mean() / 0.1
    pairs = [coverage(maze, np.concatenate(whole[i : i + 2])) for i in range(0, len(whole), 2)]
    low, high = np.quantile(pairs, [0.1, 0.9])
    area = f"{np.mean(pairs):.1%}" + (f" ({low:.1%} to {high:.1%})" if len(pairs) > 1 else "")
    columns = (
        len(whole),
        max(map(len, walks)),
        f"{fallen / len(whole):.0%}",
        f"{speed:.2f}",
        f"{np.abs(actions).mean():.2f}",
    )
    return " | ".join([*map(str, columns), area])


def draw(axis: plt.Axes, maze: str, observations: np.ndarray, size: float, title: str) -> None:
    for cell in cells(maze, "1"):
        x, y = centre(cell) - CELL / 2
        axis.add_patch(plt.Rectangle((x, y), CELL, CELL, color="0.8", lw=0))
    axis.scatter(observations[:, 0], observations[:, 1], s=size, lw=0, color="tab:blue", rasterized=True)
    axis.plot(0, 0, "s", color="tab:green", ms=6, label="start")
    axis.plot(*middle_goal(maze), "*", color="tab:red", ms=11, label="goal")
    rows, columns = len(MAZES[maze]), len(MAZES[maze][0])
    axis.set(xlim=(-6, columns * CELL - 6), ylim=(-6, rows * CELL - 6), aspect="equal", xticks=[], yticks=[])
    axis.set_title(title, fontsize=9)


if __name__ == "__main__":
    main()
