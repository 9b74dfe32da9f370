"""Rounds of collecting and training: what the policy of each came to in the world, as a table and as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from calql.results import charts, html, interactive
from calql.results.metrics import write_atomically
from calql.results.panels import Line, Panel, Sheet
from calql.results.statistics import Estimate, Floats, means, probability_of_improvement
from calql.system.errors import shown

Z = 1.959964  # of the normal distribution, between minus which and plus which 95% lie
HEADS = ("round", "new episodes", "played", "mean return", "success", "evaluated")
FEWEST = 2  # episodes, from which on a mean has an interval and two rounds are compared
CAPTION = (
    "new: what the round was trained on. played, mean return, success: of the episodes that its policy collected, with "
    "95% intervals. evaluated: before it was deployed, in the environment or from held-out episodes; * the present "
    "round; rounds in brackets were gone back from."
)


@dataclass(frozen=True)
class RoundSummary:
    """One round of a project."""

    number: int
    parent: int | None
    ended: bool
    present: bool  # it is the one whose policy is deployed
    on_line: bool  # the present round goes back to it
    episodes: int  # that it was trained on, besides those of its parent
    steps: int
    returns: Sequence[float] = field(default=())  # of the episodes that its policy collected
    successes: Sequence[bool] = field(default=())  # of those of them where it is known
    evaluated: str = ""  # what was said of its policy before it was deployed

    @property
    def name(self) -> str:
        mark = "*" if self.present else ""
        return f"{self.number}{mark}" if self.on_line or not self.ended else f"({self.number})"

    @property
    def mean_return(self) -> Estimate | None:
        return means(_column(self.returns))[0] if self.returns else None

    @property
    def success(self) -> Estimate | None:
        """Wilson's interval: also where all or none succeeded."""
        count = len(self.successes)
        return wilson(sum(self.successes), count) if count else None


def wilson(successes: int, count: int) -> Estimate:
    """The share of successes, and the shares that would make it likely."""
    share = successes / count
    middle = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2)) / (1 + Z**2 / count)
    return Estimate(share, max(middle - half, 0.0), min(middle + half, 1.0))


def worse(summary: RoundSummary, before: RoundSummary) -> bool:
    """Whether its policy earned less than the one before: an episode of it is less likely than not to be the better."""
    if min(len(summary.returns), len(before.returns)) < FEWEST:
        return False
    likely = probability_of_improvement(_column(summary.returns), _column(before.returns))
    return likely.high is not None and likely.high < 0.5


def warnings(rounds: Sequence[RoundSummary], project: str) -> list[str]:
    """Rounds of the present line whose policy did worse than that of the round it came from, and what to do."""
    by_number = {each.number: each for each in rounds}
    found = []
    for each in rounds:
        before = None if each.parent is None else by_number[each.parent]
        if each.on_line and before is not None and worse(each, before):
            found.append(
                f"round {each.number} did worse than round {before.number}: mean return {said(each.mean_return)} after "
                f"{said(before.mean_return)}; go back with: calql round back {project} {before.number}"
            )
    return found


def rounds_table(rounds: Sequence[RoundSummary]) -> Table:
    """For the terminal: one line a round, intervals below their numbers; fits 80 columns."""
    table = Table(
        title="Rounds", caption=CAPTION, title_style="bold", caption_style="dim", caption_justify="left",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
    )  # fmt: skip
    for head in HEADS:
        table.add_column("\n".join(head.split(" ", 1)), justify="right", no_wrap=True)
    for each in rounds:
        table.add_row(*(Text(cell.text) + Text(f"\n{cell.below}" * bool(cell.below), "dim") for cell in cells(each)))
    return table


