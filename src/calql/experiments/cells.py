"""A cell: one task, one method, its options and its seeds; one job, one folder, one program."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

State = Literal["finished", "running", "failed", "not run"]

DESCRIPTION, STATE, PROVENANCE, LOG, RUN = "cell.json", "state.json", "provenance.json", "log.txt", "run"
SLICES = "slices.csv"  # of one cell
TASKS_OWN, STAND_IN = "task", "stand-in"  # data: the task's own; a few episodes of random actions, made on the spot
GATHERED = "idea.csv"  # of all, next to the table


@dataclass(frozen=True)
class Cell:
    """What is run. Two experiments that ask for the same get the same cell, whatever they call it."""

    task: str
    method: str
    scale: str
    seeds: int
    options: Mapping[str, Any] = field(default_factory=dict)  # of the run and the method, where not their defaults
    data: str = TASKS_OWN  # or STAND_IN; else a dataset, as `calql train --dataset` has it
    slices: str = ""  # write slices of Q over actions at the end, for this moment of the run
    variant: str = ""  # what tells it from others of its task and method within an experiment
    shortened: str = ""  # how it differs from the paper's protocol, in words
    paper_offline_updates: int = 0  # what that protocol has
    paper_online_steps: int = 0
    home: str = ""  # its folder, where that is the run folder itself and not one named by `id` with the run in it

    @property
    def id(self) -> str:
        """Names the folder: readable parts, then a checksum of everything that decides the result."""
        content = [self.task, self.method, self.scale, self.seeds, self.data, self.slices, sorted(self.options.items())]
        checksum = hashlib.sha256(json.dumps(content, default=list).encode()).hexdigest()[:8]
        return f"{self.task}.{self.method}.{self.scale}.{self.seeds}-seeds.{checksum}"

    def as_json(self) -> str:
        return json.dumps(asdict(self) | {"options": dict(self.options)}, indent=2) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Cell:
        """The cell that a folder was made for."""
        found = json.loads((folder / DESCRIPTION).read_text())
        return cls(**found | {"options": {name: _tuples(value) for name, value in found["options"].items()}})


@dataclass(frozen=True)
class CellStatus:
    """Where a cell stands, for people."""

    cell: str  # its id
    task: str
    method: str
    variant: str
    state: State
    reason: str = ""
    seconds: float = 0.0  # spent on it so far, over all attempts
    shortened: str = ""


def _tuples(value: Any) -> Any:
    """JSON has lists where options have tuples."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
