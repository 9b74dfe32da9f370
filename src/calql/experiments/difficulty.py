"""How hard a dataset is: its size, its successes, and what behaviour cloning makes of it in the simulator.

Two sets of one task are as hard as each other where cloning scores alike; the paper's own files are mostly not
public, so this is what ours can be held against. Cloning is `--method bc` at one small scale for every set.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from calql.data.dataset import Dataset
from calql.data.store import COLUMNS, Recipe
from calql.data.store import folder as stored
from calql.domains import datasets as recipes
from calql.experiments.experiment import Arm, Experiment, cells_of
from calql.experiments.launchers.base import StopRequest
from calql.experiments.launchers.here import Here
from calql.experiments.matrix import Matrix
from calql.experiments.paper.claims import PAIR
from calql.experiments.paper.datasets import known_datasets
from calql.experiments.paper.numbers import printed
from calql.experiments.scales import Scale
from calql.experiments.tables import Table
from calql.results.html import TableCell
from calql.results.metrics import write_atomically
from calql.results.runs import read_run
from calql.results.summary import summarise
from calql.runs import life
from calql.system.errors import UserError

FILE = "difficulty.csv"
METHOD = "bc"
WIDTHS = (256, 256)
HEADS = (
    "dataset", "transitions", "trajectories", "successes", "mean return", "cloning",
    "the paper's", "cloning there", "Cal-QL, CQL before there",
)  # fmt: skip


@dataclass(frozen=True)
class Cloning:
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

    @property
    def options(self) -> Mapping[str, Any]:
        """The same network for every set, evaluated at its end."""
        return {
            "offline_updates": self.updates,
            "evaluate_offline_every": self.updates,
            "evaluation_episodes": self.episodes,
            "policy_widths": WIDTHS,
        }


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


def measure(name: str, cloning: Cloning, root: Path, watching: life.Watching = life.Watching()) -> Difficulty:
    """Count what a dataset holds, and clone it; a run that is finished is not run again, a cut one goes on."""
    recipe = recipes.recipe(name)
    if cloning.size is not None and recipe.size is None:
        raise UserError(f"'{name}' has one size", where="--size", mend="leave it out for this dataset")
    if cloning.size is not None:
        recipes.load(name, size=cloning.size)  # builds it: a part of a set is named by its file
    matrix = matrix_of(recipe, cloning, root)
    matrix.run(Here(watching), StopRequest(), lambda _: None)
    (cell,) = matrix.cells
    run, data = read_run(root / cell.home), recipes.load(name, size=cloning.size)
    return _counted(recipe, data, cloning, summarise(run).values("before"), run.config)


def matrix_of(recipe: Recipe, cloning: Cloning, root: Path) -> Matrix:
    """Of one cell, whose folder is its run folder."""
    experiment = Experiment("difficulty", "How hard a dataset is", (recipe.task,), (Arm(METHOD),), cloning.seeds)
    scale = Scale(cloning.label, "behaviour cloning at one small scale", lambda *_: cloning.options)
    named = recipe.name if cloning.size is None else str(stored(recipe.name, 0, cloning.size) / COLUMNS)
    home = f"{recipe.name}.{cloning.label}"
    cells = [replace(cell, data=named, home=home) for cell in cells_of(experiment, scale)]
    return Matrix(experiment, scale, cells, root, below="")


def _counted(
    recipe: Recipe, data: Dataset, cloning: Cloning, scores: Sequence[float], config: Mapping[str, Any]
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
        updates=cloning.updates,
        episodes=cloning.episodes,
        size=cloning.size,
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
    found = [cell.before for method in PAIR if (cell := printed(task, method)) is not None]
    return ", ".join(f"{value:.2f}" for value in found if value is not None)
