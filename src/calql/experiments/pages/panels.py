"""A figure without a drawing library: sheets of panels of lines. `figures` and `interactive` draw the same sheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from calql.experiments.analysis.evaluations import Result, method_place
from calql.experiments.analysis.statistics import Floats
from calql.experiments.paper.numbers import method_name
from calql.methods import vocabulary
from calql.results.curves import Column, column, mean_of, phase_curve
from calql.results.summary import EARLY
from calql.results.timeline import Timeline

Kind = Literal["line", "dashed", "points"]
Ticks = tuple[Sequence[float], Sequence[str]]
Range = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One curve or cloud, with a band or bars around it."""

    label: str
    place: int  # among the colours
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    kind: Kind = "line"
    names: Sequence[str] = ()  # what each point is, where the mouse rests


@dataclass(frozen=True)
class Panel:
    """Lines on one pair of axes."""

    title: str
    lines: Sequence[Line]
    x_label: str
    y_label: str
    x_ticks: Ticks | None = None  # None: plain numbers
    x_range: Range | None = None
    y_range: Range | None = None
    switch: bool = False  # the two phases meet at 0
    diagonal: bool = False


@dataclass(frozen=True)
class Sheet:
    """A figure: panels that share a legend."""

    name: str  # of its files
    title: str
    caption: str
    panels: Sequence[Panel]
    columns: int = 3


@dataclass(frozen=True)
class Quantity:
    """What a panel shows, from the columns of the tidy table."""

    title: str
    of: Callable[[Result], Column]
    beside: tuple[str, Column] | None = None  # a dashed line to hold it against, and its name
    unit: bool = False  # between 0 and 1, or nearly


SCORE = Quantity("score", lambda _: column("score"), unit=True)
AVERAGE_Q = Quantity(
    "average Q",
    lambda _: column(vocabulary.AVERAGE_Q),
    beside=("return-to-go of the data", column(vocabulary.AVERAGE_RETURN_TO_GO)),
)
BOUND_RATE = Quantity("bound rate", lambda result: mean_of(_bound_rates(result)), unit=True)

BAND = "Thick: the mean over seeds; band: one standard deviation."


@dataclass(frozen=True)
class Grouping:
    """Which panel a result goes to, and what it is called there."""

    panel: Callable[[Result], str]
    label: Callable[[Result], str]


def _label(result: Result) -> str:
    return f"{method_name(result.method)} {_variant(result)}".strip()


def _variant(result: Result) -> str:
    return result.variant.replace("_", " ")


BY_TASK = Grouping(lambda result: result.task, _label)
BY_METHOD = Grouping(
    lambda result: f"{method_name(result.method)} on {result.task}", lambda result: _variant(result) or "as it is"
)


def online_curves(results: Sequence[Result], by: Grouping = BY_TASK, *, early: bool = False) -> list[Panel]:
    """The score from the switch on; `early`: its first fifth alone."""
    places = colour_places(results, by)
    return [_online(title, group, by, places, early=early) for title, group in _grouped(results, by.panel).items()]


def _online(title: str, group: Sequence[Result], by: Grouping, places: dict[str, int], *, early: bool) -> Panel:
    lines, steps = [], max(float(result.run.online_steps) for result in group)
    end = steps * (EARLY if early else 1.0)
    for result in group:
        curve = phase_curve(result.run, column("score"), "online")
        if curve is not None:
            kept = curve.x <= end
            low, high = ((curve.mean + sign * curve.std)[kept] for sign in (-1, 1))
            label = by.label(result)
            lines.append(Line(label, places[label], curve.x[kept], curve.mean[kept], low, high))
    return Panel(title, lines, "environment steps", "score", x_range=(0.0, end), y_range=_unit_range(lines))


def through_switch(results: Sequence[Result], quantities: Sequence[Quantity], by: Grouping = BY_TASK) -> list[Panel]:
    """Each quantity over both phases: gradient steps up to the switch, environment steps after it."""
    places = colour_places(results, by)
    return [
        panel
        for title, group in _grouped(results, by.panel).items()
        for quantity in quantities
        if (panel := _through(title, group, quantity, by, places)).lines
    ]


def _through(title: str, group: Sequence[Result], quantity: Quantity, by: Grouping, places: dict[str, int]) -> Panel:
    timeline = Timeline.of([result.run for result in group])
    lines = []
    for result in group:
        label = by.label(result)
        lines += _both_phases(result, quantity.of(result), timeline, Line(label, places[label], *_nothing()))
    if quantity.beside is not None:
        name, what = quantity.beside
        lines += _both_phases(group[0], what, timeline, Line(name, INK_PLACE, *_nothing(), kind="dashed"))
    ticks = timeline.ticks(narrow=True)
    return Panel(
        title, lines, "updates | environment steps", quantity.title, x_ticks=ticks,
        x_range=(-timeline.width - 0.01, 1.02 if timeline.online else 0.01),
        y_range=_unit_range(lines) if quantity.unit else None, switch=bool(timeline.online and timeline.offline),
    )  # fmt: skip


def _both_phases(result: Result, what: Column, timeline: Timeline, like: Line) -> list[Line]:
    """The two phases joined at the switch; none where the column has no numbers."""
    found = [(phase, phase_curve(result.run, what, phase)) for phase in ("offline", "online")]
    curves = [(phase, curve) for phase, curve in found if curve is not None and curve.x.size]
    if not curves:
        return []
    x = np.concatenate([timeline.place(result.run, phase, curve.x) for phase, curve in curves])
    y, spread = (np.concatenate([getattr(curve, part) for _, curve in curves]) for part in ("mean", "std"))
    units = {"offline": "updates offline", "online": "environment steps online"}
    names = [f"{steps:,.0f} {units[phase]}" for phase, curve in curves for steps in curve.x]
    if like.kind == "dashed":
        return [replace(like, x=x, y=y, names=names)]
    return [replace(like, x=x, y=y, low=y - spread, high=y + spread, names=names)]


INK_PLACE = -1  # not a method: drawn in the colour of text


def colour_places(results: Sequence[Result], by: Grouping) -> dict[str, int]:
    """A method has one colour everywhere; where variants are compared, each label has its own."""
    labels = {by.label(result): result for result in results}
    if any(result.variant for result in results):
        return {label: place for place, label in enumerate(labels)}
    return {label: method_place(result.method) for label, result in labels.items()}


def _grouped(results: Sequence[Result], panel: Callable[[Result], str]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(panel(result), []).append(result)
    return groups


def _bound_rates(result: Result) -> list[str]:
    return vocabulary.in_family(vocabulary.BOUND_RATE, {name for row in result.run.rows for name in row})


def _nothing() -> tuple[Floats, Floats]:
    return np.empty(0), np.empty(0)


def _unit_range(lines: Sequence[Line]) -> Range:
    """0 to 1, and as far beyond as the means go."""
    values = np.concatenate([line.y for line in lines] or [np.empty(0)])
    low, high = min(values.min(initial=0.0), 0.0), max(values.max(initial=1.0), 1.0)
    return float(low - 0.04 * (high - low)), float(high + 0.04 * (high - low))
