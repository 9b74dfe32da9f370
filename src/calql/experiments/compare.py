"""All methods on one small task, one after the other, into one report: what each kind should reach, in minutes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from calql.domains.registry import Task, get_task
from calql.experiments.experiment import Arm, Experiment, cells_of
from calql.experiments.launchers.base import StopRequest, Tell
from calql.experiments.launchers.here import Here
from calql.experiments.matrix import Matrix
from calql.experiments.scales import Scale, at_most
from calql.methods import METHODS, able, method_entry
from calql.results.report import write_report
from calql.results.summary import Summary, summarise
from calql.runs import life as training
from calql.system.run_files import REPORT

TASK = "point-maze-diverse"
SEEDS = 4

# Two CPU cores give every method a minute or two, so runs are shorter than the task's own. Values travel back from
# the goal one step with each renewal of the targets, and the way is 60 to 150 steps long: fewer updates need faster
# targets, or a dead end beside the goal keeps the value that the network lends it through the wall. What a method has
# otherwise, and what it should come to, stands in its file.
AT_MOST: Mapping[str, int] = {"offline_updates": 5_000, "online_steps": 4_000}
SHARED: Mapping[str, Any] = {
    "target_rate": 0.05,
    "evaluate_offline_every": 2_500,
    "evaluate_online_every": 1_000,
    "evaluation_episodes": 10,
}


def matrix_of(
    folder: str | Path, methods: Sequence[str] = (), *, task: str = TASK, seeds: int = SEEDS, **options: Any
) -> Matrix:
    """Each method in a run folder of its own name. `options` stand above what the comparison sets."""
    arms = tuple(map(Arm, METHODS.loadable()))
    experiment = Experiment("comparison", "Every method on a small task", (task,), arms, seeds)
    scale = Scale("comparison", "a minute or two for each method on two CPU cores", partial(_cut, options))
    chosen = methods or able(get_task(task).discrete)
    cells = cells_of(experiment, scale, seeds=seeds, methods=chosen)
    found = {cell.method: replace(cell, home=cell.method) for cell in cells}
    return Matrix(experiment, scale, [found[name] for name in chosen], Path(folder), below="")


def _cut(asked: Mapping[str, Any], task: Task, method: str, usual: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sizes cut down, and what the caller asks for; names that a method does not have are left out by who calls."""
    compared = method_entry(method).compared
    own = {} if compared is None else compared.options
    return {**at_most(usual, AT_MOST), **SHARED, **own, **asked}


def compare(
    folder: str | Path,
    methods: Sequence[str] = (),
    *,
    task: str = TASK,
    watching: training.Watching = training.Watching(),
    tell: Tell = print,
    **options: Any,
) -> Path:
    """Train each method in a folder of its own, then write one report; where that stops, it goes on when called again.

    Finished methods are not run again, an unfinished one is resumed. `options` go to every method that
    has them, above what this comparison sets.
    """
    matrix = matrix_of(folder, methods, task=task, **options)
    matrix.run(Here(watching), StopRequest(), tell)
    chosen = [cell.method for cell in matrix.cells]
    report = write_report([matrix.root / name for name in chosen], matrix.root / REPORT)
    _write_verdicts(matrix.root, chosen, task)
    return report


def summaries(folder: str | Path, methods: Sequence[str] = (), *, task: str = TASK) -> list[Summary]:
    """What each method of a comparison came to."""
    matrix = matrix_of(folder, methods, task=task)
    return [summarise(matrix.root / cell.method) for cell in matrix.cells]


def verdicts(root: Path, methods: Sequence[str]) -> list[dict[str, Any]]:
    """For each method its mean score before and after, what was expected, and whether it was reached."""
    return [_verdict(name, summarise(root / name)) for name in methods]


def _verdict(name: str, summary: Summary) -> dict[str, Any]:
    before = [seed.before for seed in summary.seeds if seed.before is not None]
    after = [seed.after for seed in summary.seeds if seed.after is not None] or before
    expected = method_entry(name).compared
    score = sum(after) / len(after)
    return {
        "method": name,
        "before": sum(before) / len(before) if before else None,
        "after": score,
        "expected": None if expected is None else list(expected.after),
        "why": None if expected is None else expected.why,
        "as_expected": None if expected is None else expected.after[0] <= score <= expected.after[1],
    }


def _write_verdicts(root: Path, methods: Sequence[str], task: str) -> None:
    """Expectations are for the task of the comparison; on another one only the scores mean something."""
    found = verdicts(root, methods)
    if task != TASK:
        found = [{k: v for k, v in verdict.items() if k in ("method", "before", "after")} for verdict in found]
    (root / "verdicts.json").write_text(json.dumps(found, indent=2) + "\n")
