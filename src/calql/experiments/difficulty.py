"""How hard a dataset is: its size, its successes, and what behaviour cloning makes of it in the simulator.

Two sets of one task are as hard as each other where cloning scores alike; the paper's own files are mostly not
public, so this is what ours can be held against. Cloning is `--method bc` at one small scale for every set.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calql.data.dataset import Dataset
from calql.data.store import COLUMNS, Recipe
from calql.data.store import folder as stored
from calql.domains import datasets as recipes
from calql.domains.registry import get_task
from calql.experiments.paper.datasets import known_datasets
from calql.experiments.paper.numbers import locomotion_table, main_table
from calql.experiments.tables import Table
from calql.results.html import TableCell
from calql.results.metrics import write_atomically
from calql.results.runs import read_run
from calql.results.summary import summarise
from calql.runs import life, preparation, request
from calql.runs.request import Choice
from calql.system.errors import UserError

FILE = "difficulty.csv"
METHOD = "bc"
WIDTHS = (256, 256)
HEADS = (
    "dataset", "transitions", "trajectories", "successes", "mean return", "cloning",
    "the paper's", "cloning there", "Cal-QL, CQL before there",
)  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """How long cloning trains, and how it is measured."""

    updates: int = 10_000
    seeds: int = 3
    episodes: int = 20
    size: int | None = None  # transitions, where the recipe has a size; None: the whole set

    @property
    def label(self) -> str:
        """Part of the run folder's name: another scale is another run."""
        size = f"-{self.size}" if self.size else ""
        return f"{self.updates}-updates-{self.seeds}-seeds-{self.episodes}-episodes{size}"


@dataclass(frozen=True)
class Difficulty:
    """What is said of one dataset."""

    dataset: str
    task: str
    transitions: int
    trajectories: int
    successes: int | None  # None: the set has no notion of one
    mean_return: float  # undiscounted, over stretches between ends
    scores: tuple[float, ...]  # of cloning, a seed each
    updates: int
    episodes: int  # of an evaluation, each seed
    size: int | None
    commit: str
    notes: str

    @property
    def spread(self) -> float:
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else 0.0


def measure(name: str, scale: Scale, root: Path, watching: life.Watching = life.Watching()) -> Difficulty:
    """Count what a dataset holds, and clone it; a run that is finished is not run again, a cut one goes on."""
    recipe = recipes.recipe(name)
    if scale.size is not None and recipe.size is None:
        raise UserError(f"'{name}' has one size", where="--size", mend="leave it out for this dataset")
    data = recipes.load(name, size=scale.size)
    out = root / f"{name}.{scale.label}"
    outcome = life.start_or_resume(out, watching, lambda: _clone(recipe, data, scale, out, watching))
    if not outcome.finished:
        raise UserError("behaviour cloning was stopped", where=str(out), mend="give the same command again to go on")
    run = read_run(out)
    return _counted(recipe, data, scale, summarise(run).values("before"), run.config)


def _clone(recipe: Recipe, data: Dataset, scale: Scale, out: Path, watching: life.Watching) -> life.Outcome:
    """`--method bc` with the same network for every set, evaluated at its end."""
    named = recipe.name if scale.size is None else str(stored(recipe.name, 0, scale.size) / COLUMNS)
    choice = Choice(task=recipe.task, method=METHOD, dataset=named)
    task = get_task(recipe.task)
    options = {
        "seeds": scale.seeds,
        "offline_updates": scale.updates,
        "evaluate_offline_every": scale.updates,
        "evaluation_episodes": scale.episodes,
        "policy_widths": WIDTHS,
    }
    run, learner = request.set_options(*request.defaults(choice, task), options, METHOD)
    prepared = preparation.prepare(choice, task, data, run, learner, [], probe=False)
    return life.start(life.Ready(prepared), out, watching, command=f"calql data difficulty {recipe.name}")


