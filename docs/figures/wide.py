"""The table of decision 46: the narrow point maze with 512 units, plain beside fused critics, from results/wide.

python docs/figures/wide.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calql.results.metrics import read_rows

ROWS = Path(__file__).parents[2] / "results" / "wide"
ARMS = {"calibrate=true": "Cal-QL", "calibrate=false": "CQL"}


def spread(values: list[float], digits: int = 2) -> str:
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def line(rows: list[dict[str, Any]], name: str) -> str:
    seeds = [[row for row in rows if row["seed"] == seed] for seed in sorted({row["seed"] for row in rows})]
    switch = [next(row for row in mine if row.get("switch")) for mine in seeds]
    online = [[row for row in mine if row["phase"] == "online" and not row.get("switch")] for mine in seeds]
    cells = (
        spread([row["score"] for row in switch]),
        spread([row["average_q"] for row in switch], 1),
        spread([mine[-1]["score"] for mine in online]),
        spread([1.0 - float(np.mean([row["score"] for row in mine])) for mine in online]),
    )
    return f"| {name}, {len(seeds)} seeds | {' | '.join(cells)} |"


if __name__ == "__main__":
    print("| | score at the switch | average Q there | score at the end | regret |\n|---|---|---|---|---|")
    for arm, method in ARMS.items():
        for kernel in ("plain", "fused"):
            rows = [row for path in sorted(ROWS.glob(f"{kernel}-*.jsonl")) for row in read_rows(path)]
            print(line([row for row in rows if row["arm"] == arm], f"{method}, {kernel}"))
