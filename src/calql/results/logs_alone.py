"""Runs without an environment: what their rows say of policies, which to take, and what logs cannot tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
)
from calql.results.arms import Member, by_member, in_words, member_of
from calql.results.metrics import Row

RULE = "highest lower end of its value by fitted Q evaluation, at its last evaluation; of equals, the first"
COLUMNS = ("", "value", "95% interval", "logged", "distance²", "Q", "return")
CAPTION = (
    "On held-out episodes. value: of the policy, by fitted Q evaluation. logged: what the episodes came to. distance²: "
    "of the policy's action to the logged one, bounds at -1 and 1. Q, return: of logged states and actions, on average."
)
WARNING = (
    "Nothing was tried in the world: a value by fitted Q evaluation is a network's estimate from the logs. It may be "
    "far too high where the policy does what nobody logged (see the distance of its actions), its interval is of the "
    "starts of held-out episodes and not of that error, and it says nothing of states that the logs lack. Try a policy "
    "with care before you rely on it."
)


def assessed(rows: Sequence[Row]) -> dict[Member, Row]:
    """The last row of each seed that was valued from logs; none for a run with an environment."""
    found: dict[Member, Row] = {}
    for row in rows:
        if row.get("score") is None and _is_number(row.get(FQE_LOW)):
            found[member_of(row)] = row
    return found


def lower_ends(rows: Sequence[Row]) -> dict[Member, float]:
    """What seeds are chosen by."""
    return {member: float(row[FQE_LOW]) for member, row in assessed(rows).items()}


def best(rows: Sequence[Row]) -> Member | None:
    """The seed to take, by RULE."""
    ends = dict(by_member(lower_ends(rows)))
    return max(ends, key=lambda member: ends[member], default=None)


def lead(rows: Sequence[Row]) -> str:
    """The first sentences of a report; empty for a run with an environment."""
    found, chosen = assessed(rows), best(rows)
    if chosen is None:
        return ""
    others = [f"{in_words(member)} {_value(row)}" for member, row in by_member(found) if member != chosen]
    beside = f" The others: {'; '.join(others)}." if others else ""
    return (
        f"From the logs alone, take {in_words(chosen)} ({RULE}): its value is {_value(found[chosen])}, that of the "
        f"logged behaviour on the same held-out episodes {found[chosen][BEHAVIOUR_VALUE]:.3g}.{beside}"
    )


def logs_table(rows: Sequence[Row]) -> Table:
    """For the terminal: one line a seed."""
    table = Table(
        title="Values from the logs alone",
        caption=CAPTION,
        title_style="bold",
        caption_style="dim",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name in COLUMNS:
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    chosen = best(rows)
    for member, row in by_member(assessed(rows)):
        table.add_row(
            in_words(member) + (" (take this)" if member == chosen else ""),
            f"{row[FQE_VALUE]:.3g}",
            f"{row[FQE_LOW]:.3g} to {row[FQE_HIGH]:.3g}",
            f"{row[BEHAVIOUR_VALUE]:.3g}",
            f"{row[ACTION_DISTANCE]:.3g}",
            "-" if row.get(AVERAGE_Q) is None else f"{row[AVERAGE_Q]:.3g}",
            f"{row[AVERAGE_RETURN_TO_GO]:.3g}",
        )
    return table


def _value(row: Mapping[str, float]) -> str:
    return f"{row[FQE_VALUE]:.3g} ({row[FQE_LOW]:.3g} to {row[FQE_HIGH]:.3g})"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
