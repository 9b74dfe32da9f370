"""Sheets as pictures: PNG and SVG by matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from calql.results import style
from calql.results.panels import INK_PLACE, Kind, Line, Panel, Sheet, shown_in_legend
from calql.results.timeline import Timeline, short

WIDTH, PANEL_HEIGHT, LEGEND_HEIGHT = 10.0, 2.7, 0.55  # inches
LEGEND, HANDLE = 120, 8  # letters that a line of the legend takes, and how many a sample of a line counts for
DASHED: style.Dash = (0, (2, 2))
MARKERS = ("o", "s", "^")
POINT: dict[str, Any] = {"markersize": 6.0, "markeredgecolor": "white"}
CURVES: dict[Kind, dict[str, Any]] = {
    "line": {"linewidth": 2.0}, "dashed": {"linewidth": 1.4}, "seed": {"linewidth": 0.9, "alpha": 0.55},
    "part": {"linewidth": 1.0, "alpha": 0.35},
}  # fmt: skip


def save(sheet: Sheet, folder: Path) -> list[Path]:
    """The sheet as NAME.png and NAME.svg, the same bytes each time."""
    with style.styled():
        drawn = folder / f"{sheet.name}.png"
        draw(sheet).savefig(drawn, dpi=160)
    return [drawn, save_svg(sheet, folder)]


def save_svg(sheet: Sheet, folder: Path) -> Path:
    """The sheet as NAME.svg alone."""
    path = folder / f"{sheet.name}.svg"
    with style.styled(), matplotlib.rc_context({"svg.hashsalt": sheet.name}):
        draw(sheet).savefig(path, metadata={"Date": None})
    return path


def png(sheet: Sheet) -> bytes:
    """The sheet as the bytes of a PNG."""
    file = io.BytesIO()
    with style.styled():
        draw(sheet).savefig(file, format="png", dpi=160)
    return file.getvalue()


def draw(sheet: Sheet) -> Figure:
    columns = min(sheet.columns, len(sheet.panels))
    rows = math.ceil(len(sheet.panels) / columns)
    height = PANEL_HEIGHT * rows * (1.35 if columns < 3 else 1.0) + LEGEND_HEIGHT
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08, wspace=0.04)  # type: ignore[union-attr,call-arg]
    for place, panel in enumerate(sheet.panels):
        _panel(figure.add_subplot(rows, columns, place + 1), panel, narrow=columns > 1)
    _legend(figure, sheet.panels)
    return figure


def colour(place: int) -> str:
    return style.INK if place == INK_PLACE else style.colour(place)


def _panel(axes: Axes, panel: Panel, *, narrow: bool) -> None:
    for line in panel.lines:
        _curve(axes, line) if line.kind in CURVES else _points(axes, line)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.x_limits is not None:
        axes.set_xlim(*panel.x_limits)
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    if panel.diagonal:
        axes.axline((0.0, 0.0), slope=1.0, color=style.FAINT, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1.5)
    if panel.timeline is not None:
        _phases(axes, panel.timeline, narrow=narrow)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(x) if x >= 1e3 else f"{x:g}"))


def _phases(axes: Axes, timeline: Timeline, *, narrow: bool) -> None:
    """Ticks in the unit of each phase, and the switch, named above the curves."""
    places, texts = timeline.ticks(narrow=narrow)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda _, index: texts[index] if index is not None else ""))
    if timeline.both:
        axes.axvline(0.0, color=style.FAINT, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1.5)
        axes.axvspan(axes.get_xlim()[0], 0.0, color="#f4f6f9", zorder=0)
    if timeline.both and not narrow:
        axes.annotate(
            "switch", (0.0, 1.0), xytext=(0, 2), xycoords=("data", "axes fraction"), textcoords="offset points",
            ha="center", va="bottom", fontsize=8.5, color=style.FAINT,
        )  # fmt: skip


def _curve(axes: Axes, line: Line) -> None:
    shade = colour(line.place)
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=shade, alpha=0.12, linewidth=0)
    axes.plot(
        line.x, line.y, color=shade, linestyle=_dash(line), marker="o" if line.x.size == 1 else None, markersize=4.0,
        **CURVES[line.kind],
    )  # fmt: skip


def _points(axes: Axes, line: Line) -> None:
    shade = colour(line.place)
    if line.kind == "cloud":
        axes.scatter(line.x, line.y, s=5, color=shade, alpha=0.12, linewidths=0, rasterized=True)
        return
    if line.low is not None and line.high is not None:
        axes.vlines(line.x, line.low, line.high, color=shade, alpha=0.45, linewidth=1.4)
    joined = "-" if line.kind == "joined" else "none"
    axes.plot(line.x, line.y, color=shade, linestyle=joined, marker=_marker(line), **POINT)


def _dash(line: Line) -> style.Dash:
    return DASHED if line.kind == "dashed" else style.dash(max(line.place, 0))


def _marker(line: Line) -> str:
    """A second mark for more methods than colours, as dashes are for lines."""
    return MARKERS[style.DASHES.index(style.dash(max(line.place, 0)))]


def _legend(figure: Figure, panels: Sequence[Panel]) -> None:
    handles = [
        Line2D(
            [], [], color=colour(line.place), linestyle="none" if line.kind == "points" else _dash(line),
            marker=_marker(line) if line.kind == "points" else None, linewidth=2.2, label=line.label,
        )
        for line in shown_in_legend(panels)
    ]  # fmt: skip
    if handles:
        widest = max(len(str(handle.get_label())) for handle in handles) + HANDLE
        figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), max(LEGEND // widest, 1)))
