"""Draw docs/figures/methods/NAME.svg and write NAME.md beside it, for the methods' pages, from results/point-maze-comparison."""

from __future__ import annotations

import json
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
ROWS = HERE / "../../results/point-maze-comparison"
OUT = HERE / "methods"
PHASES = {"offline": ("update", "1,000 updates offline"), "online": ("env_steps", "1,000 steps online")}
Row = dict[str, Any]


def main() -> None:
    OUT.mkdir(exist_ok=True)
    names = sorted(path.name.removesuffix("-metrics.jsonl") for path in ROWS.glob("*-metrics.jsonl"))
    rows = {name: read_rows(ROWS / f"{name}-metrics.jsonl") for name in names}
    for name in names:
        config = json.loads((ROWS / f"{name}-config.json").read_text())
        draw(name, rows[name], rows["cal-ql"])
        (OUT / f"{name}.md").write_text(section(name, rows[name], config))


def draw(name: str, rows: Sequence[Row], compared: Sequence[Row]) -> None:
    """Every seed and their mean, offline and online, over Cal-QL's mean."""
    with style.styled(), matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        phases = [phase for phase in PHASES if len(steps(rows, phase)) > 1]
        figure = Figure(figsize=(5.8 if len(phases) == 2 else 3.6, 2.5), layout="constrained")
        panels = figure.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for panel, phase in zip(panels, phases, strict=True):
            if name != "cal-ql":
                curve(panel, compared, phase, "Cal-QL", style.FAINT, 2, dash=(0, (4, 2)))
            curve(panel, rows, phase, name, style.colour(0), 2)
            for seed in sorted({row["seed"] for row in rows}):
                curve(panel, [row for row in rows if row["seed"] == seed], phase, None, style.colour(0), 0.8, alpha=0.4)
            panel.set_xlabel(PHASES[phase][1])
            panel.set_ylim(-0.03, 1.03)
        panels[0].set_ylabel("score")
        panels[-1].legend(loc="best")
        figure.savefig(OUT / f"{name}.svg", metadata={"Date": None})


def curve(panel: Axes, rows: Sequence[Row], phase: str, label: str | None, colour: str, width: float, **look: Any) -> None:
    """The mean over seeds at the mean step of each evaluation."""
    by_seed = {row["seed"]: [] for row in rows}
    for row in of_phase(rows, phase):
        by_seed[row["seed"]].append((row[PHASES[phase][0]] / 1000, row["score"]))
    if not any(by_seed.values()):
        return
    count = min(len(points) for points in by_seed.values())
    x, y = np.mean([points[:count] for points in by_seed.values()], axis=0).T
    if "dash" in look:
        look["linestyle"] = look.pop("dash")
    panel.plot(x, y, color=colour, linewidth=width, label=label, **look)


def of_phase(rows: Sequence[Row], phase: str) -> list[Row]:
    """The online curve begins with the evaluation at the switch."""
    online = phase == "online" and any(row["phase"] == "online" for row in rows)
    return [row for row in rows if row["phase"] == phase or (online and row["switch"])]


def steps(rows: Sequence[Row], phase: str) -> set[int]:
    return {row[PHASES[phase][0]] for row in of_phase(rows, phase)}


def section(name: str, rows: Sequence[Row], config: dict[str, Any]) -> str:
    """The part of a method's page: how to run it, what it did."""
    run, commit = config["run"], config["versions"]["commit"][:7]
    updates, online = run["offline_updates"], run["online_steps"]
    last = {row["seed"]: row for row in rows if row["phase"] == "online"}
    numbers = {
        "score before": [row["score"] for row in rows if row["switch"]] if updates and online else [],
        "score after": [row["score"] for row in last.values()],
        "regret": [row["regret"] for row in last.values()],
    }
    if not online:
        numbers = {"score after the offline phase": [row["score"] for row in rows if row["update"] == updates]}
    shown = {head: values for head, values in numbers.items() if values}
    phases = [f"{updates:,} gradient steps offline"] * bool(updates) + [f"{online:,} steps online"] * bool(online)
    beside = "" if name == "cal-ql" else " Dashed: Cal-QL's mean."
    methods = name if name == "cal-ql" else f"cal-ql {name}"
    return "\n".join([
        "```bash",
        f"{f'calql train --method {name}':<46}# on the embedded point maze",
        f"{f'calql compare --methods {methods}':<46}# the picture below",
        "```",
        "",
        f"![Score of {name} over training, one thin line a seed](../figures/methods/{name}.svg)",
        "",
        "|" + "|".join(shown) + "|",
        "|" + "---|" * len(shown),
        "|" + "|".join(map(spread, shown.values())) + "|",
        "",
        f"`point-maze-diverse`, {' and '.join(phases)}, seeds 0 to {len(config['seeds']) - 1}, mean ± standard deviation;"
        f" thick: their mean.{beside} Commit {commit}, rows in `results/point-maze-comparison/{name}-metrics.jsonl`;"
        " drawn by `docs/figures/method_curves.py`.",
        "",
    ])  # fmt: skip


def spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


if __name__ == "__main__":
    main()
