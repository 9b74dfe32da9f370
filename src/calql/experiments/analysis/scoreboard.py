"""The paper's tables with ours in them: tasks down, methods across, averages and improvement below; and a long list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calql.experiments.analysis.comparison import NUMBERS, Entry
from calql.experiments.analysis.verdicts import Mark
from calql.experiments.names import method_name, method_place
from calql.experiments.paper.numbers import Number, PaperTable
from calql.experiments.tables import Table
from calql.results.html import TableCell
from calql.results.statistics import Estimate

HEADINGS: Mapping[Number, str] = {"before": "before", "after": "after", "regret": "regret"}
LEGEND = "; ".join(f"{mark.sign} {mark.words}" for mark in Mark)


@dataclass(frozen=True)
class Style:
    """How numbers are written: scores in the paper's unit, regrets always as shares of 1."""

    hundredths: bool

    def number(self, number: Number, value: float | None) -> str:
        if value is None:
            return ""
        return f"{100 * value:.0f}" if self.hundredths and number != "regret" else f"{value:.2f}"

    def together(self, numbers: Sequence[Number], values: Mapping[Number, float]) -> str:
        """`35 → 92`, or the one number; nothing where there is none."""
        if not any(number in values for number in numbers):
            return ""
        return " → ".join(self.number(number, values.get(number)) for number in numbers).strip()

    def points(self, difference: float) -> str:
        """A difference of two scores, with its sign."""
        return f"{100 * difference:+.0f}" if self.hundredths else f"{difference:+.2f}"

    def estimate(self, number: Number, estimate: Estimate | None) -> str:
        if estimate is None:
            return ""
        value, low, high = (self.number(number, each) for each in (estimate.value, estimate.low, estimate.high))
        return f"{value} [{low}, {high}]" if low else value


def board(name: str, title: str, entries: Sequence[Entry], paper: PaperTable, numbers: Sequence[Number]) -> Table:
    """One of the paper's tables: our number and mark above, the paper's number below."""
    entries = [entry for entry in entries if not entry.variant]
    style = Style(paper.hundredths)
    methods = _methods(entries)
    tasks = dict.fromkeys(entry.task for entry in entries)
    at = {(entry.task, entry.method): entry for entry in entries}
    body = [[TableCell(task), *(_cell(at.get((task, method)), numbers, style) for method in methods)] for task in tasks]
    foot = _averages(entries, paper, methods, numbers, style)
    if tuple(numbers) == ("before", "after"):
        foot.append(_improvement(entries, methods, style))
    note = (
        f"Above: ours, the mean over seeds; below: the paper's. {LEGEND}. An average of ours is over the tasks that "
        "ran, and the paper's below it over the same; where that is not all of them, their count stands there."
    )
    return Table(name, title, ["task", *map(method_name, methods)], body, foot, note)


def _methods(entries: Iterable[Entry]) -> list[str]:
    return sorted({entry.method for entry in entries}, key=lambda method: (method_place(method), method))


def _cell(entry: Entry | None, numbers: Sequence[Number], style: Style) -> TableCell:
    if entry is None:
        return TableCell("")
    ours = style.together(numbers, {number: each.value for number, each in entry.ours.items()})
    last = entry.ours.get(numbers[-1])
    return TableCell(
        text=f"{ours} {entry.verdict.mark.sign}".strip(),
        below=style.together(numbers, entry.paper),
        value=None if last is None else last.value,
        css=entry.verdict.mark.css,
        hint=str(entry.verdict),
    )


def _averages(
    entries: Sequence[Entry], paper: PaperTable, methods: Sequence[str], numbers: Sequence[Number], style: Style
) -> list[list[TableCell]]:
    """A line for each domain of more than one task, and one for all."""
    domains = paper.domains
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(f"{domains.get(entry.task, 'other')} average", []).append(entry)
    groups = {name: group for name, group in groups.items() if len({entry.task for entry in group}) > 1}
    groups["average"] = list(entries)
    return [
        [TableCell(name), *(_average([e for e in group if e.method == method], numbers, style) for method in methods)]
        for name, group in groups.items()
    ]


