"""Draw docs/figures/home.svg (score) and home-q.svg (average Q on the data) from the float32 rows in results/precision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calql.results import style
from calql.results.metrics import read_rows

HERE = Path(__file__).parent
METHODS = {"cal-ql": "Cal-QL", "cql": "CQL"}
OFFLINE = 0.4  # of the picture's width, in thousand steps of the online part to one of the offline part
Row = dict[str, Any]


def main() -> None:
    rows = {name: read_rows(HERE / f"../../results/precision/{name}-float32-metrics.jsonl") for name in METHODS}
    settings = {"svg.hashsalt": "home", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11}
    with style.styled(), matplotlib.rc_context(settings):
        score = draw(rows, "score", "score", 1.09)
        score.set(ylim=(-0.03, 1.16), yticks=[0, 0.5, 1])
        score.figure.savefig(HERE / "home.svg", metadata={"Date": None})
        values = draw(rows, "average_q", "average Q on the data", 22)
        earned = float(np.mean([row["average_return_to_go"] for each in rows.values() for row in each]))
        values.axhline(earned, color=style.INK, linewidth=1.2, linestyle=":")
        values.annotate("what the data earn", (0.15, earned), (0, -13), "data", "offset points", fontsize=10)
        values.set(ylim=(-380, 48))
        values.figure.savefig(HERE / "home-q.svg", metadata={"Date": None})


def draw(rows: dict[str, Sequence[Row]], metric: str, label: str, above: float) -> Axes:
    """Every seed and their mean, through the switch."""
    panel = Figure(figsize=(6.2, 3.0), layout="constrained").subplots()
    for place, (method, title) in enumerate(METHODS.items()):
        lines = seeds(rows[method], metric)
        for x, y in lines:
            panel.plot(x, y, color=style.colour(place), alpha=0.25, linewidth=0.8)
        count = min(len(x) for x, _ in lines)
        x, y = np.mean([(x[:count], y[:count]) for x, y in lines], axis=0)
        panel.plot(x, y, color=style.colour(place), linewidth=2.6)
        panel.annotate(title, (x[-1], y[-1]), (6, 0), "data", "offset points", color=style.colour(place), va="center")
    panel.axvline(0, color=style.FAINT, linewidth=1, linestyle="--")
    for where, text in ((-1.6, "learns from data alone"), (2.5, "and from its own steps")):
        panel.text(where, above, text, color=style.FAINT, ha="center", fontsize=10)
    panel.set(xlim=(-3.3, 5.9), ylabel=label)
    panel.set_xticks([-3.2, -1.6, 0, 2.5, 5], ["0", "4K updates", "8K | 0", "2.5K steps", "5K"])
    return panel


def seeds(rows: Sequence[Row], metric: str) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Of each seed: where its evaluations stand, the switch at 0, and what was measured there."""
    made = []
    for seed in sorted({row["seed"] for row in rows}):
        own = [row for row in rows if row["seed"] == seed and row[metric] is not None]
        last = max(row["update"] for row in own if row["phase"] == "offline")
        x = [(row["update"] - last) / 1000 * OFFLINE if row["phase"] == "offline" else row["env_steps"] / 1000 for row in own]
        made.append((x, [row[metric] for row in own]))
    return made


if __name__ == "__main__":
    main()
