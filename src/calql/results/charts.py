"""Sheets as interactive charts: a place for each panel, side by side or below each other as there is room."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from calql.results import interactive
from calql.results.interactive import FAINT, INK, Key, Trace
from calql.results.panels import INK_PLACE, Kind, Line, Panel, Sheet, shown_in_legend
from calql.results.statistics import Floats

MOST_POINTS, LEAST_POINTS = 250, 40  # of a line: more cannot be told apart at this size
ALL_POINTS = 60_000  # on a page
HEIGHT = {1: 320, 2: 300, 3: 250}  # pixels, by how many panels stand side by side
LEAST_WIDTH = {1: 500, 2: 400, 3: 280}  # of a panel, before the next one goes below it
DASHES, SYMBOLS = ("solid", "dash", "dot"), ("circle", "square", "triangle-up")
BORDERS = {"solid": "solid", "dash": "dashed", "dot": "dotted"}  # as a style sheet calls them
CURVES: dict[Kind, dict[str, Any]] = {
    "line": {"width": 2.4}, "dashed": {"width": 1.8}, "seed": {"width": 1.3}, "part": {"width": 1.0},
    "joined": {"width": 1.8}, "points": {"width": 0}, "cloud": {"width": 0},
}  # fmt: skip
OPACITY: dict[Kind, float] = {"seed": 0.38, "part": 0.4, "cloud": 0.16}
MODES: dict[Kind, str] = {"points": "markers", "cloud": "markers", "joined": "lines+markers"}


@dataclass(frozen=True)
class Drawn:
    """A sheet as a page has it."""

    title: str
    caption: str
    keys: Sequence[Key]
    panels: Sequence[tuple[str, Markup]]  # with their titles
    least: int  # pixels that a panel needs

    @property
    def style(self) -> str:
        return f"--least:{self.least}px"


def drawn(sheet: Sheet, *, prefix: str = "", most: int = MOST_POINTS) -> Drawn:
    """The charts of a sheet; `prefix` tells its names on the page from those of another sheet."""
    columns = min(sheet.columns, len(sheet.panels), 3)
    several = len(sheet.panels) > 1
    panels = [
        (panel.title, chart(panel, f"{prefix}{sheet.name}{f'-{place}' * several}", HEIGHT[columns], most))
        for place, panel in enumerate(sheet.panels)
    ]
    return Drawn(sheet.title, sheet.caption, keys(sheet.panels), panels, LEAST_WIDTH[columns])


def points_a_line(sheets: Sequence[Sheet]) -> int:
    """So many that all lines of a page together keep it small."""
    lines = sum(len(panel.lines) for sheet in sheets for panel in sheet.panels)
    return max(LEAST_POINTS, min(MOST_POINTS, ALL_POINTS // max(lines, 1)))


def keys(panels: Sequence[Panel]) -> list[Key]:
    """The legend; none where there is but one name."""
    found = [Key(line.label, colour(line.place), dash=BORDERS[_dash(line)]) for line in shown_in_legend(panels)]
    return found if len(found) > 1 else []


def seed_keys(panels: Sequence[Panel]) -> list[Key]:
    """Seeds that can be chosen where colours are those of runs."""
    seeds = {line.seed for panel in panels for line in panel.lines if line.seed is not None and line.kind == "seed"}
    named = {line.label for panel in panels for line in panel.lines}
    return [Key(f"seed {seed}", FAINT) for seed in sorted(seeds) if f"seed {seed}" not in named]


def chart(panel: Panel, name: str, height: int, most: int) -> Markup:
    traces = [trace for line in panel.lines for trace in _traces(line, most, timed=panel.timeline is not None)]
    return interactive.chart(name, traces, _layout(panel), alt=_in_words(panel), height=height)


def colour(place: int) -> str:
    return INK if place == INK_PLACE else interactive.colour(place)


def _layout(panel: Panel) -> Trace:
    x: dict[str, Any] = {"title": {"text": interactive.text(panel.x_label)}, "range": panel.x_limits}
    y: dict[str, Any] = {"title": {"text": interactive.text(panel.y_label)}, "range": panel.y_range}
    layout: dict[str, Any] = {"xaxis": x, "yaxis": y, "shapes": [], "annotations": [], "meta": {}}
    if panel.timeline is None:
        many = panel.x_range is not None and panel.x_range[1] >= 1e3
        x["tickformat"] = "~s" if many else "~g"
        x |= {"tickmode": "array", "tickvals": _whole(*panel.x_range)} if panel.whole and panel.x_range else {}
    else:
        time = panel.timeline
        x["tickvals"], x["ticktext"] = time.ticks(narrow=True)
        layout["meta"] = {"offline": time.offline, "online": time.online, "width": time.width}
        layout |= _switch(time.limits[0]) if time.both else {}
    if panel.diagonal:
        low, high = panel.x_range or (0.0, 1.0)
        layout["shapes"] = [_shape("line", low, low, high, high)]
    return layout


def _whole(low: float, high: float) -> list[int]:
    """Whole numbers within a range, a dozen at most."""
    step = max(math.ceil((high - low) / 12), 1)
    return list(range(math.ceil(low), math.floor(high) + 1, step))


def _switch(start: float) -> dict[str, Any]:
    """The offline part shaded, the switch dashed and named above the curves."""
    before = {
        "type": "rect", "x0": start, "x1": 0, "y0": 0, "y1": 1, "yref": "paper", "line": {"width": 0}, "layer": "below",
        "fillcolor": "var(--offline)",
    }  # fmt: skip
    name = {
        "text": "switch", "x": 0, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
        "font": {"size": 11, "color": FAINT},
    }  # fmt: skip
    return {
        "shapes": [before, {**_shape("line", 0, 0, 0, 1), "yref": "paper"}],
        "annotations": [name],
        "margin": {"l": 48, "r": 14, "t": 20, "b": 40},
    }


def _shape(kind: str, x0: float, y0: float, x1: float, y1: float) -> dict[str, Any]:
    line = {"dash": "dash", "width": 1, "color": FAINT}
    return {"type": kind, "x0": x0, "y0": y0, "x1": x1, "y1": y1, "line": line}


def _traces(line: Line, most: int, *, timed: bool) -> Iterator[Trace]:
    """The curve and its band, which come and go together in every panel when its name is pressed."""
    kept = _thin(line.y, most)
    x, y = _rounded(line.x[kept], 7), _rounded(line.y[kept])
    if line.low is not None and line.high is not None and line.kind == "line":
        edge = _rounded(np.concatenate([line.high[kept], line.low[kept][::-1]]))
        yield {
            "x": [*x, *x[::-1]], "y": edge, "fill": "toself", "fillcolor": colour(line.place), "opacity": 0.16,
            "line": {"width": 0}, "mode": "lines", "hoverinfo": "skip", **interactive.member(*line.groups),
        }  # fmt: skip
    yield {**_curve(line, kept, timed=timed), "x": x, "y": y}


def _curve(line: Line, kept: list[int], *, timed: bool) -> Trace:
    shade, alone = colour(line.place), line.x.size == 1
    where = "%{text}" if timed or line.names else "%{x:,.4~g}"
    look: dict[str, Any] = {
        "name": interactive.text(line.name),
        "mode": MODES.get(line.kind, "markers" if alone else "lines"),
        "line": {"color": shade, "dash": _dash(line), **CURVES[line.kind]},
        "marker": {"color": shade, "size": 4 if line.kind == "cloud" else 7, "symbol": SYMBOLS[_second_mark(line)]},
        "opacity": _opacity(line),
        **interactive.member(*line.groups),
    }
    look["meta"]["offline"] = line.offline
    if line.kind == "cloud":
        return {**look, "hoverinfo": "skip"}
    if line.names:
        look["text"] = [interactive.text(line.names[place]) for place in kept]
    if line.kind in ("points", "joined") and line.low is not None and line.high is not None:
        up, down = _rounded((line.high - line.y)[kept]), _rounded((line.y - line.low)[kept])
        look["error_y"] = {"array": up, "arrayminus": down, "symmetric": False, "width": 0, "thickness": 1.4}
    return {**look, "hovertemplate": f"%{{y:.3g}}<br>{where}<extra>%{{fullData.name}}</extra>"}


def _opacity(line: Line) -> float:
    """Seeds are faint beside other runs, and strong where each has a colour of its own."""
    own_colour = line.kind == "seed" and line.label == f"seed {line.seed}"
    return 0.85 if own_colour else OPACITY.get(line.kind, 1.0)


def _dash(line: Line) -> str:
    return "dot" if line.kind == "dashed" else DASHES[_second_mark(line)]


def _second_mark(line: Line) -> int:
    """Dashes and symbols tell apart more lines than there are colours."""
    return max(line.place, 0) // interactive.COUNT % len(DASHES)


def _thin(values: Floats, most: int) -> list[int]:
    """Places of a line that are drawn: all, or the lowest and the highest of each stretch, so that no dip is lost."""
    if values.size <= most:
        return list(range(values.size))
    stretches = np.array_split(np.arange(values.size), most // 2 - 1)
    ends = [part[find(values[part])] for part in stretches for find in (np.argmin, np.argmax)]
    return sorted({0, *map(int, ends), values.size - 1})


def _rounded(values: Floats, digits: int = 4) -> list[float]:
    """Four digits of a value are all that a screen shows; of a place, as many as tell evaluations apart."""
    return [float(f"{value:.{digits}g}") for value in values]


def _in_words(panel: Panel) -> str:
    """What a chart shows, for who cannot see it: where each strong line begins and ends."""
    strong = [line for line in panel.lines if line.kind in ("line", "dashed") and line.y.size]
    said = "; ".join(f"{line.name} from {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in strong[:8])
    what = panel.title or panel.y_label
    return f"{what}. {said}. Keys + and - zoom, arrows move, 0 shows all." if said else f"{what}."
