"""Which seed of a run to export: the one that is named, or the best by its own rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from calql.results.arms import Member, in_words, member_of, named
from calql.results.logs_alone import RULE as LOGS_RULE
from calql.results.logs_alone import lower_ends
from calql.results.metrics import Row, read_rows
from calql.runs.artifact import chosen_member
from calql.system.errors import UserError
from calql.system.run_files import METRICS

BEST = "best"
RULE = "highest score in its last evaluation; of equals, the first"


def choose(members: Sequence[Member], folder: Path, seed: str, arm: str | None) -> tuple[Member, str]:
    """The member, and a sentence on how it was chosen."""
    if seed != BEST:
        return chosen_member(members, _number(seed), arm, str(folder)), "named"
    among = [member for member in members if arm is None or named(member).get("arm") == arm]
    if not among:
        chosen_member(members, None, arm, str(folder))  # says which arms there are
    if len(among) == 1:
        return among[0], "the only one"
    rows = read_rows(folder / METRICS)
    if scores := last_scores(rows):
        return best(among, scores, str(folder))
    return best(among, lower_ends(rows), str(folder), LOGS_RULE)


def best(members: Sequence[Member], scores: Mapping[Member, float], where: str, rule: str = RULE) -> tuple[Member, str]:
    """By the rule; members without a score do not compare."""
    scored = [member for member in members if member in scores]
    if not scored:
        raise UserError(
            "no evaluation says which seed is best", where=where, mend="name one with --seed, or name the run folder"
        )
    found = max(scored, key=lambda member: scores[member])  # the first of equals
    number = "score" if rule == RULE else "lower end"
    return found, f"{in_words(found)}, {number} {scores[found]:.4g}: best of {len(members)} ({rule})"


def last_scores(rows: Sequence[Row]) -> dict[Member, float]:
    """Of each member, in the last row that has one."""
    found: dict[Member, float] = {}
    for row in rows:
        score = row.get("score")
        if isinstance(score, int | float) and math.isfinite(score):
            found[member_of(row)] = float(score)
    return found


def _number(seed: str) -> int:
    try:
        return int(seed)
    except ValueError:
        raise UserError(
            f"--seed is '{seed}'", where="calql export", mend="give the number of a seed, or best"
        ) from None
