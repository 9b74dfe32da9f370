"""How a cell of ours stands to the paper's. One rule, and every mark in tables and pages comes from it.

*Agrees*: for each number that the paper prints, our 95% bootstrap interval over seeds meets the paper's, which is its
printed mean widened by half of the last digit (it prints no spread). *Better* or *worse*: some number lies outside, on
that side; worse where some are on each. *Not decided*: fewer than four seeds, a scale that is not the paper's, code
from before a correction, less than a fifth of the paper's updates or a twentieth of its steps; and whatever more of
them could still turn round: with fewer than the paper's, a number that is worse, or better where its own score falls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from calql.experiments.analysis.evaluations import Result
from calql.experiments.cells import CellStatus
from calql.experiments.paper.numbers import ROUNDING, Number
from calql.results.statistics import Estimate

FEWEST_SEEDS = 4
LEAST_OFFLINE, LEAST_ONLINE = 0.2, 0.05  # shares of the paper's updates and steps


class Mark(Enum):
    """What is said of a cell: in words, as a sign for narrow tables, and as a CSS class."""

    AGREES = ("agrees with the paper", "=")
    BETTER = ("better than the paper", "+")
    WORSE = ("worse than the paper", "!")
    NOT_DECIDED = ("not decided", "~")
    NOT_RUN = ("not run", "-")
    NO_NUMBER = ("no number in the paper", "*")

    def __init__(self, words: str, sign: str) -> None:
        self.words = words
        self.sign = sign

    @property
    def css(self) -> str:
        return self.name.lower().replace("_", "-")


GRAVEST = (Mark.WORSE, Mark.NOT_DECIDED, Mark.BETTER, Mark.AGREES)  # the first that any number has is the cell's


@dataclass(frozen=True)
class Verdict:
    """A mark, and why, where the mark alone does not say it."""

    mark: Mark
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.mark.words} ({self.reason})" if self.reason else self.mark.words


def judge(
    result: Result | None,
    status: CellStatus | None,
    ours: Mapping[Number, Estimate],
    paper: Mapping[Number, float],
    numbers: Sequence[Number],
    older: str = "",
) -> Verdict:
    """The verdict on a cell from what is known of it and its numbers beside the paper's; `older`: than a correction."""
    if result is None or not result.finished:
        return Verdict(Mark.NOT_RUN, _why_not(status, result))
    if undecided := _undecided(result, older):
        return Verdict(Mark.NOT_DECIDED, undecided)
    known = [number for number in numbers if number in ours and number in paper]
    if not known:
        return Verdict(Mark.NO_NUMBER)
    found = {number: _compared(number, result, ours[number], paper) for number in known}
    mark = next(mark for mark in GRAVEST if mark in [each.mark for each in found.values()])
    told = [
        f"{number}{': ' if each.reason else ''}{each.reason}" for number, each in found.items() if each.mark is mark
    ]
    return Verdict(mark, "" if mark is Mark.AGREES else "; ".join(told))


def _compared(number: Number, result: Result, ours: Estimate, paper: Mapping[Number, float]) -> Verdict:
    """One number by itself."""
    if ours.covers(paper[number], ROUNDING):
        return Verdict(Mark.AGREES)
    better = (ours.value < paper[number]) if number == "regret" else (ours.value > paper[number])
    less = shares_in_words(result, offline_only=number == "before")
    if less and not better:
        return Verdict(Mark.NOT_DECIDED, f"worse, with {less}")
    falls = number != "before" and paper.get("after", 0.0) < paper.get("before", 0.0)
    if less and falls:
        return Verdict(Mark.NOT_DECIDED, f"better, with {less}, where the paper's falls online")
    return Verdict(Mark.BETTER if better else Mark.WORSE)


def shares_in_words(result: Result, *, offline_only: bool = False) -> str:
    """How much less than the paper's updates and steps a cell has; nothing where it has as many."""
    pairs = [("updates", result.run.offline_updates, result.paper_offline)]
    pairs += [] if offline_only else [("steps", result.run.online_steps, result.paper_online)]
    return " and ".join(f"{_share(ours, paper)} of the {what}" for what, ours, paper in pairs if ours < paper)


def _undecided(result: Result, older: str) -> str:
    """What keeps the whole cell from deciding, in words."""
    count = len(result.run.seeds)
    if older:
        return f"made before {older}"
    if count < FEWEST_SEEDS:
        return "one seed has no interval" if count == 1 else f"{count} seeds"
    if result.scale != "paper":
        return result.shortened or f"scale {result.scale}"
    run = result.run
    enough = run.offline_updates >= LEAST_OFFLINE * result.paper_offline
    enough = enough and run.online_steps >= LEAST_ONLINE * result.paper_online
    return "" if enough else shares_in_words(result)


def _why_not(status: CellStatus | None, result: Result | None) -> str:
    """A cell that began is not passed over in silence."""
    if status is None or status.state in ("not run", "finished"):
        return "not finished" if result is not None else ""
    return f"{status.state}: {status.reason}" if status.reason else status.state


def _share(ours: int, paper: int) -> str:
    return f"{ours / paper:.0%}" if ours >= 0.01 * paper else f"{ours / paper:.1%}"
