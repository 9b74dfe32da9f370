"""Over tasks and seeds together: interquartile means, probability of improvement, performance profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calql.experiments.analysis.evaluations import Result
from calql.experiments.names import method_name, method_place
from calql.experiments.paper.claims import OURS
from calql.experiments.paper.numbers import Number
from calql.experiments.tables import Table
from calql.results.html import TableCell
from calql.results.statistics import (
    Estimate,
    Floats,
    Profile,
    interquartile_mean,
    mean,
    performance_profiles,
    probability_of_improvement,
)

Scores = Mapping[str, Mapping[str, Floats]]  # method to task to one score for each seed; higher is better


def scores_of(results: Sequence[Result], number: Number) -> Scores:
    """Finished cells without a variant. Regret becomes one minus regret: the mean score while fine-tuning."""
    found: dict[str, dict[str, Floats]] = {}
    for result in results:
        values = result.values(number) if result.finished and not result.variant else None
        if values is not None:
            found.setdefault(result.method, {})[result.task] = 1.0 - values if number == "regret" else values
    return {method: found[method] for method in sorted(found, key=lambda name: (method_place(name), name))}


def aggregate_table(scores: Scores, number: Number) -> Table | None:
    """Each method over its own tasks and over those that all have; Cal-QL against each over the tasks of both."""
    if not scores:
        return None
    shared = shared_tasks(scores)
    some = shared if any(len(tasks) > len(shared) for tasks in scores.values()) else []
    heads = ["method", "tasks", "interquartile mean", "mean"]
    heads += [f"interquartile mean, {len(some)} shared tasks"] if some else []
    rows = [_row(scores, method, some) for method in scores]
    what = "score after fine-tuning" if number == "after" else "mean score while fine-tuning (1 - regret)"
    note = (
        f"Of the {what}, all seeds of all tasks, with 95% stratified bootstrap intervals. The interquartile "
        "mean is that of the middle half. Methods compare only over the same tasks. Probability of improvement: "
        f"how likely a seed of {method_name(OURS)} is above one of the method, over the tasks of both; 0.5 is a draw."
    )
    return Table("aggregates", "Over all tasks", [*heads, f"P({method_name(OURS)} above it)"], rows, note=note)


def _row(scores: Scores, method: str, shared: Sequence[str]) -> list[TableCell]:
    tasks = scores[method]
    own = _matrix(tasks, sorted(tasks))
    return [
        TableCell(method_name(method)),
        TableCell(str(len(tasks)), value=len(tasks)),
        _cell(interquartile_mean(own)),
        _cell(mean(own)),
        *([_cell(interquartile_mean(_matrix(tasks, shared)))] if shared else []),
        _cell(_improvement(scores, method)),
    ]


def profiles(scores: Scores, thresholds: Floats) -> tuple[list[str], dict[str, Profile]]:
    """Over the tasks that every method has finished, which come along."""
    shared = shared_tasks(scores)
    if not shared:
        return [], {}
    matrices = {method: _matrix(tasks, shared) for method, tasks in scores.items()}
    return shared, performance_profiles(matrices, thresholds)


def shared_tasks(scores: Scores) -> list[str]:
    sets = [set(tasks) for tasks in scores.values()]
    return sorted(set.intersection(*sets)) if sets else []


def _improvement(scores: Scores, method: str) -> Estimate | None:
    if method == OURS or OURS not in scores:
        return None
    both = sorted(scores[OURS].keys() & scores[method].keys())
    if not both:
        return None
    return probability_of_improvement(_matrix(scores[OURS], both), _matrix(scores[method], both))


def _matrix(tasks: Mapping[str, Floats], names: Sequence[str]) -> Floats:
    """[seed, task]; with unequal numbers of seeds, as many of the first as every task has."""
    seeds = min(len(tasks[name]) for name in names)
    return np.stack([tasks[name][:seeds] for name in names], axis=1)


def _cell(estimate: Estimate | None) -> TableCell:
    if estimate is None:
        return TableCell("")
    interval = "" if estimate.low is None else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return TableCell(f"{estimate.value:.2f}{interval}", value=estimate.value)
