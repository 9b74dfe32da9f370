"""Maps of Q over the places of a task: heatmaps on one colour scale, arms as rows, checkpoints as columns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from calql.results import interactive
from calql.results.arms import known_as
from calql.results.interactive import INK, Trace
from calql.results.older import checkpoint_of
from calql.results.runs import Floats, RecordedRun
from calql.system.errors import UserError, shown
from calql.system.run_files import MAPS

MOST_BYTES = 8_000_000
MOST_CELLS = 40_000  # of all maps of a run together
SCALE = [[0, "#440154"], [0.25, "#3b528b"], [0.5, "#21918c"], [0.75, "#5ec962"], [1, "#fde725"]]  # viridis
CAPTION = (
    "What the learner thinks each place is worth: Q of its policy's action there, on one colour scale for all maps. "
    "Values far below what the data earn go through a large change after the switch, and the policy with them. "
    "Circle: start; star: goal."
)


@dataclass(frozen=True)
class Map:
    """Q of one seed at one checkpoint; None where there is a wall."""

    arm: str
    checkpoint: str
    seed: int
    values: Sequence[Sequence[float | None]]  # [y, x]


@dataclass(frozen=True)
class Maps:
    """All maps of a run folder, and the place that they show."""

    title: str
    x: Floats  # centres of cells
    y: Floats
    walls: Sequence[Sequence[float]]  # x0, y0, x1, y1
    start: Sequence[float] | None
    goal: Sequence[float] | None
    panels: Sequence[Map]


@dataclass(frozen=True)
class Drawn:
    """Maps as a page has them: rows of charts under their titles."""

    title: str
    caption: str
    rows: Sequence[tuple[str, Sequence[tuple[str, Markup]]]]  # arm, then checkpoint and chart
    low: str  # the ends of the colour scale
    high: str
    colours: str  # of the scale, as a style sheet writes them


def read_maps(folder: Path) -> Maps | None:
    """None where there are none; a file that cannot be used says why."""
    path = folder / MAPS
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("too large")
        return _checked(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        what = "is no map of values" if not isinstance(error, OSError) else f"cannot be read: {error.strerror}"
        raise UserError(
            f"{what} ({shown(str(error))[:100]})", where=str(path), mend="remove it, or run again"
        ) from None


def _checked(found: Mapping[str, Any]) -> Maps:
    x, y = (np.array(found[name], np.float64) for name in ("x", "y"))
    panels = [
        Map(str(each["arm"]), checkpoint_of(each), int(each["seed"]), _table(each["values"], x.size, y.size))
        for each in found["panels"]
    ]
    if x.ndim != 1 or y.ndim != 1 or not panels or len(panels) * x.size * y.size > MOST_CELLS:
        raise ValueError("no panels, or too many cells")
    walls = [[float(end) for end in wall] for wall in found.get("walls") or []]
    if any(len(wall) != 4 for wall in walls):
        raise ValueError("a wall is four numbers")
    start, goal = (_point(found.get(name)) for name in ("start", "goal"))
    return Maps(str(found.get("title") or "Q over the map"), x, y, walls, start, goal, panels)


def _table(values: Any, width: int, height: int) -> list[list[float | None]]:
    rows = [[None if value is None or not math.isfinite(value) else float(value) for value in row] for row in values]
    if len(rows) != height or any(len(row) != width for row in rows):
        raise ValueError(f"values are not {height} rows of {width}")
    return rows


def _point(value: Any) -> list[float] | None:
    if value is None:
        return None
    x, y = map(float, value)
    return [x, y]


def drawn(maps: Maps, run: RecordedRun, *, name: str = "", prefix: str = "") -> Drawn:
    """Arms as rows, checkpoints as columns, each in the order of the file; beside other runs with the run's name."""
    arms = list(dict.fromkeys(each.arm for each in maps.panels))
    checkpoints = list(dict.fromkeys(each.checkpoint for each in maps.panels))
    chosen = {(each.arm, each.checkpoint): each for each in reversed(maps.panels)}  # the first seed of each
    limits = _limits(maps.panels)
    rows = []
    for place, arm in enumerate(arms):
        there = [chosen[arm, checkpoint] for checkpoint in checkpoints if (arm, checkpoint) in chosen]
        charts = [
            (each.checkpoint, _chart(maps, each, limits, f"{prefix}map-{place}-{number}"))
            for number, each in enumerate(there)
        ]
        rows.append((shown(known_as(run.config, arm)) if arm else "", charts))
    seeds = sorted({each.seed for each in chosen.values()})
    low, high = (f"{end:.3g}" for end in limits)
    caption = f"{CAPTION} Seed {', '.join(map(str, seeds))}."
    title = " · ".join(each for each in (shown(maps.title), name) if each)
    return Drawn(title, caption, rows, low, high, ", ".join(str(shade) for _, shade in SCALE))


def _chart(maps: Maps, each: Map, limits: tuple[float, float], name: str) -> Markup:
    heat: Trace = {
        "type": "heatmap", "x": maps.x.tolist(), "y": maps.y.tolist(), "z": each.values, "zmin": limits[0],
        "zmax": limits[1], "colorscale": SCALE, "name": interactive.text(f"{each.arm} {each.checkpoint}".strip()),
        "hovertemplate": "Q %{z:.3g}<br>at %{x:.2f}, %{y:.2f}<extra></extra>", "showscale": False,
    }  # fmt: skip
    known = [value for row in each.values for value in row if value is not None]
    span = f"Q from {min(known):.3g} to {max(known):.3g}" if known else "no values"
    alt = f"{maps.title}, {each.arm} {each.checkpoint}: {span}"
    return interactive.chart(name, [heat, *_marks(maps)], _layout(maps), alt=alt, height=260)


def _marks(maps: Maps) -> list[Trace]:
    marks = ((maps.start, "start", "circle-open"), (maps.goal, "goal", "star"))
    return [
        {
            "x": [place[0]], "y": [place[1]], "mode": "markers", "name": name,
            "marker": {"symbol": symbol, "size": 13, "color": "#fff", "line": {"width": 2, "color": "#000"}},
            "hovertemplate": f"{name}<extra></extra>",
        }
        for place, name, symbol in marks
        if place is not None
    ]  # fmt: skip


def _layout(maps: Maps) -> Trace:
    wall = {"type": "rect", "line": {"width": 1, "color": "var(--wall)"}, "fillcolor": "var(--wall)"}  # no seams
    shapes = [{**wall, "x0": x0, "y0": y0, "x1": x1, "y1": y1} for x0, y0, x1, y1 in maps.walls]
    axis = {"showgrid": False, "showticklabels": False, "ticks": "", "showline": False}
    return {
        "xaxis": {**axis, "constrain": "domain"}, "yaxis": {**axis, "scaleanchor": "x", "constrain": "domain"},
        "shapes": shapes, "margin": {"l": 4, "r": 4, "t": 4, "b": 4}, "font": {"color": INK},
    }  # fmt: skip


def _limits(panels: Sequence[Map]) -> tuple[float, float]:
    """One scale for all maps."""
    known = [value for each in panels for row in each.values for value in row if value is not None]
    return (min(known), max(known)) if known else (0.0, 1.0)
