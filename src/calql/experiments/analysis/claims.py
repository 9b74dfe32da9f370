"""What the paper claims, asked of rows: yes, no or not decided for each task that a claim is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from calql.experiments.analysis.checks import (
    Answer,
    alike,
    below,
    best_pair,
    falls,
    same_length,
    side,
    told,
)
from calql.experiments.analysis.choice import arm
from calql.experiments.analysis.facts import Facts
from calql.experiments.analysis.verdicts import FEWEST_SEEDS
from calql.experiments.names import method_name
from calql.experiments.paper.claims import (
    A_HALF,
    A_QUARTER,
    AT_20,
    DIVERSE,
    KITCHEN,
    MANY_UPDATES,
    MIXING,
    MONTE_CARLO,
    NARROW,
    OTHER_AT_20,
    OTHERS_MANY_UPDATES,
    OURS,
    PAIR,
    REGRESSED,
)
from calql.results.statistics import Estimate, Floats, difference, means

NOT_RUN = "not run"
Rule = Callable[[Floats | None, Floats | None], tuple[Answer, str]]


@dataclass(frozen=True)
class Finding:
    """One claim on one task: the answer, and the numbers that gave it."""

    claim: str
    task: str
    answer: Answer
    why: str
    older: bool = False  # some of its rows were made before a correction


def find_claims(cells: Sequence[Facts], tasks: Sequence[str]) -> list[Finding]:
    """Every claim on every one of the tasks that it is about, whether it was run or not."""
    kitchens = [task for task in tasks if task.startswith(KITCHEN)]
    found = [_falls(cells, task) for task in tasks]
    found += [_regret(cells, task) for task in tasks]
    found += [each for task in tasks if (each := _lowest(cells, task)) is not None]
    found += [_bound_on_narrow(cells), _advantage_on_narrow(cells), _alike_on_diverse(cells), _mixing(cells)]
    found += [_reference(cells, task) for task in kitchens]
    found += [each for task in tasks if (each := _many_updates(cells, task)).why != NOT_RUN or task == MIXING]
    return found


def _falls(cells: Sequence[Facts], task: str) -> Finding:
    """By the worst score of the first fifth, as the paper's figure of the dip shows it."""
    claim = "CQL falls at the switch and Cal-QL does not"
    pair = same_length(cells, task, *map(arm, PAIR))
    if pair is None:
        return Finding(claim, task, Answer.OPEN, NOT_RUN)
    ours, theirs = (_early_depth(each) for each in pair)
    if ours is None or theirs is None:
        return Finding(claim, task, Answer.OPEN, "no score at the switch", _older(pair))
    tolerance = max(each.tolerance for each in pair)
    why = f"worst of the first fifth less the switch: Cal-QL {told(_mean(ours))}, CQL {told(_mean(theirs))}"
    why += f"; a fall is more than {tolerance:.2f}"
    before = pair[1].values("before")
    if before is not None and float(before.mean()) < 2 * tolerance:
        why = f"CQL had too little to lose ({before.mean():.2f}); {why}"
        return Finding(claim, task, Answer.OPEN, why, _older(pair))
    return Finding(claim, task, _cure(falls(ours, tolerance), falls(theirs, tolerance)), why, _older(pair))


def _cure(calibrated: Answer, uncalibrated: Answer) -> Answer:
    """From whether each of the two falls."""
    if uncalibrated is Answer.YES and calibrated is Answer.NO:
        return Answer.YES
    return Answer.NO if uncalibrated is Answer.NO or calibrated is Answer.YES else Answer.OPEN


def _early_depth(cell: Facts) -> Floats | None:
    """Where no evaluation fell into the first fifth, the first one stands for it."""
    before, worst = cell.values("before"), cell.values("worst_early")
    worst = _first_online(cell) if worst is None else worst
    return None if before is None or worst is None else worst - before


def _first_online(cell: Facts) -> Floats | None:
    run = cell.result.run
    first = [next((r["score"] for r in run.of_seed(s) if r["phase"] == "online"), None) for s in run.seeds]
    return None if any(value is None for value in first) else np.array(first, np.float64)


def _regret(cells: Sequence[Facts], task: str) -> Finding:
    pair = same_length(cells, task, *map(arm, PAIR))
    return _compared("Cal-QL's regret is below CQL's", task, pair, below)


