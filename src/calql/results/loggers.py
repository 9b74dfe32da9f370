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

    def write(self, rows: Sequence[Row]) -> None:
        """Rows of one evaluation, all seeds."""
        ...

    def close(self) -> None:
        """Flush and let go."""
        ...


class TensorBoard:
    """One event folder per seed under the run folder; the step is the gradient step."""

    def __init__(self, folder: Path, *, resumed_at: int | None = None) -> None:
        self._module = _require("tensorboardX", "calql[tensorboard]")
        self._folder, self._resumed_at = folder, resumed_at
        self._writers: dict[int, Any] = {}

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            writer = self._writer(int(row["seed"]))
            for name, value in numbers(row):
                writer.add_scalar(name, value, int(row["update"]))
            writer.flush()

    def _writer(self, seed: int) -> Any:
        """Opened at the seed's first row; after a resume, later steps of the killed run are hidden."""
        if seed not in self._writers:
            purge = None if self._resumed_at is None else self._resumed_at + 1
            self._writers[seed] = self._module.SummaryWriter(str(self._folder / f"seed-{seed}"), purge_step=purge)
        return self._writers[seed]

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

    def write(self, rows: Sequence[Row]) -> None:
        self._run.log({f"seed-{row['seed']}/{name}": value for row in rows for name, value in numbers(row)})

    def close(self) -> None:
        self._run.finish()


def make_sinks(
    run_folder: Path, tensorboard: bool, wandb: bool, config: Mapping[str, Any], *, resumed_at: int | None = None
) -> list[Sink]:
    """The sinks that were asked for. `resumed_at`: gradient step of the checkpoint that a resumed run starts from."""
    sinks: list[Sink] = []
    if tensorboard:
        sinks.append(TensorBoard(run_folder / "tensorboard", resumed_at=resumed_at))
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
