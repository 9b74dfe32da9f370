"""All methods on one small task, one after the other, into one report: what each kind should reach, in minutes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from calql.domains.registry import Task, get_task
from calql.experiments.launchers.base import Stop, Tell
from calql.experiments.launchers.here import Here
from calql.experiments.matrix import Matrix
from calql.experiments.paper.matrices import Arm, Experiment
from calql.experiments.paper.scales import cells_of
from calql.methods import METHODS, able
from calql.results.report import write_report
from calql.results.summary import Summary, summarise
from calql.runs import life as training
from calql.system.run_files import REPORT

TASK = "point-maze-diverse"
SEEDS = 4

# Two CPU cores give every method a minute or two, so runs are shorter than the task's own. Values travel back from
# the goal one step with each renewal of the targets, and the way is 60 to 150 steps long: fewer updates need faster
# targets, or a dead end beside the goal keeps the value that the network lends it through the wall.
AT_MOST: Mapping[str, int] = {"offline_updates": 5_000, "online_steps": 4_000}
SHARED: Mapping[str, Any] = {
    "target_rate": 0.05,
    "evaluate_offline_every": 2_500,
    "evaluate_online_every": 1_000,
    "evaluation_episodes": 10,
}
# Large ensembles and high update ratios keep their kind at a lower price; AWAC, whose critics follow its own policy
# with nothing to hold them down, diverges with the faster targets and keeps the task's.
PER_METHOD: Mapping[str, Mapping[str, Any]] = {
    "awac": {"target_rate": 0.02},
    "cal-ql-utd20": {
        "batch_size": 64,
        "critics": 3,
        "sampled_actions": 2,
        "critic_steps_online": 10,
        "update_ratio": 10,
        "offline_updates": 2_000,
        "online_steps": 1_000,
        "evaluate_online_every": 500,
    },
    "rlpd": {"batch_size": 64, "critics": 5, "critic_steps": 10, "update_ratio": 10},
    "wsrl": {"batch_size": 64, "critics": 3, "sampled_actions": 2, "offline_updates": 3_000},
}


@dataclass(frozen=True)
class Expectation:
    """What a method of its kind should come to: bounds of the mean score over seeds, and why."""

    after: tuple[float, float]
    why: str


EXPECTED: Mapping[str, Expectation] = {
    "cal-ql": Expectation((0.8, 1.0), "pre-trained and calibrated: solves the maze and keeps it"),
    "cal-ql-utd20": Expectation((0.8, 1.0), "the same with fewer steps"),
    "cql": Expectation((0.5, 1.0), "solves it, after unlearning first where data are narrow"),
    "cql-sac": Expectation((0.3, 1.0), "may unlearn when the regulariser goes"),
    "sac": Expectation((0.0, 0.3), "its own noise seldom finds the reward within the budget: one seed of four at most"),
    "sac-offline": Expectation((0.25, 1.0), "logged rewards make up most of the pool: clearly above SAC without them"),
    "hybrid": Expectation((0.5, 1.0), "half of each batch holds logged successes"),
    "rlpd": Expectation((0.7, 1.0), "the same with critics that stand many updates"),
    "iql": Expectation((0.2, 1.0), "improves slowly: its policy stays with logged actions"),
    "awac": Expectation((0.2, 1.0), "as IQL, with a critic of its own policy"),
    "td3-bc": Expectation((0.2, 1.0), "held to data that go everywhere"),
    "o3f": Expectation((0.2, 1.0), "TD3+BC with better data online"),
    "odt": Expectation((0.5, 1.0), "asked for the return of a success, it clones what led to one"),
    "bc": Expectation((0.5, 1.0), "clones walks that go everywhere, the goal included"),
    "wsrl": Expectation((0.5, 1.0), "pre-trained, then on new data alone"),
    "rebrac": Expectation((0.3, 1.0), "TD3 with penalties on both sides"),
}


def matrix_of(
    folder: str | Path, methods: Sequence[str] = (), *, task: str = TASK, seeds: int = SEEDS, **options: Any
) -> Matrix:
    """Each method in a run folder of its own name. `options` stand above what the comparison sets."""
    experiment = Experiment(
        "comparison", "Every method on a small task", (task,), tuple(map(Arm, METHODS.loadable())), seeds
    )
    cells = cells_of(experiment, "comparison", seeds=seeds, methods=methods, cut=partial(_cut, options))
    found = {cell.method: replace(cell, home=cell.method) for cell in cells}
    chosen = [found[name] for name in methods or able(get_task(task).discrete)]
    return Matrix(experiment, "comparison", chosen, Path(folder), below="")


def _cut(asked: Mapping[str, Any], task: Task, method: str, usual: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sizes cut down, and what the caller asks for; names that a method does not have are left out by who calls."""
    cut = {name: min(usual[name], most) for name, most in AT_MOST.items() if name in usual}
    return {**cut, **SHARED, **PER_METHOD.get(method, {}), **asked}


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
    matrix.run(Here(watching), Stop(), tell)
    chosen = [cell.method for cell in matrix.cells]
    report = write_report([matrix.root / name for name in chosen], matrix.root / REPORT)
    _write_verdicts(matrix.root, chosen, task)
    return report


def verdicts(root: Path, methods: Sequence[str]) -> list[dict[str, Any]]:
    """For each method its mean score before and after, what was expected, and whether it was reached."""
    return [_verdict(name, summarise(root / name)) for name in methods]


def _verdict(name: str, summary: Summary) -> dict[str, Any]:
    before = [seed.before for seed in summary.seeds if seed.before is not None]
    after = [seed.after for seed in summary.seeds if seed.after is not None] or before
    expected = EXPECTED.get(name)
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
