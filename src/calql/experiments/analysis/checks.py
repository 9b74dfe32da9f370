"""Rules that answer a question from rows: yes, no or not decided, each so that a reader can check it by hand.

A difference decides where its 95% bootstrap interval lies on one side; with fewer than four seeds nothing does. Two are
alike where the interval of their difference lies within a tenth, and not alike where it lies outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from calql.experiments.analysis.choice import Choose
from calql.experiments.analysis.facts import Facts
from calql.experiments.analysis.verdicts import FEWEST_SEEDS
from calql.results.statistics import Estimate, Floats, difference, means

ALIKE = 0.1  # of a score or a regret
FEW = f"fewer than {FEWEST_SEEDS} seeds, or none"


class Answer(Enum):
    YES = "yes"
    NO = "no"
    OPEN = "not decided"


def side(found: Estimate) -> Answer:
    """Whether an estimate is negative."""
    if found.low is None or found.high is None:
        return Answer.OPEN
    return Answer.YES if found.high < 0 else Answer.NO if found.low > 0 else Answer.OPEN


def below(ours: Floats | None, theirs: Floats | None) -> tuple[Answer, str]:
    """Whether ours is the smaller."""
    found = _difference(ours, theirs)
    return (Answer.OPEN, FEW) if found is None else (side(found), f"difference {told(found)}")


def alike(ours: Floats | None, theirs: Floats | None) -> tuple[Answer, str]:
    """Whether they differ by less than `ALIKE`."""
    found = _difference(ours, theirs)
    if found is None or found.low is None or found.high is None:
        return Answer.OPEN, FEW
    within = found.low >= -ALIKE and found.high <= ALIKE
    outside = found.low > ALIKE or found.high < -ALIKE
    return Answer.YES if within else Answer.NO if outside else Answer.OPEN, f"difference {told(found)}"


def falls(depths: Floats, tolerance: float) -> Answer:
    """Whether scores lie below those at the switch by more than the tolerance, on average over seeds."""
    (found,) = means(depths[:, None])
    if len(depths) < FEWEST_SEEDS or found.low is None or found.high is None:
        return Answer.OPEN
    return Answer.YES if found.high < -tolerance else Answer.NO if found.low >= -tolerance else Answer.OPEN


def _difference(ours: Floats | None, theirs: Floats | None) -> Estimate | None:
    if ours is None or theirs is None or min(len(ours), len(theirs)) < FEWEST_SEEDS:
        return None
    return difference(ours, theirs)


def same_length(
    cells: Sequence[Facts], task: str, first: Choose, second: Choose, *, offline: bool = True
) -> tuple[Facts, Facts] | None:
    """The best pair of cells on a task with the same updates and steps; None where there is none."""
    here = [cell for cell in cells if cell.result.task == task]
    ones, others = ([cell for cell in here if cell.fits(choose)] for choose in (first, second))
    return best_pair(ones, others, offline=offline)


def best_pair(ones: Sequence[Facts], others: Sequence[Facts], *, offline: bool = True) -> tuple[Facts, Facts] | None:
    """Two that are as long as each other; of several pairs the one whose lesser cell ranks highest."""
    pairs = [(one, other) for one in ones for other in others if _as_long(one, other, offline=offline)]
    return max(pairs, key=lambda pair: min(each.rank for each in pair), default=None)


def _as_long(one: Facts, other: Facts, *, offline: bool) -> bool:
    """As planned; runs that were cut, as they stand within a tenth of each other."""
    a, b = one.result.run, other.result.run
    near = abs(a.online_steps - b.online_steps) <= 0.1 * max(a.online_steps, b.online_steps)
    same = near if one.cut_at or other.cut_at else a.online_steps == b.online_steps
    return same and (not offline or a.offline_updates == b.offline_updates)


def told(found: Estimate) -> str:
    """Two digits, more where these would hide a small difference."""
    digits = 4 if 0 < abs(found.value) < 0.01 else 2
    interval = "" if found.low is None else f" [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"
    return f"{found.value:+.{digits}f}{interval}"
