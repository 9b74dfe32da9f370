"""Runs without an environment: what their rows say of policies, which to take, and what logs cannot tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from calql.methods.vocabulary import BEHAVIOUR_VALUE, FQE_HIGH, FQE_LOW, FQE_VALUE
from calql.results.arms import Member, by_member, in_words, member_of
from calql.results.metrics import Row

RULE = "highest lower end of its value by fitted Q evaluation, at its last evaluation; of equals, the first"
WARNING = (
    "Nothing was tried in the world: a value by fitted Q evaluation is a network's estimate from the logs. It may be "
    "far too high where the policy does what nobody logged (see how near its actions stay), its interval is of the "
    "starts of held-out episodes and not of that error, and it says nothing of states that the logs lack. Try a policy "
    "with care before you rely on it."
)
SAME_LOGS = "values compare only where logs, held-out episodes, rewards and discount are the same"


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


def _value(row: Mapping[str, float]) -> str:
    return f"{row[FQE_VALUE]:.3g} ({row[FQE_LOW]:.3g} to {row[FQE_HIGH]:.3g})"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
