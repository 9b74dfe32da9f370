"""The training of a cell: begun, or gone on with, in whichever process."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from calql.domains.registry import get_task
from calql.engine.options import RunOptions
from calql.experiments.cells import STAND_IN, TASKS_OWN, Cell
from calql.runs import life, preparation, request
from calql.runs.preparation import Prepared
from calql.runs.request import Choice


def train_cell(
    cell: Cell,
    folder: Path,
    watching: life.Watching,
    here: Mapping[str, Any] = {},
    dataset: Path | None = None,
    prepared: Callable[[Prepared], None] = lambda _: None,
) -> life.Outcome:
    """Train it in this run folder, or go on there.

    `here` are options that suit the machine and change no result; `dataset` stands in for the task's own; `prepared` is
    told what is about to begin.
    """

    def begin() -> life.Outcome:
        return life.start(ready(), folder, watching, command=command_of(cell))

    def ready() -> life.Ready:
        found = preparation.prepare_choice(_choice(cell, dataset), _given(cell, here))
        prepared(found)
        return life.Ready(found)

    return life.start_or_resume(folder, watching, begin)


def options_of(cell: Cell, here: Mapping[str, Any] = {}) -> tuple[RunOptions, Any]:
    """Those of its run and its method."""
    found = request.resolve(_choice(cell), get_task(cell.task), _given(cell, here))
    return found.run, found.options


def _choice(cell: Cell, dataset: Path | None = None) -> Choice:
    named = None if cell.data in (TASKS_OWN, STAND_IN) else cell.data
    return Choice(task=cell.task, method=cell.method, dataset=named if dataset is None else str(dataset))


def _given(cell: Cell, here: Mapping[str, Any]) -> dict[str, Any]:
    return {**cell.options, **here, "seeds": cell.seeds}


def command_of(cell: Cell) -> str:
    """The cell alone, as a command line."""
    words = ["calql", "train", "--task", cell.task, "--method", cell.method, "--seeds", str(cell.seeds)]
    for name, value in sorted(cell.options.items()):
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]
    if cell.data != TASKS_OWN:
        words += ["--dataset", f"{STAND_IN}/{cell.task}.npz" if cell.data == STAND_IN else cell.data]
    return shlex.join(words)