def _average(entries: Sequence[Entry], numbers: Sequence[Number], style: Style) -> TableCell:
    ran = [entry for entry in entries if entry.ours]
    possible = [entry for entry in entries if entry.paper or entry.ours]
    ours, theirs = _mean_of(ran, numbers, _ours), _mean_of(ran or entries, numbers, _paper)
    text = style.together(numbers, ours)
    undecided = any(entry.verdict.mark is Mark.NOT_DECIDED for entry in ran)
    marked = f"{text} {Mark.NOT_DECIDED.sign}" if undecided else text or Mark.NOT_RUN.sign
    count = f" ({len(ran)} of {len(possible)})" if ran and len(ran) < len(possible) else ""
    return TableCell(marked, style.together(numbers, theirs) + count, value=ours.get(numbers[-1]))


def _improvement(entries: Sequence[Entry], methods: Sequence[str], style: Style) -> list[TableCell]:
    """Mean score after less mean score before, in points: over the tasks that ran, and the paper's over the same."""
    cells = []
    for method in methods:
        whole = [entry for entry in entries if entry.method == method]
        ran = [entry for entry in whole if entry.ours]
        cells.append(TableCell(_gain(ran, _ours, style) or Mark.NOT_RUN.sign, _gain(ran or whole, _paper, style)))
    return [TableCell("improvement, points"), *cells]


def _gain(entries: Sequence[Entry], source: Callable[[Entry, Number], float | None], style: Style) -> str:
    mean = _mean_of(entries, ("before", "after"), source)
    if not mean:
        return ""
    return style.points(mean["after"] - mean["before"]) if {"before", "after"} <= mean.keys() else "N/A"


def _mean_of(
    entries: Iterable[Entry], numbers: Sequence[Number], source: Callable[[Entry, Number], float | None]
) -> dict[Number, float]:
    found = {number: [value for e in entries if (value := source(e, number)) is not None] for number in numbers}
    return {number: float(np.mean(values)) for number, values in found.items() if values}


def _ours(entry: Entry, number: Number) -> float | None:
    estimate = entry.ours.get(number)
    return None if estimate is None else estimate.value


def _paper(entry: Entry, number: Number) -> float | None:
    return entry.paper.get(number)


def listing(entries: Sequence[Entry], *, hundredths: bool) -> Table:
    """Every cell in a line of its own: our numbers with their intervals, the paper's beside them, and the verdict."""
    style = Style(hundredths)
    printed = any(entry.paper for entry in entries)
    variants = any(entry.variant for entry in entries)
    heads = ["task", "method", *(["variant"] if variants else []), "seeds"]
    for number in NUMBERS:
        heads += [HEADINGS[number], f"{HEADINGS[number]}, paper"] if printed else [HEADINGS[number]]
    body = [
        [
            TableCell(entry.task),
            TableCell(method_name(entry.method)),
            *([TableCell(entry.variant)] if variants else []),
            TableCell(str(entry.seeds) if entry.seeds else "", value=entry.seeds),
            *(cell for number in NUMBERS for cell in _pair(entry, number, style, printed=printed)),
            TableCell(entry.verdict.mark.words, css=f"mark {entry.verdict.mark.css}", hint=entry.verdict.reason),
            TableCell(entry.verdict.reason, css="text"),
        ]
        for entry in entries
    ]
    note = (
        "Ours: the mean over seeds and its 95% stratified bootstrap interval. A cell agrees with the paper where that "
        "interval, widened by half of the last digit that the paper prints, holds every number that it prints for the "
        "cell here; it prints no spread of its own (6 seeds). Else the cell is better or worse. Not decided are cells "
        "of fewer than four seeds, of any scale but paper, with less than a fifth of its updates or a twentieth "
        "of its steps, and what more of them could still turn round."
    )
    return Table("cells", "Cell by cell, with intervals", [*heads, "verdict", "why"], body, note=note)


def _pair(entry: Entry, number: Number, style: Style, *, printed: bool) -> list[TableCell]:
    ours, paper = entry.ours.get(number), entry.paper.get(number)
    cells = [TableCell(style.estimate(number, ours), value=None if ours is None else ours.value)]
    return [*cells, TableCell(style.number(number, paper), value=paper)] if printed else cells
