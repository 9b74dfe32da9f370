"""Optional sinks for the same rows that go to metrics.jsonl: TensorBoard and Weights & Biases."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from calql.errors import UserError
from calql.results.metrics import Row, plain

KEYS = ("seed", "phase", "switch")  # what says which row it is, not what was measured


class Sink(Protocol):
    """Where rows go besides the run folder."""

    def go_on_after(self, rows: Sequence[Row]) -> None:
        """The rows that a resumed run has already; any others of it were cut off and will come again."""
        ...

    def write(self, rows: Sequence[Row]) -> None:
        """Rows of one evaluation, all seeds."""
        ...

    def close(self) -> None:
        """Flush and let go."""
        ...


class TensorBoard:
    """One event folder per seed under the run folder; the step is the gradient step.

    Event files can only be added to, and a killed run has written rows that its checkpoint knows nothing of. So a
    process writes its seeds' files anew, from the rows that count, before it adds its own.
    """

    def __init__(self, folder: Path) -> None:
        self._module = _require("tensorboardX", "calql[tensorboard]")
        self._folder = folder
        self._writers: dict[int, Any] = {}
        self._before: Sequence[Row] = ()

    def go_on_after(self, rows: Sequence[Row]) -> None:
        self._before = rows

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            seed = int(row["seed"])
            if seed not in self._writers:
                self._writers[seed] = self._opened(seed)
            self._add(self._writers[seed], row)
            self._writers[seed].flush()

    def _opened(self, seed: int) -> Any:
        """A new file with what counts of the rows that other processes wrote; theirs goes."""
        folder = self._folder / f"seed-{seed}"
        for old in folder.glob("events.out.tfevents*"):
            old.unlink()
        writer = self._module.SummaryWriter(str(folder))
        for row in self._before:
            if row["seed"] == seed:
                self._add(writer, row)
        return writer

    def _add(self, writer: Any, row: Row) -> None:
        for name, value in numbers(row):
            writer.add_scalar(name, value, int(row["update"]))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class WeightsAndBiases:
    """One run; the columns of a seed under its name."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        module = _require("wandb", "calql[wandb]")
        name = folder.resolve().name
        self._run = module.init(
            project="calql", name=name, id=name, resume="allow", dir=str(folder), config=plain(config)
        )

    def go_on_after(self, rows: Sequence[Row]) -> None:
        """What was logged stays: a run there only grows."""

    def write(self, rows: Sequence[Row]) -> None:
        self._run.log({f"seed-{row['seed']}/{name}": value for row in rows for name, value in numbers(row)})

    def close(self) -> None:
        self._run.finish()


def make_sinks(run_folder: Path, tensorboard: bool, wandb: bool, config: Mapping[str, Any]) -> list[Sink]:
    """The sinks that were asked for."""
    sinks: list[Sink] = []
    if tensorboard:
        sinks.append(TensorBoard(run_folder / "tensorboard"))
    if wandb:
        sinks.append(WeightsAndBiases(run_folder, config))
    return sinks


def numbers(row: Row) -> Iterator[tuple[str, float]]:
    """The measured columns of a row that have a value."""
    for name, value in row.items():
        value = plain(value)
        if name not in KEYS and isinstance(value, int | float):
            yield name, float(value)


def _require(module: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"the package {module} is not installed", mend=f"pip install '{extra}'") from None
