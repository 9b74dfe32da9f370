"""From the cells of a table or figure of the paper to its report; nothing is shown that was not run."""

from __future__ import annotations

from pathlib import Path

from calql.experiments.analysis.evaluations import read_results
from calql.experiments.analysis.tidy import TABLE, write_table
from calql.experiments.cells import GATHERED, Cell, CellStatus, State
from calql.experiments.experiment import Experiment, cells_of
from calql.experiments.matrix import Matrix
from calql.experiments.pages.page import render
from calql.experiments.scales import find_scale
from calql.experiments.slices import gather_slices
from calql.system.errors import UserError


def report(matrix: Matrix) -> Path:
    """The tidy table of a matrix, and everything made from it."""
    name, out = matrix.experiment.name, matrix.out
    table = write_table(name, matrix.cells, matrix.cell_root, out / TABLE)
    gather_slices(matrix.cells, matrix.cell_root, out / GATHERED)
    return render(name, table, out, status=matrix.statuses())


def draw(experiment: Experiment, table: Path, root: Path) -> Path:
    """Everything that is made from a tidy table, from one that was written elsewhere."""
    results = read_results(table)
    if not results:
        raise UserError("a table without rows", where=str(table), mend="give one that 'calql reproduce' wrote")
    scale = find_scale(results[0].scale, where=str(table))
    finished = {result.key: result.finished for result in results}

    def stands(cell: Cell) -> CellStatus:
        key = cell.task, cell.method, cell.variant
        state: State = "not run" if key not in finished else "finished" if finished[key] else "running"
        reason = "unfinished in this table" if state == "running" else ""
        return CellStatus(cell.id, *key, state, reason, shortened=cell.shortened)

    status = [stands(cell) for cell in cells_of(experiment, scale)]
    return render(experiment.name, table, root / f"{experiment.name}-{scale.name}", status=status)
