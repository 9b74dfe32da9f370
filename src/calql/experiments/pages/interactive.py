"""Sheets as interactive figures: plotly, its script inlined once into the page."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from calql.experiments.analysis.statistics import Floats
from calql.experiments.pages.figures import colour, shown_in_legend
from calql.experiments.pages.panels import Line, Panel, Sheet
from calql.results import style
from calql.results.html import ours
from calql.system.extras import Extra

if TYPE_CHECKING:
    from plotly import graph_objects, offline, subplots
    from plotly import io as plotly_io
else:
    graph_objects, plotly_io, offline, subplots = (
        Extra(f"plotly.{name}", "an interactive figure") for name in ("graph_objects", "io", "offline", "subplots")
    )

MOST_POINTS = 250  # of a curve: more cannot be told apart at this size
PANEL_HEIGHT, AROUND = 270, 110  # pixels
CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "plotlyServerURL": "",  # no button of the page sends it anywhere
    "modeBarButtonsToRemove": ["sendChartToCloud", "sendDataToCloud"],
}
DASHES = ("solid", "dash", "dot")
SYMBOLS = ("circle", "square", "triangle-up")


def script() -> Markup:
    """plotly.js itself; no figure works without it, and nothing is loaded from elsewhere."""
    return ours(offline.get_plotlyjs())


def figure(sheet: Sheet) -> Markup:
    """A div and the few lines of script that draw into it."""
    drawn = plotly_io.to_html(draw(sheet), include_plotlyjs=False, full_html=False, div_id=sheet.name, config=CONFIG)
    return ours(drawn)


def draw(sheet: Sheet) -> graph_objects.Figure:
    columns = min(sheet.columns, len(sheet.panels))
    rows = math.ceil(len(sheet.panels) / columns)
    drawn = subplots.make_subplots(
        rows, columns, subplot_titles=[_plain(panel.title) for panel in sheet.panels],
        horizontal_spacing=0.22 / columns, vertical_spacing=0.32 / rows,
    )  # fmt: skip
    named = {line.label: line for line in shown_in_legend(sheet.panels)}
    for place, panel in enumerate(sheet.panels):
        where = {"row": place // columns + 1, "col": place % columns + 1}
        for line in panel.lines:
            first = named.pop(line.label, None) is not None
            drawn.add_traces(_traces(line, first=first), rows=where["row"], cols=where["col"])
        _axes(drawn, panel, where)
    drawn.update_annotations(font_size=13)
    drawn.update_layout(
        template="plotly_white", height=PANEL_HEIGHT * rows * (1.3 if columns < 3 else 1) + AROUND,
        margin={"l": 55, "r": 45, "t": 60, "b": 45}, modebar={"orientation": "v"},
        font={"family": "system-ui, sans-serif", "color": style.INK},
        legend={"orientation": "h", "yref": "container", "yanchor": "top", "y": 1.0},
        hovermode="closest",
    )  # fmt: skip
    return drawn


def _axes(drawn: graph_objects.Figure, panel: Panel, where: dict[str, int]) -> None:
    many = panel.x_range is not None and panel.x_range[1] >= 1e3
    ticks: dict[str, Any] = {"tickformat": "~s" if many else "~g"}
    if panel.x_ticks is not None:
        ticks = {"tickvals": list(panel.x_ticks[0]), "ticktext": [_plain(text) for text in panel.x_ticks[1]]}
    x, y = ({"text": _plain(label), "font_size": 11} for label in (panel.x_label, panel.y_label))
    drawn.update_xaxes(title={**x, "standoff": 6}, range=panel.x_range, **where, **ticks)
    drawn.update_yaxes(title={**y, "standoff": 4}, range=panel.y_range, **where)
    if panel.switch:
        drawn.add_vline(0.0, line={"dash": "dash", "width": 1, "color": style.FAINT}, **where)
    if panel.diagonal:
        drawn.add_shape(
            type="line", x0=0, y0=0, x1=1, y1=1, line={"dash": "dash", "width": 1, "color": style.FAINT}, **where
        )


def _traces(line: Line, *, first: bool) -> list[graph_objects.Scatter]:
    """The curve and its band, which come and go together in every panel when its name is clicked."""
    kept = _thin(line.x.size)
    shade, together = colour(line.place), {"legendgroup": line.label}
    points = line.kind == "points"
    curve = graph_objects.Scatter(
        x=line.x[kept], y=_short(line.y[kept]), name=_plain(line.label), showlegend=first, **together,
        mode="markers" if points or line.x.size == 1 else "lines",
        line={"color": shade, "width": 2, "dash": _dash(line)},
        marker={"color": shade, "size": 8, "symbol": SYMBOLS[_second_mark(line)]},
        text=[_plain(line.names[place]) for place in kept] if line.names else None,
        hovertemplate=f"%{{y:.3g}}<br>{'%{text}' if line.names else '%{x:,.4~g}'}<extra>%{{fullData.name}}</extra>",
        error_y=_bars(line) if points else None,
    )  # fmt: skip
    if points or line.low is None or line.high is None:
        return [curve]
    band = graph_objects.Scatter(
        x=np.concatenate([line.x[kept], line.x[kept][::-1]]),
        y=_short(np.concatenate([line.high[kept], line.low[kept][::-1]])),
        fill="toself", fillcolor=shade, opacity=0.13, line={"width": 0}, mode="lines",
        hoverinfo="skip", showlegend=False, **together,
    )  # fmt: skip
    return [band, curve]


def _plain(text: str) -> str:
    """plotly reads some tags and entities in texts; those of a name are to be seen."""
    return escape(text, quote=False)


def _bars(line: Line) -> dict[str, Any] | None:
    if line.low is None or line.high is None:
        return None
    up, down = line.high - line.y, line.y - line.low
    return {"array": _short(up), "arrayminus": _short(down), "symmetric": False, "width": 0, "thickness": 1.3}


def _dash(line: Line) -> str:
    if line.kind == "dashed":
        return "dot"
    return DASHES[_second_mark(line)]


def _second_mark(line: Line) -> int:
    """Dashes and symbols tell apart more methods than there are colours."""
    return style.DASHES.index(style.dash(max(line.place, 0)))


def _thin(count: int) -> list[int]:
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int)).tolist() if count else []


def _short(values: Floats) -> Floats:
    """Four digits are all that a screen shows."""
    return np.asarray([float(f"{value:.4g}") for value in values])