def _counted(
    recipe: Recipe, data: Dataset, scale: Scale, scores: Sequence[float], config: Mapping[str, Any]
) -> Difficulty:
    flags = None if recipe.success is None else recipe.success(data)
    returns = np.add.reduceat(data.rewards.astype(np.float64), data.episode_starts)
    return Difficulty(
        dataset=recipe.name,
        task=recipe.task,
        transitions=len(data),
        trajectories=len(data.episode_ends) if flags is None else len(flags),
        successes=None if flags is None else int(np.sum(flags)),
        mean_return=float(returns.mean()),
        scores=tuple(scores),
        updates=scale.updates,
        episodes=scale.episodes,
        size=scale.size,
        commit=str(config.get("versions", {}).get("commit", "")),
        notes="; ".join(data.notes),
    )


def write(found: Sequence[Difficulty], path: Path) -> list[Difficulty]:
    """Add to the file, in place of what it has of the same sets; gives back all that is in it."""
    kept = {each.dataset: each for each in (*(read(path) if path.is_file() else ()), *found)}
    text = io.StringIO()
    writer = csv.DictWriter(text, tuple(Difficulty.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**vars(each), "scores": " ".join(map(str, each.scores))} for each in kept.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue())
    return list(kept.values())


def read(path: Path) -> list[Difficulty]:
    with path.open(newline="", encoding="utf-8") as file:
        try:
            return [_read(row) for row in csv.DictReader(file)]
        except (KeyError, ValueError, TypeError):
            raise UserError(f"is no {FILE}", where=str(path), mend="give another --out, or remove it") from None


def _read(row: Mapping[str, str]) -> Difficulty:
    return Difficulty(
        dataset=row["dataset"],
        task=row["task"],
        transitions=int(row["transitions"]),
        trajectories=int(row["trajectories"]),
        successes=int(row["successes"]) if row["successes"] else None,
        mean_return=float(row["mean_return"]),
        scores=tuple(map(float, row["scores"].split())),
        updates=int(row["updates"]),
        episodes=int(row["episodes"]),
        size=int(row["size"]) if row["size"] else None,
        commit=row["commit"],
        notes=row["notes"],
    )


def table(found: Sequence[Difficulty]) -> Table:
    """One line a dataset, what is known of the paper's beside it; compositions of a task stand together."""
    note = (
        f"Cloning: mean ± standard deviation over seeds of the score of --method bc (policy {WIDTHS[0]}-{WIDTHS[1]}) "
        "without fine-tuning. Of the paper's sets only what its text and public sources say; cloning there is that of "
        "D4RL's files in CORL's benchmark, scores before fine-tuning are the paper's."
    )
    return Table("data", "Datasets", HEADS, [_line(each) for each in found], note=note)


def _line(each: Difficulty) -> list[TableCell]:
    known = known_datasets().get(each.task) if each.dataset == each.task else None
    return [
        TableCell(each.dataset),
        TableCell(f"{each.transitions:,}{' (a part)' if each.size else ''}", value=each.transitions),
        TableCell(f"{each.trajectories:,}", value=each.trajectories),
        TableCell("" if each.successes is None else f"{each.successes:,}", value=each.successes),
        TableCell(f"{each.mean_return:.1f}", value=each.mean_return),
        TableCell(f"{np.mean(each.scores):.2f} ± {each.spread:.2f}", value=float(np.mean(each.scores))),
        TableCell("" if known is None else known.data),
        TableCell("" if known is None or known.cloning is None else f"{known.cloning:.2f}"),
        TableCell("" if known is None else _before(each.task)),
    ]


def _before(task: str) -> str:
    """What the paper has before fine-tuning."""
    cells = {**main_table().cells, **locomotion_table().cells}
    found = [cell.before for method in ("cal-ql", "cql") if (cell := cells.get((task, method))) is not None]
    return ", ".join(f"{value:.2f}" for value in found if value is not None)
