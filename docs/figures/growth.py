"""Draw docs/figures/growth.png from results/bench/h200-growth.json, which `calql bench --growth` wrote."""

from __future__ import annotations

import json
from pathlib import Path

from calql.bench.growth import draw_growth

HERE = Path(__file__).parent
found = json.loads((HERE / "../../results/bench/h200-growth.json").read_text())
title = f"Cal-QL at AntMaze shapes, fused critics, bfloat16, {found['versions']['device']} (dotted: in proportion)"
draw_growth(found["results"], HERE / "growth.png", title)
