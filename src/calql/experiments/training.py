"""The training of a cell: begun, or gone on with, in whichever process."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from calql.engine.options import RunOptions
from calql.experiments.cells import Cell
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
        experiment = _experiment(cell, here, dataset)
        prepared(experiment)
        return life.Ready(experiment)

    return life.start_or_resume(folder, watching, begin)


def options_of(cell: Cell, here: Mapping[str, Any] = {}) -> tuple[RunOptions, Any]:
    """Those of its run and its method."""
    choice = Choice(task=cell.task, method=cell.method)
    usual = request.defaults(choice, request.resolve_task(choice)[0])
    return request.set_options(*usual, {**cell.options, **here, "seeds": cell.seeds}, cell.method)


def _experiment(cell: Cell, here: Mapping[str, Any], dataset: Path | None) -> Prepared:
    choice = Choice(task=cell.task, method=cell.method, dataset=None if dataset is None else str(dataset))
    task, data, notes = request.resolve_task(choice)
    run, learner = options_of(cell, here)
    if dataset is not None:
        task = replace(task, held_out=None)
    return preparation.prepare(choice, task, data, run, learner, notes)


def command_of(cell: Cell) -> str:
    """The cell alone, as a command line."""
    words = ["calql", "train", "--task", cell.task, "--method", cell.method, "--seeds", str(cell.seeds)]
    for name, value in sorted(cell.options.items()):
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]
    if cell.data == "stand-in":
        words += ["--dataset", f"stand-in/{cell.task}.npz"]
    return shlex.join(words)
