"""The runs at the paper's scale: docs/figures/antmaze-run.png, and the rows of the tables about them.

Scores go into docs/results.md and docs/domains/antmaze.md, rates into docs/speed.md. A run that took several commands
has a file for each; their rates are joined by the time that each took.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from calql.results import style

HERE = Path(__file__).parent
BENCH = HERE / "../../results/bench"
TOGETHER = 5  # evaluations online that a point is the mean of
LAST = 10  # evaluations that count as the end
PANELS = {"score": "score", "average_q": "average Q of logged pairs", "td_loss": "TD loss"}
ASTRAY = 2  # the seed of AntMaze that diverges
PARTS = {
    "antmaze-medium-diverse": ("antmaze-part1", "antmaze-part2", "antmaze"),
    "kitchen-complete": ("kitchen",),
    "door-binary": ("door",),
    "pen-binary": ("pen-part1", "pen"),
}

Row = dict[str, Any]
Floats = NDArray[np.float64]
Seeds = Mapping[int, Sequence[Row]]  # the rows of each


def main() -> None:
    antmaze, pen = (seeds_of(BENCH / f"h200-run-{name}") for name in ("antmaze-metrics.jsonl.gz", "pen-metrics.jsonl"))
    draw(antmaze)
    five = {seed: rows for seed, rows in antmaze.items() if seed != ASTRAY}
    for name, seeds in {"antmaze": antmaze, f"without seed {ASTRAY}": five, "pen": pen}.items():
        print(f"{name}: {' | '.join(told(seeds, of) for of in (at_switch, in_the_middle, at_the_end, regret))}")
    for task, files in PARTS.items():
        print(task, rates([json.loads((BENCH / f"h200-run-{name}.json").read_text())["results"][0] for name in files]))


def seeds_of(path: Path) -> Seeds:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    return {seed: [row for row in rows if row["seed"] == seed] for seed in sorted({row["seed"] for row in rows})}


def told(seeds: Seeds, of: Callable[[Sequence[Row]], float]) -> str:
    values = [of(rows) for rows in seeds.values()]
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def at_switch(rows: Sequence[Row]) -> float:
    return float(next(row["score"] for row in rows if row["switch"]))


def in_the_middle(rows: Sequence[Row]) -> float:
    """From 340,000 to 360,000 steps, where a run has come so far."""
    return float(np.mean([row["score"] for row in rows if 340_000 <= row["env_steps"] < 360_000] or np.nan))


def at_the_end(rows: Sequence[Row]) -> float:
    return float(np.mean([row["score"] for row in rows[-LAST:]]))


def regret(rows: Sequence[Row]) -> float:
    return float(rows[-1]["regret"])


def rates(parts: Sequence[Row]) -> str:
    """Of the phases, whatever number of commands they took."""
    offline, online = (
        [part["phases"][name] for part in parts if part["phases"][name]] for name in ("offline", "online")
    )
    seeds = parts[0]["options"]["seeds"]
    trained, updates = seeds * grown(offline, "update"), seeds * grown(online, "update", after=offline)
    steps = seeds * grown(online, "env_steps")
    device, clock = updates / every(online, "updates_per_s"), updates / every(online, "updates_per_wall_s")
    return (
        f"{parts[-1]['wall_s'] / 60:.1f} min: "
        f"offline {trained.sum() / (trained / every(offline, 'updates_per_s')).sum():,.0f}, "
        f"online {updates.sum() / device.sum():,.0f}, "
        f"of the clock {updates.sum() / clock.sum():,.0f}, "
        f"seeds at once {np.average(every(online, 'seeds_at_once'), weights=device):.1f}, "
        f"steps/s {steps.sum() / (steps / every(online, 'env_steps_per_s')).sum():,.0f} "
        f"+ {every(online, 'evaluation_steps').sum() / clock.sum():,.0f} of evaluations, "
        f"waits {1 - device.sum() / clock.sum():.1%}"
    )


def every(phases: Sequence[Row], name: str) -> Floats:
    return np.array([phase[name] for phase in phases], float)


def grown(phases: Sequence[Row], name: str, after: Sequence[Row] = ()) -> Floats:
    """By how much a count, a mean over seeds, grew in each part."""
    return np.diff(every(phases, name), prepend=after[-1][name] if after else 0.0)


def draw(seeds: Seeds) -> None:
    switch = next(row["update"] for row in seeds[0] if row["switch"])
    with style.styled():
        figure = Figure(figsize=(10.5, 3.1), constrained_layout=True)
        for panel, (name, label) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
            for seed, rows in seeds.items():
                colour = style.colour(1) if seed == ASTRAY else style.colour(0)
                legend = {ASTRAY: f"seed {ASTRAY}", 0: "the other five"}.get(seed)
                panel.plot(*curve(rows, name), color=colour, linewidth=1.0, alpha=0.8, label=legend)
            panel.axvline(switch / 1e6, color=style.FAINT, linewidth=0.8, linestyle=":")
            panel.set_xlabel("million updates (dotted: the switch)")
            panel.set_ylabel(label)
            if name == "td_loss":
                panel.set_yscale("log")
                panel.legend(loc="upper left")
        figure.savefig(HERE / "antmaze-run.png", dpi=120)


def curve(rows: Sequence[Row], name: str) -> tuple[list[float], list[float]]:
    """Every evaluation offline, means of a few online."""
    known = [row for row in rows if row.get(name) is not None]
    online = [row for row in known if row["phase"] == "online"]
    groups = [[row] for row in known if row["phase"] == "offline"]
    groups += [online[first : first + TOGETHER] for first in range(0, len(online), TOGETHER)]
    updates = [float(np.mean([row["update"] for row in group])) / 1e6 for group in groups]
    return updates, [float(np.mean([row[name] for row in group])) for group in groups]


if __name__ == "__main__":
    main()
