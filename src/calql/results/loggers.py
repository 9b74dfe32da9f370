"""Optional sinks for the same rows that go to metrics.jsonl: TensorBoard and Weights & Biases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from calql.results.arms import ARM, Member, member_of
from calql.results.metrics import Row, plain
from calql.system.extras import extra
from calql.system.run_files import TENSORBOARD

KEYS = ("seed", ARM, "phase", "switch")  # what says which row it is, not what was measured


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
        self._module = extra("tensorboardX", "--tensorboard")
        self._folder = folder
        self._writers: dict[Member, Any] = {}
        self._before: Sequence[Row] = ()

    def go_on_after(self, rows: Sequence[Row]) -> None:
        self._before = rows

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            member = member_of(row)
            if member not in self._writers:
                self._writers[member] = self._opened(member)
            self._add(self._writers[member], row)
            self._writers[member].flush()

    def _opened(self, member: Member) -> Any:
        """A new file with what counts of the rows that other processes wrote; theirs goes."""
        folder = self._folder / _heading(member)
        for old in folder.glob("events.out.tfevents*"):
            old.unlink()
        writer = self._module.SummaryWriter(str(folder))
        for row in self._before:
            if member_of(row) == member:
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
        module = extra("wandb", "--wandb")
        name = folder.resolve().name
        self._run = module.init(
            project="calql", name=name, id=name, resume="allow", dir=str(folder), config=plain(config)
        )

    def go_on_after(self, rows: Sequence[Row]) -> None:
        """What was logged stays: a run there only grows."""

    def write(self, rows: Sequence[Row]) -> None:
        self._run.log({f"{_heading(member_of(row))}/{name}": value for row in rows for name, value in numbers(row)})

    def close(self) -> None:
        self._run.finish()


def make_sinks(run_folder: Path, tensorboard: bool, wandb: bool, config: Mapping[str, Any]) -> list[Sink]:
    """The sinks that were asked for."""
    sinks: list[Sink] = []
    if tensorboard:
        sinks.append(TensorBoard(run_folder / TENSORBOARD))
    if wandb:
        sinks.append(WeightsAndBiases(run_folder, config))
    return sinks


def _heading(member: Member) -> str:
    return f"seed-{member}" if isinstance(member, int) else f"{member[0]}/seed-{member[1]}"


def numbers(row: Row) -> Iterator[tuple[str, float]]:
    """The measured columns of a row that have a value."""
    for name, value in row.items():
        value = plain(value)
        if name not in KEYS and isinstance(value, int | float):
            yield name, float(value)
