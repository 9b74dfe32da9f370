"""Draw docs/figures/precision.png and print the table of docs/decisions/004-precision.md from results/precision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from calql.results import style
from calql.results.metrics import read_rows

HERE = Path(__file__).parent
METHODS = {"cal-ql": "Cal-QL", "cql": "CQL"}
PRECISIONS = ("float32", "bfloat16")
EVERY = 500  # environment steps between evaluations

Curve = Mapping[int, Sequence[dict[str, Any]]]  # rows of all seeds, by the updates that came before


def main() -> None:
    runs = {
        (m, p): read_rows(HERE / f"../../results/precision/{m}-{p}-metrics.jsonl") for m in METHODS for p in PRECISIONS
    }
    with style.styled():
        figure = Figure(figsize=(9.5, 5.4), constrained_layout=True)
        panels = figure.subplots(2, 2, sharex=True, sharey="row")
        for column, (method, title) in enumerate(METHODS.items()):
            for place, precision in enumerate(PRECISIONS):
                curve = by_update(runs[method, precision])
                draw(panels[0, column], curve, "score", style.colour(place), precision)
                draw(panels[1, column], curve, "average_q", style.colour(place), precision)
            switch = max(row["update"] for row in runs[method, "float32"] if row["phase"] == "offline")
            for panel in panels[:, column]:
                panel.axvline(switch, color=style.FAINT, linewidth=0.8, linestyle=":")
            panels[0, column].set_title(title)
            panels[1, column].set_xlabel("updates (dotted: the switch)")
        panels[0, 0].set_ylabel("score")
        panels[1, 0].set_ylabel("average Q")
        panels[0, 0].legend(loc="lower right")
        figure.savefig(HERE / "precision.png", dpi=120)
    for (method, precision), rows in runs.items():
        print(f"| {METHODS[method]} | {precision} | {' | '.join(table_row(rows))} |")


def by_update(rows: Sequence[dict[str, Any]]) -> Curve:
    """Online, seeds are evaluated at the end of an episode: within half an interval they are taken together."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        before = row["update"] - row["env_steps"]
        found[before + EVERY * round(row["env_steps"] / EVERY)].append(row)
    return dict(sorted(found.items()))


def draw(panel: Any, curve: Curve, name: str, colour: str, label: str) -> None:
    """Mean over seeds with its standard error."""
    values = [np.array([row[name] for row in rows]) for rows in curve.values()]
    mean = np.array([v.mean() for v in values])
    error = np.array([v.std(ddof=1) / np.sqrt(len(v)) for v in values])
    panel.plot(list(curve), mean, color=colour, label=label)
    panel.fill_between(list(curve), mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)


def table_row(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Q and bound rate at the switch, score at the end, regret: mean ± standard deviation over seeds."""
    at_switch = [row for row in rows if row["switch"]]
    last = list({row["seed"]: row for row in rows}.values())
    return [
        spread(np.array([row["average_q"] for row in at_switch]), 1),
        spread(np.array([row["bound_rate/q1/policy"] for row in at_switch]), 3),
        spread(np.array([row["score"] for row in last]), 2),
        spread(np.array([row["regret"] for row in last]), 2),
    ]


def spread(values: NDArray[np.float64], digits: int) -> str:
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


if __name__ == "__main__":
    main()
