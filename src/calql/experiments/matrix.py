"""The cells of an experiment below one folder: how they stand, what they take, and those run that are not finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
    rows, sharing, left = [HEADINGS], 1 if apart else at_once, 0.0
    for cell, size, state, minutes in _plan(matrix, machine, sharing):
        left += 0.0 if state == "finished" else minutes
        sizes = (f"{size.updates:,}", f"{size.env_steps:,}", _transitions(cell, size), f"{minutes:.0f}")
        rows.append((cell.task, cell.method, cell.variant, str(cell.seeds), *sizes, state))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    total, cost = _total(left, at_once), cost_text(machine, left / 60.0 / sharing, price)
    return "\n".join([*lines, "", f"updates and env steps are over all seeds; {assumptions(machine)}", total, cost])


def left_text(matrix: Matrix, machine: Machine, at_once: int) -> str:
    """How long all that is not finished should take, so many cells at once on this machine."""
    planned = _plan(matrix, machine, at_once)
    return _total(sum(minutes for _, _, state, minutes in planned if state != "finished"), at_once)


def _plan(matrix: Matrix, machine: Machine, sharing: int) -> Iterator[tuple[Cell, Size, str, float]]:
    """Every cell, its size, its state, and the minutes that it takes where so many share the machine."""
    for cell in matrix.cells:
        size = size_of(cell)
        yield cell, size, status(matrix.cell_root, cell).state, size.seconds(cell, machine, sharing) / 60.0


def _total(minutes: float, at_once: int) -> str:
    return f"about {_duration(minutes / at_once)} for what is left, {at_once} cells at once"


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
