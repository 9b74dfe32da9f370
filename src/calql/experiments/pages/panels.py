"""What the figures of an experiment show, from the tidy table: sheets that `calql.results` draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calql.experiments.analysis.evaluations import Result
from calql.experiments.names import method_name, method_place
from calql.methods import vocabulary
from calql.results.curves import Column, column, mean_of, phase_curve
from calql.results.lines import like, mean_line
from calql.results.panels import INK_PLACE, Line, Panel, unit_range
from calql.results.statistics import Floats
from calql.results.summary import EARLY
from calql.results.timeline import Timeline

ROUNDING = 1e-6
FIRST = 2  # online evaluations that the first fifth shows at least: with fewer there is no line to see


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
    """Every evaluation, also the last, which falls a little past the plan: it waits for the end of a trajectory."""
    lines = [line for result in group for line in _score(result, by.label(result), places, early=early)]
    end = max([float(line.x[-1]) for line in lines], default=1.0)
    return Panel(title, lines, "environment steps", "score", x_range=(0.0, end * 1.01), y_range=unit_range(lines))


def _score(result: Result, label: str, places: dict[str, int], *, early: bool) -> list[Line]:
    curve = phase_curve(result.run, column("score"), "online")
    if curve is None or not curve.x.size:
        return []
    count = _early(curve.x, result.run.online_steps) if early else curve.x.size
    x, y, low, high = (part[:count] for part in (curve.x, curve.mean, curve.low, curve.high))
    several = len(curve.seeds) > 1
    return [Line(label, places[label], x, y, low if several else None, high if several else None)]


def _early(steps: Floats, planned: int) -> int:
    """How many evaluations fell due in the first fifth: one is due at a multiple of the interval, and comes later."""
    count = steps.size - 1  # without the one at the switch
    every = planned / max(round(planned / max(float(np.diff(steps).mean()), 1.0)), 1) if count else 1.0
    due = np.floor(steps / every + ROUNDING) * every
    return max(int(np.sum(due <= EARLY * planned + ROUNDING)), min(FIRST, count) + 1)


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
        lines += mean_line(result.run, quantity.of(result), timeline, like(label, places[label]))
    if quantity.beside is not None:
        name, what = quantity.beside
        lines += mean_line(group[0].run, what, timeline, like(name, INK_PLACE, "dashed"))
    y_range = unit_range(lines) if quantity.unit else None
    return Panel(title, lines, "updates | environment steps", quantity.title, timeline, y_range=y_range)


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