def _lowest(cells: Sequence[Facts], task: str) -> Finding | None:
    """Against each other method that was run as long; no where any is below. None where there are none but CQL."""
    claim = "Cal-QL's regret is the lowest of all methods"
    others = {cell.result.method for cell in cells if cell.result.task == task} - {OURS, AT_20, OTHER_AT_20}
    pairs = [each for name in others if (each := same_length(cells, task, arm(OURS), arm(name))) is not None]
    if len(pairs) < 2:
        return None
    found = {method_name(b.result.method): below(a.values("regret"), b.values("regret"))[0] for a, b in pairs}
    lower = sorted(name for name, answer in found.items() if answer is Answer.NO)
    unknown = sorted(name for name, answer in found.items() if answer is Answer.OPEN)
    older = any(map(_older, pairs))
    if lower:
        return Finding(claim, task, Answer.NO, f"below it: {', '.join(lower)}", older)
    if unknown:
        return Finding(claim, task, Answer.OPEN, f"not apart from {', '.join(unknown)}", older)
    return Finding(claim, task, Answer.YES, f"below each of {len(pairs)}", older)


def _bound_on_narrow(cells: Sequence[Facts]) -> Finding:
    claim = "the bound acts more on narrow data than on diverse"
    pair = _narrow_and_diverse(cells, OURS)
    if pair is None:
        return Finding(claim, NARROW, Answer.OPEN, NOT_RUN)
    answer, why = below(pair[1].bound_rate, pair[0].bound_rate)
    return Finding(claim, NARROW, answer, f"bound rate at the switch, diverse less narrow: {why}", _older(pair))


def _advantage_on_narrow(cells: Sequence[Facts]) -> Finding:
    """CQL's regret less Cal-QL's, seed by seed, on diverse data less on narrow."""
    claim = "calibration helps more on narrow data than on diverse"
    ours, theirs = (_narrow_and_diverse(cells, method) for method in PAIR)
    if ours is None or theirs is None:
        return Finding(claim, NARROW, Answer.OPEN, NOT_RUN)
    narrow, diverse = (_saved(a, b) for a, b in zip(ours, theirs, strict=True))
    if narrow is None or diverse is None:
        return Finding(claim, NARROW, Answer.OPEN, f"fewer than {FEWEST_SEEDS} seeds")
    found = difference(diverse, narrow)
    why = f"regret saved: {narrow.mean():+.2f} and {diverse.mean():+.2f}, diverse less narrow {told(found)}"
    return Finding(claim, NARROW, side(found), why, _older([*ours, *theirs]))


def _saved(ours: Facts, theirs: Facts) -> Floats | None:
    """By how much regret is less, for each seed that both have."""
    pair = [cell.values("regret") for cell in (ours, theirs)]
    if pair[0] is None or pair[1] is None:
        return None
    seeds = min(map(len, (pair[0], pair[1])))
    return pair[1][:seeds] - pair[0][:seeds] if seeds >= FEWEST_SEEDS else None


def _alike_on_diverse(cells: Sequence[Facts]) -> Finding:
    pair = same_length(cells, DIVERSE, *map(arm, PAIR))
    return _compared("on diverse data Cal-QL and CQL are alike", DIVERSE, pair, alike)


def _mixing(cells: Sequence[Facts]) -> Finding:
    pair = same_length(cells, MIXING, arm(*A_QUARTER), arm(*A_HALF))
    return _compared("more offline data in a batch slows fine-tuning (a quarter against a half)", MIXING, pair, below)


def _reference(cells: Sequence[Facts], task: str) -> Finding:
    choose = arm(*REGRESSED), arm(*MONTE_CARLO)
    return _compared("a regressed reference value does as well", task, same_length(cells, task, *choose), alike)


def _many_updates(cells: Sequence[Facts], task: str) -> Finding:
    """RLPD starts from nothing, so updates offline are not compared."""
    choose = arm(*MANY_UPDATES), arm(*OTHERS_MANY_UPDATES)
    pair = same_length(cells, task, *choose, offline=False)
    return _compared("at 20 updates a step Cal-QL's regret is below RLPD's", task, pair, below)


def _compared(claim: str, task: str, pair: Sequence[Facts] | None, rule: Rule) -> Finding:
    """Of regrets."""
    if pair is None:
        return Finding(claim, task, Answer.OPEN, NOT_RUN)
    regrets = [each.values("regret") for each in pair]
    answer, why = rule(*regrets)
    means_of = " and ".join(f"{value.mean():.2f}" for value in regrets if value is not None)
    return Finding(claim, task, answer, f"regret {means_of}, {why}", _older(pair))


def _narrow_and_diverse(cells: Sequence[Facts], method: str) -> tuple[Facts, Facts] | None:
    """The cells of a method on narrow and on diverse data, as long as each other."""
    chosen = [cell for cell in cells if cell.fits(arm(method))]
    narrow, diverse = ([cell for cell in chosen if cell.result.task == task] for task in (NARROW, DIVERSE))
    return best_pair(narrow, diverse)


def _older(cells: Iterable[Facts]) -> bool:
    return any(cell.older for cell in cells)


def _mean(values: Floats) -> Estimate:
    return means(values[:, None])[0]
