"""The cells of an experiment below one folder: how they stand, what they take, and those run that are not finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calql.experiments.cells import STAND_IN, Cell, CellStatus
from calql.experiments.estimate import Size, assumptions, cost_text, size_of
from calql.experiments.experiment import Experiment
from calql.experiments.folders import progress_of, status
from calql.experiments.launchers.base import Launcher, StopRequest, Tell
from calql.experiments.launchers.machine import Machine
from calql.experiments.scales import Scale

HEADINGS = ("task", "method", "variant", "seeds", "updates", "env steps", "transitions", "minutes", "state")
CELLS = "cells"  # shared by all experiments below one folder: what one has run the next finds done


@dataclass(frozen=True)
class Matrix:
    """The cells of one experiment at one scale, below a folder."""

    experiment: Experiment
    scale: Scale
    cells: Sequence[Cell]
    root: Path
    below: str = CELLS  # where in the root the folders of the cells are

    @property
    def cell_root(self) -> Path:
        return self.root / self.below

    @property
    def out(self) -> Path:
        """Where the table and the report go."""
        return self.root / f"{self.experiment.name}-{self.scale.name}"

    def run(self, launcher: Launcher, stop: StopRequest, tell: Tell) -> None:
        """Every cell that is not finished, each at most once; a failed one is tried again."""
        left = [cell for cell in self.cells if progress_of(self.cell_root, cell).state != "finished"]
        tell(f"{self.experiment.name}, scale {self.scale.name} ({self.scale.how})")
        tell(f"  {len(self.cells)} cells, {len(self.cells) - len(left)} finished before")
        if left:
            launcher.run(self.cell_root, left, stop, tell)

    def statuses(self) -> list[CellStatus]:
        return [status(self.cell_root, cell) for cell in self.cells]


def plan_text(
    matrix: Matrix, machine: Machine, at_once: int, *, apart: bool = False, price: float | None = None
) -> str:
    """What would run: every cell, its size, how long it should take, and what that costs at a price for an hour.

    So many cells at once share the machine, or, `apart`, each has one like it.
    """
    rows, sharing = [HEADINGS], 1 if apart else at_once
    for cell in matrix.cells:
        size, state = size_of(cell), status(matrix.cell_root, cell).state
        minutes = size.seconds(cell, machine, sharing) / 60.0
        sizes = (f"{size.updates:,}", f"{size.env_steps:,}", _transitions(cell, size), f"{minutes:.0f}")
        rows.append((cell.task, cell.method, cell.variant, str(cell.seeds), *sizes, state))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    cost = cost_text(machine, _minutes_left(matrix, machine, sharing) / 60.0 / sharing, price)
    total = left_text(matrix, machine, at_once, apart=apart)
    return "\n".join([*lines, "", f"updates and env steps are over all seeds; {assumptions(machine)}", total, cost])


def left_text(matrix: Matrix, machine: Machine, at_once: int, *, apart: bool = False) -> str:
    """How long all that is not finished should take."""
    left = _minutes_left(matrix, machine, 1 if apart else at_once)
    return f"about {_duration(left / at_once)} for what is left, {at_once} cells at once"


def _minutes_left(matrix: Matrix, machine: Machine, sharing: int) -> float:
    """Of all cells together, where so many share the machine."""
    left = (cell for cell in matrix.cells if status(matrix.cell_root, cell).state != "finished")
    return sum(size_of(cell).seconds(cell, machine, sharing) for cell in left) / 60.0


def _transitions(cell: Cell, size: Size) -> str:
    if size.transitions is None:
        return "stand-in" if cell.data == STAND_IN else "not built"
    return f"{size.transitions:,}"


def outcome_text(statuses: Sequence[CellStatus]) -> str:
    """How many cells came to what, and why some did not."""
    counts = Counter(status.state for status in statuses)
    told = ", ".join(
        f"{counts[state]} {state}" for state in ("finished", "running", "failed", "not run") if counts[state]
    )
    lines = [f"{len(statuses)} cells: {told}"]
    lines += [f"  failed: {s.cell}: {s.reason}" for s in statuses if s.state == "failed"]
    return "\n".join(lines)


def _duration(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
