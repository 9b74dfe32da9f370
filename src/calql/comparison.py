"""All methods on one small task, one after the other, into one report: what each kind should reach, in minutes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calql import experiment as experiments
from calql import training
from calql.experiment import Choice
from calql.methods import METHODS, method_entry
from calql.results.report import write_report
from calql.results.summary import Summary, summarise
from calql.runs.folder import CONFIG, discard, finished
from calql.runs.stops import Stopped

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

Tell = Callable[[str], None]


def compare(
    folder: str | Path,
    methods: Sequence[str] = (),
    *,
    task: str = TASK,
    seeds: int = SEEDS,
    watching: training.Watching = training.Watching(),
    tell: Tell = print,
    **options: Any,
) -> Path:
    """Train each method in a folder of its own, then write one report; where that stops, it goes on when called again.

    Finished methods are not run again, an unfinished one is resumed. `options` go to every method that
    has them, above what this comparison sets.
    """
    root = Path(folder)
    for name in methods:
        method_entry(name)
    chosen = list(methods) or list(METHODS)
    for number, name in enumerate(chosen, start=1):
        if finished(root / name):
            tell(f"{number}/{len(chosen)} {name}: finished before")
            continue
        tell(f"{number}/{len(chosen)} {name}")
        outcome = _train(name, root / name, task, seeds, watching, options)
        if not outcome.finished:
            raise Stopped(outcome.stopped_by or "SIGTERM", f"{name} is unfinished; go on with the same command")
    report = write_report([root / name for name in chosen], root / "report.html")
    _write_verdicts(root, chosen, task)
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


def _train(
    name: str, folder: Path, task: str, seeds: int, watching: training.Watching, options: Mapping[str, Any]
) -> training.Outcome:
    """Start, or go on where an earlier call stopped."""
    if (folder / CONFIG).exists():
        return training.resume(folder, watching)
    discard(folder)
    return training.train(task, method=name, out=folder, watching=watching, **settings(name, task, seeds, options))


def settings(name: str, task: str, seeds: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """What this comparison changes for a method: sizes cut down, and what the caller asks for."""
    choice = Choice(task=task, method=name)
    run, learner = experiments.defaults(choice, experiments.resolve_task(choice)[0])
    known = {**vars(run), **vars(learner)}
    cut = {k: min(known[k], most) for k, most in AT_MOST.items() if k in known}
    changes = {**cut, **SHARED, **PER_METHOD.get(name, {}), **options, "seeds": seeds}
    return {k: v for k, v in changes.items() if k in known}