def cells(each: RoundSummary) -> list[html.TableCell]:
    """What a line of the table says."""
    first = each.parent is None
    value, _, interval = each.evaluated.partition(" (")
    return [
        html.TableCell(each.name, "unfinished" if not each.ended else "" if first else f"from {each.parent}"),
        html.TableCell("-") if first else html.TableCell(f"{each.episodes:,}", f"{each.steps:,} steps"),
        html.TableCell(f"{len(each.returns):,}" if each.returns else "-"),
        _cell(each.mean_return),
        _cell(each.success),
        html.TableCell(value or "-", interval.removesuffix(")")),
    ]


def _cell(estimate: Estimate | None) -> html.TableCell:
    """A number with its interval below."""
    value, _, interval = said(estimate).partition(" (")
    return html.TableCell(value, interval.removesuffix(")"))


def said(estimate: Estimate | None) -> str:
    """A number and its interval."""
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"


def write_page(rounds: Sequence[RoundSummary], page: Path) -> Path:
    """Score by round, in a page of its own."""
    notes = [f"{text[:1].upper()}{text[1:]}." for text in warnings(rounds, shown(str(page.parent)))]
    sheet = _sheet(rounds)
    grid = html.Grid(html.row(*HEADS), [cells(each) for each in rounds], name="rounds")
    text = html.render(
        "rounds.html.j2",
        title=f"Rounds of {shown(page.parent.resolve().name)}",
        subtitle=_subtitle(rounds),
        lead=_lead(rounds),
        notes=notes,
        figure=None if sheet is None else charts.drawn(sheet),
        table=html.Card(grid, "Rounds", CAPTION),
        script=interactive.script(),
        live=False,
    )
    write_atomically(page, text)
    return page


def _lead(rounds: Sequence[RoundSummary]) -> str:
    scored = [each for each in rounds if each.on_line and each.returns]
    if not scored:
        return "No policy of this project has collected an episode yet."
    first, last = scored[0], scored[-1]
    begun = f"The policy of round {last.number} earned {said(last.mean_return)} an episode"
    if first is last:
        return f"{begun}."
    return f"{begun}; that of round {first.number} had earned {said(first.mean_return)}."


def _subtitle(rounds: Sequence[RoundSummary]) -> str:
    line = [each for each in rounds if each.on_line]
    episodes, steps = sum(each.episodes for each in line), sum(each.steps for each in line)
    return f"{len(line)} rounds on the present line · {episodes:,} new episodes · {steps:,} new steps"


def _sheet(rounds: Sequence[RoundSummary]) -> Sheet | None:
    if not any(each.returns for each in rounds):
        return None
    panels = [_panel("Return by round", "mean return", rounds, "mean_return")]
    if any(each.successes for each in rounds):
        panels.append(_panel("Success by round", "share of episodes", rounds, "success"))
    caption = "Of the episodes that each round's policy collected, with 95% intervals."
    return Sheet("rounds", "Score by round", caption, panels, 2)


def _panel(title: str, label: str, rounds: Sequence[RoundSummary], name: str) -> Panel:
    """The present line joined, other branches as points."""
    groups = (("present line", 0, True), ("gone back from", 1, False))
    lines = [
        _line(label_, place, [each for each in rounds if each.on_line == on], name) for label_, place, on in groups
    ]
    numbers = [each.number for each in rounds]
    span = (min(numbers) - 0.3, max(numbers) + 0.3)
    return Panel(title, [line for line in lines if line.x.size], "round", label, x_range=span, whole=True)


def _line(label: str, place: int, rounds: Sequence[RoundSummary], name: str) -> Line:
    found = [(each.number, estimate) for each in rounds if (estimate := getattr(each, name)) is not None]
    low = [each.value if each.low is None else each.low for _, each in found]
    high = [each.value if each.high is None else each.high for _, each in found]
    return Line(
        label,
        place,
        np.array([number for number, _ in found], np.float64),
        np.array([each.value for _, each in found], np.float64),
        np.array(low, np.float64),
        np.array(high, np.float64),
        kind="joined" if place == 0 else "points",
        names=[f"round {number}" for number, _ in found],
    )


def _column(values: Sequence[float]) -> Floats:
    return np.asarray(values, np.float64)[:, None]
