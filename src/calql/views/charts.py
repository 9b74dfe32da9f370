"""The charts of a dataset's page, as plain figures: histograms of episodes, and where two features of the rows lie."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from calql.data.overview import Sample, histogram
from calql.domains.scene import FloorPlan
from calql.results import interactive

MOST_BINS = 64  # along a side of the map
PATH = 150  # points of a path
FEW_TO_MANY = [[0.0, "#56b4e9"], [0.03, "#3f8fc4"], [0.2, "#e69f00"], [1.0, "#d55e00"]]

Columns = NDArray[Any]  # [row, feature]


@dataclass(frozen=True)
class Path:
    """The way of one episode."""

    label: str
    rows: slice


def bars(name: str, values: NDArray[Any], title: str, alt: str) -> Markup:
    """How many episodes have which value."""
    edges, counts = histogram(values)
    centres, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    trace = {
        "type": "bar", "x": _short(centres), "y": counts.tolist(), "width": _short(widths),
        "marker": {"color": interactive.colour(0)}, "name": title,
        "customdata": [[low, high] for low, high in zip(_short(edges[:-1]), _short(edges[1:]), strict=True)],
        "hovertemplate": "%{y} episodes<br>%{customdata[0]} to %{customdata[1]}<extra></extra>",
    }  # fmt: skip
    layout = {"bargap": 0.04, "xaxis": {"title": {"text": title}}, "yaxis": {"title": {"text": "episodes"}}}
    return interactive.chart(name, [trace], layout, alt=alt, height=240)


def coverage(
    name: str, columns: Columns, names: Sequence[str], pair: tuple[int, int], plan: FloorPlan | None,
    paths: Sequence[Path],
) -> Markup:  # fmt: skip
    """Where the rows lie in two features; on the floor plan where these are its own."""
    x, y = pair
    on_plan = plan is not None and (plan.x, plan.y) == pair
    traces = [heat(columns[:, x], columns[:, y])]
    if on_plan:
        traces += [_walk(columns, pair, path, place) for place, path in enumerate(paths)]
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": interactive.text(names[x])}},
        "yaxis": {"title": {"text": interactive.text(names[y])}},
    }
    if on_plan and plan is not None:
        traces += _marks(plan)
        layout["shapes"] = [_wall(wall) for wall in plan.walls]
        layout["yaxis"] |= {"scaleanchor": "x", "constrain": "domain"}
        layout["xaxis"]["constrain"] = "domain"
    alt = f"How many rows lie where, in {names[x]} (across) and {names[y]} (upwards)"
    return interactive.chart(name, traces, layout, alt=alt, height=420)


def heat(x: NDArray[Any], y: NDArray[Any]) -> dict[str, Any]:
    """Counts of all rows on a grid; empty places stay open."""
    counts, across, upwards = np.histogram2d(*_finite(x, y), bins=_bins(len(x)))
    z = [[int(count) or None for count in row] for row in counts.T]
    return {
        "type": "heatmap", "name": "rows", "z": z, "x": _short((across[1:] + across[:-1]) / 2),
        "y": _short((upwards[1:] + upwards[:-1]) / 2), "colorscale": FEW_TO_MANY, "hoverongaps": False,
        "colorbar": {"title": {"text": "rows"}, "thickness": 10, "outlinewidth": 0},
        "hovertemplate": "%{z} rows at %{x}, %{y}<extra></extra>",
    }  # fmt: skip


def embedded_sample(sample: Sample) -> Markup:
    """What the page's script draws other pairs of features from."""
    codes = base64.b64encode(sample.codes.tobytes()).decode()
    ranges = {"low": _short(sample.low), "high": _short(sample.high)}
    data = {"names": list(sample.names), "count": sample.codes.shape[1], "rows": sample.rows, "codes": codes}
    return interactive.embedded({**data, **ranges, "bins": _bins(sample.codes.shape[1]), "scale": FEW_TO_MANY})


def _bins(rows: int) -> int:
    """Along a side: some rows in each place that is visited."""
    return int(np.clip(np.sqrt(rows) / 2, 12, MOST_BINS))


def _finite(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    both = np.isfinite(x) & np.isfinite(y)
    return x[both].astype(np.float64), y[both].astype(np.float64)


def _walk(columns: Columns, pair: tuple[int, int], path: Path, place: int) -> dict[str, Any]:
    rows = np.arange(path.rows.start, path.rows.stop)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), PATH)).round().astype(int))]
    return {
        "type": "scatter", "mode": "lines", "name": path.label, "x": _short(columns[rows, pair[0]]),
        "y": _short(columns[rows, pair[1]]), "line": {"color": interactive.INK, "width": 1.5, "dash": DASHES[place]},
        "hovertemplate": f"{interactive.text(path.label)}<extra></extra>", **interactive.member(path.label),
    }  # fmt: skip


DASHES = ("solid", "dash", "dot")


def _marks(plan: FloorPlan) -> list[dict[str, Any]]:
    marks = [("start", plan.start, "circle"), ("goal", plan.goal, "star")]
    return [
        {
            "type": "scatter", "mode": "markers+text", "name": label, "x": [point[0]], "y": [point[1]], "text": [label],
            "textposition": "top center", "marker": {"symbol": symbol, "size": 12, "color": interactive.colour(2)},
            "hovertemplate": f"{label}<extra></extra>",
        }
        for label, point, symbol in marks if point is not None
    ]  # fmt: skip


def _wall(wall: tuple[float, float, float, float]) -> dict[str, Any]:
    left, lower, right, upper = wall
    place = {"type": "rect", "x0": left, "y0": lower, "x1": right, "y1": upper, "layer": "below"}
    return {**place, "fillcolor": interactive.FAINT, "opacity": 0.35, "line": {"width": 0}}


def _short(values: NDArray[Any]) -> list[float]:
    """Four digits are all that a screen shows."""
    return [float(f"{value:.4g}") for value in np.asarray(values, np.float64)]
