"""Run cells sequentially in this process: for small ones, which would spend their time on starting processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calql.experiments.cells import Cell
from calql.experiments.launchers.base import StopRequest, Tell
from calql.experiments.training import train_cell
from calql.runs import life
from calql.runs.stops import Stopped


class Here:
    """Of cells whose folder is their run folder."""

    def __init__(self, watching: life.Watching) -> None:
        self._watching = watching

    def run(self, root: Path, cells: Sequence[Cell], stop: StopRequest, tell: Tell) -> None:
        for number, cell in enumerate(cells, start=1):
            if stop:
                return
            tell(f"  {number}/{len(cells)} {cell.home}")
            outcome = train_cell(cell, root / cell.home, self._watching)
            if not outcome.finished:
                raise Stopped(
                    outcome.stopped_by or "SIGTERM", f"{cell.home} is unfinished; go on with the same command"
                )
