"""Draw docs/figures/antmaze-run.png from results/bench/h200-run-antmaze-metrics.jsonl, and print its table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from calql.results import style
from calql.results.metrics import read_rows

HERE = Path(__file__).parent
TOGETHER = 5  # evaluations online that a point is the mean of
PANELS = {"score": "score", "average_q": "average Q of logged pairs", "td_loss": "TD loss"}
STRAYS = 2  # the seed that does


def main() -> None:
    rows = read_rows(HERE / "../../results/bench/h200-run-antmaze-metrics.jsonl")
    seeds = {seed: [row for row in rows if row["seed"] == seed] for seed in sorted({row["seed"] for row in rows})}
    with style.styled():
        figure = Figure(figsize=(10.5, 3.1), constrained_layout=True)
        for panel, (name, label) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
            for seed, own in seeds.items():
                colour = style.colour(1) if seed == STRAYS else style.colour(0)
                told = {STRAYS: f"seed {STRAYS}", 0: "the other five"}.get(seed)
                panel.plot(*curve(own, name), color=colour, linewidth=1.0, alpha=0.8, label=told)
            switch = max(row["update"] for row in rows if row["phase"] == "offline")
            panel.axvline(switch / 1e6, color=style.FAINT, linewidth=0.8, linestyle=":")
            panel.set_xlabel("million updates (dotted: the switch)")
            panel.set_ylabel(label)
            if name == "td_loss":
                panel.set_yscale("log")
                panel.legend(loc="upper left")
        figure.savefig(HERE / "antmaze-run.png", dpi=120)
    for seed, own in seeds.items():
        print(seed, table_row(own))


def curve(rows: Sequence[dict[str, Any]], name: str) -> tuple[list[float], list[float]]:
    """Every evaluation offline, means of a few online."""
    groups = [[row] for row in rows if row["phase"] == "offline"]
    online = [row for row in rows if row["phase"] == "online"]
    groups += [online[first : first + TOGETHER] for first in range(0, len(online), TOGETHER)]
    points = [[row for row in group if row.get(name) is not None] for group in groups]
    points = [group for group in points if group]
    return [float(np.mean([row["update"] for row in group])) / 1e6 for group in points], [
        float(np.mean([row[name] for row in group])) for group in points
    ]


def table_row(rows: Sequence[dict[str, Any]]) -> str:
    """Score at the switch, around 360,000 steps, of the last ten evaluations; regret; alpha prime."""
    switch = next(row for row in rows if row["switch"])
    around = [row["score"] for row in rows if 340_000 <= row["env_steps"] < 360_000]
    last = [row["score"] for row in rows[-10:]]
    return (
        f"{switch['score']:.2f}, {np.mean(around):.2f}, {np.mean(last):.2f} until {rows[-1]['env_steps']:,}, "
        f"regret {rows[-1]['regret']:.3f}, alpha' {rows[-1]['alpha_prime']:.3g}, TD loss {rows[-1]['td_loss']:.3g}"
    )


if __name__ == "__main__":
    main()
