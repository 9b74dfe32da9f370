"""Draw docs/figures/home.svg, the picture of the home page, from the float32 rows in results/precision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from calql.results import style
from calql.results.metrics import read_rows

HERE = Path(__file__).parent
METHODS = {"cal-ql": "Cal-QL", "cql": "CQL"}
OFFLINE = 0.4  # of the picture's width, in thousand steps of the online part to one of the offline part


def main() -> None:
    settings = {"svg.hashsalt": "home", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11}
    with style.styled(), matplotlib.rc_context(settings):
        figure = Figure(figsize=(6.2, 3.0), layout="constrained")
        panel = figure.subplots()
        for place, (name, label) in enumerate(METHODS.items()):
            lines = seeds(read_rows(HERE / f"../../results/precision/{name}-float32-metrics.jsonl"))
            for x, y in lines:
                panel.plot(x, y, color=style.colour(place), alpha=0.25, linewidth=0.8)
            count = min(len(x) for x, _ in lines)
            x, y = np.mean([(x[:count], y[:count]) for x, y in lines], axis=0)
            panel.plot(x, y, color=style.colour(place), linewidth=2.6)
            panel.annotate(label, (x[-1], y[-1]), (6, 0), "data", "offset points", color=style.colour(place), va="center")
        panel.axvline(0, color=style.FAINT, linewidth=1, linestyle="--")
        for where, text in ((-1.6, "learns from data alone"), (2.5, "and from its own steps")):
            panel.text(where, 1.09, text, color=style.FAINT, ha="center", fontsize=10)
        panel.set(ylim=(-0.03, 1.16), xlim=(-3.3, 5.9), ylabel="score", yticks=[0, 0.5, 1])
        panel.set_xticks([-3.2, -1.6, 0, 2.5, 5], ["0", "4K updates", "8K | 0", "2.5K steps", "5K"])
        figure.savefig(HERE / "home.svg", metadata={"Date": None})


def seeds(rows: Sequence[dict[str, Any]]) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Of each seed: where its evaluations stand, the switch at 0, and their scores."""
    made = []
    for seed in sorted({row["seed"] for row in rows}):
        own = [row for row in rows if row["seed"] == seed]
        last = max(row["update"] for row in own if row["phase"] == "offline")
        x = [(row["update"] - last) / 1000 * OFFLINE if row["phase"] == "offline" else row["env_steps"] / 1000 for row in own]
        made.append((x, [row["score"] for row in own]))
    return made


if __name__ == "__main__":
    main()
