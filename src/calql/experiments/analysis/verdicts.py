"""How a cell of ours stands to the paper's. One rule, and every mark in tables and page comes from it.

A cell is *reproduced within its interval* where, for each number that the paper prints, our 95% bootstrap interval
over seeds holds it. The paper prints rounded means without their spread, so the interval is ours alone, widened by
half of the last digit printed. With fewer updates or environment steps than the paper's protocol, at any scale but
`paper`, or with a single seed (which has no interval), a cell is *at reduced scale*, whatever its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from calql.experiments.analysis.evaluations import Result
from calql.experiments.cells import CellStatus
from calql.experiments.paper.numbers import ROUNDING
from calql.results.statistics import Estimate

Pair = tuple[Estimate | None, float | None]  # ours, the paper's


class Mark(Enum):
    """What is said of a cell: in words, as a sign for narrow tables, and as a CSS class."""

    REPRODUCED = ("reproduced within its interval", "=")
    DIFFERS = ("differs", "≠")
    REDUCED = ("at reduced scale", "~")
    NOT_RUN = ("not run", "-")
    NO_NUMBER = ("no number in the paper", "*")

    def __init__(self, words: str, sign: str) -> None:
        self.words = words
        self.sign = sign

    @property
    def css(self) -> str:
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Verdict:
    """A mark, and why, where the mark alone does not say it."""

    mark: Mark
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.mark.words} ({self.reason})" if self.reason else self.mark.words


def judge(result: Result | None, status: CellStatus | None, pairs: Sequence[Pair]) -> Verdict:
    """The verdict on a cell from what is known of it and its numbers beside the paper's."""
    if result is None or not result.finished:
        return Verdict(Mark.NOT_RUN, _why_not(status, result))
    if shortened := _shortened(result):
        return Verdict(Mark.REDUCED, shortened)
    known = [(ours, paper) for ours, paper in pairs if ours is not None and paper is not None]
    if not known:
        return Verdict(Mark.NO_NUMBER)
    inside = all(ours.covers(paper, ROUNDING) for ours, paper in known)
    return Verdict(Mark.REPRODUCED if inside else Mark.DIFFERS)


def _why_not(status: CellStatus | None, result: Result | None) -> str:
    """A cell that began is not passed over in silence."""
    if status is None or status.state in ("not run", "finished"):
        return "not finished" if result is not None else ""
    return f"{status.state}: {status.reason}" if status.reason else status.state


def _shortened(result: Result) -> str:
    """In words; nothing for a cell of the paper's length with seeds enough for an interval."""
    if len(result.run.seeds) < 2:
        return "one seed has no interval"
    if not result.reduced:
        return ""
    run = result.run
    return result.shortened or f"{run.offline_updates:,} updates offline, {run.online_steps:,} steps online"
