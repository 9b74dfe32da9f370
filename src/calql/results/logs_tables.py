"""Runs without an environment in tables: in the place of scores, what held-out episodes say of each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from calql.methods.vocabulary import (
    ACTION_DISTANCE,
    AVERAGE_Q,
    AVERAGE_RETURN_TO_GO,
    BEHAVIOUR_VALUE,
    FQE_HIGH,
    FQE_LOW,
    FQE_VALUE,
    HELD_OUT_AGREEMENT,
    HELD_OUT_LIKELIHOOD,
)
from calql.results.arms import Member, by_member, in_words, named
from calql.results.html import Card, Grid, TableCell, row
from calql.results.interactive import colour
from calql.results.logs_alone import RULE, assessed, best
from calql.results.metrics import Row
from calql.results.runs import RecordedRun

INTERVAL = "95% interval"


@dataclass(frozen=True)
class Quantity:
    """A number of a valued policy: how its column is called and what it means."""

    metric: str
    heading: str
    meaning: str
    digits: Callable[[float], str] = "{:.3g}".format

    def text(self, row: Row) -> str:
        value = row.get(self.metric)
        return "-" if value is None else self.digits(value)


def _percent(share: float) -> str:
    return f"{share:.0%}"


QUANTITIES = (
    Quantity(FQE_VALUE, "value", "of the policy, by fitted Q evaluation"),
    Quantity(BEHAVIOUR_VALUE, "logged", "what the episodes came to"),
    Quantity(ACTION_DISTANCE, "distance²", "of the policy's action to the logged one, bounds at -1 and 1"),
    Quantity(HELD_OUT_AGREEMENT, "agrees", "steps in which the policy chooses what was logged", _percent),
    Quantity(HELD_OUT_LIKELIHOOD, "log p", "mean log-probability of logged actions under the policy"),
    Quantity(AVERAGE_Q, "Q", "of logged states and actions, on average"),
    Quantity(AVERAGE_RETURN_TO_GO, "return", "what these came to, on average"),
)


def measured(rows: Sequence[Row]) -> list[Quantity]:
    """What any policy of the runs was measured by: distances of continuous actions, agreement of discrete ones."""
    return [each for each in QUANTITIES if any(row.get(each.metric) is not None for row in rows)]


def meanings(shown: Sequence[Quantity]) -> str:
    return f"On held-out episodes. {' '.join(f'{each.heading}: {each.meaning}.' for each in shown)}"


def logs_table(rows: Sequence[Row]) -> Table:
    """For the terminal: one line a seed; fits 80 columns."""
    found, chosen = assessed(rows), best(rows)
    shown = measured(list(found.values()))
    table = Table(
        title="Values from the logs alone",
        caption=meanings(shown),
        title_style="bold",
        caption_style="dim",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name in ("", shown[0].heading, INTERVAL, *(each.heading for each in shown[1:])):
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    for member, one in by_member(found):
        title = in_words(member) + (" (take)" if member == chosen else "")
        first, *others = (each.text(one) for each in shown)
        table.add_row(title, first, _interval(one), *others)
    return table


def results(names: Sequence[str], runs: Sequence[RecordedRun], colours: Sequence[int]) -> Card:
    """One row per run: the seed that the rule takes."""
    taken = [(run, _taken(run)) for run in runs]
    shown = measured([one for _, (_, one) in taken])
    lines = [
        [
            TableCell(name, dot=colour(place) if len(names) > 1 else "", badge="" if run.finished else "unfinished"),
            TableCell(in_words(member)),
            *(_cell(each, one) for each in shown),
        ]
        for name, place, (run, (member, one)) in zip(names, colours, taken, strict=True)
    ]
    heads = [*row("run", "take"), *(TableCell(each.heading, hint=each.meaning) for each in shown)]
    note = f"take: the seed with the {RULE}. {meanings(shown)} Below a value: its 95% interval over these episodes."
    return Card(Grid(heads, lines, sortable=True, name="results"), note=note)


def seeds(names: Sequence[str], runs: Sequence[RecordedRun]) -> Grid:
    """One row per seed of each run."""
    found = [(name, *each) for name, run in zip(names, runs, strict=True) for each in by_member(assessed(run.rows))]
    shown = measured([one for *_, one in found])
    lines = [
        [*row(name, str(named(member)["seed"])), *(_cell(each, one) for each in shown)] for name, member, one in found
    ]
    return Grid(row("run", "seed", *(each.heading for each in shown)), lines, sortable=True, name="every seed")


def as_dict(run: RecordedRun) -> dict[str, Any]:
    """For JSON: what was measured of each seed, and which to take; nothing of a run that was played."""
    found = assessed(run.rows)
    if not found:
        return {}
    metrics = (*(each.metric for each in measured(list(found.values()))), FQE_LOW, FQE_HIGH)
    lines = [{**named(member), **{name: one.get(name) for name in metrics}} for member, one in by_member(found)]
    chosen = best(run.rows)
    return {"from_logs": {"take": None if chosen is None else named(chosen), "rule": RULE, "seeds": lines}}


def _taken(run: RecordedRun) -> tuple[Member, Row]:
    chosen = best(run.rows)
    assert chosen is not None  # asked only of runs that were valued
    return chosen, assessed(run.rows)[chosen]


def _cell(quantity: Quantity, one: Row) -> TableCell:
    value = one.get(quantity.metric)
    below = _interval(one) if quantity.metric == FQE_VALUE else ""
    return TableCell(quantity.text(one), below, "" if value is None else str(value))


def _interval(one: Row) -> str:
    return f"{one[FQE_LOW]:.3g} to {one[FQE_HIGH]:.3g}"
