"""Ours beside the paper's: for every cell its numbers with their intervals, what the paper prints, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calql.experiments.analysis.evaluations import Result
from calql.experiments.analysis.verdicts import Verdict, judge
from calql.experiments.cells import CellStatus
from calql.experiments.names import method_place
from calql.experiments.paper.numbers import Number, PaperTable
from calql.results.statistics import Estimate, Floats, means

NUMBERS: tuple[Number, ...] = ("before", "after", "regret")
Key = tuple[str, str, str]  # task, method, variant


@dataclass(frozen=True)
class Entry:
    """One cell of a table; numbers that are not there are not in the mappings."""

    task: str
    method: str
    variant: str
    verdict: Verdict
    seeds: int = 0
    ours: Mapping[Number, Estimate] = field(default_factory=dict)
    paper: Mapping[Number, float] = field(default_factory=dict)


def compare(
    results: Sequence[Result],
    status: Sequence[CellStatus],
    paper: PaperTable | None,
    numbers: Sequence[Number],
    *,
    whole: bool,
) -> list[Entry]:
    """Every cell that was run or was to be run; with `whole`, every cell of the paper's table too.

    The paper's numbers belong to cells without a variant; the verdict is on `numbers`, the entry has all.
    """
    found = {result.key: result for result in results}
    stands = {(each.task, each.method, each.variant): each for each in status}
    printed = _printed(paper)
    estimates = _estimates(result for result in results if result.finished)
    keys = dict.fromkeys([*(printed if whole else ()), *stands, *found])
    return [
        _entry(key, found.get(key), stands.get(key), estimates.get(key, {}), printed.get(key, {}), numbers)
        for key in sorted(keys, key=_order(paper, keys))
    ]


def _entry(
    key: Key,
    result: Result | None,
    status: CellStatus | None,
    ours: Mapping[Number, Estimate],
    paper: Mapping[Number, float],
    numbers: Sequence[Number],
) -> Entry:
    task, method, variant = key
    verdict = judge(result, status, ours, paper, numbers)
    seeds = len(result.run.seeds) if result is not None and result.finished else 0
    return Entry(task, method, variant, verdict, seeds, ours, paper)


def _printed(paper: PaperTable | None) -> dict[Key, dict[Number, float]]:
    if paper is None:
        return {}
    return {
        (*key, ""): {n: value for n in NUMBERS if (value := paper.number(key, n)) is not None} for key in paper.cells
    }


def _order(paper: PaperTable | None, keys: Iterable[Key]) -> Callable[[Key], tuple[int, int, str, int]]:
    """Tasks as the paper has them, then as they come; methods by their place; variants as they come."""
    tasks = list(dict.fromkeys([*(paper.tasks if paper else ()), *(task for task, _, _ in keys)]))
    variants = list(dict.fromkeys(variant for _, _, variant in keys))
    return lambda key: (tasks.index(key[0]), method_place(key[1]), key[1], variants.index(key[2]))


def _estimates(results: Iterable[Result]) -> dict[Key, dict[Number, Estimate]]:
    """Means and intervals of all cells; those with the same number of seeds in one go, which is much faster."""
    together: dict[int, list[tuple[Key, Number, Floats]]] = {}
    found: dict[Key, dict[Number, Estimate]] = {}
    for result in results:
        found[result.key] = {}
        for number in NUMBERS:
            values = result.values(number)
            if values is not None:
                together.setdefault(len(values), []).append((result.key, number, values))
    for same in together.values():
        estimates = means(np.stack([values for _, _, values in same], axis=1))
        for (key, number, _), estimate in zip(same, estimates, strict=True):
            found[key][number] = estimate
    return found
