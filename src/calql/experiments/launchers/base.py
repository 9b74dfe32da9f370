"""What every launcher does: bring cells to their end, or as far as it may, and leave the rest to their folders."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from calql.domains.registry import get_task
from calql.experiments.cells import Cell, CellStatus
from calql.experiments.folders import status

Tell = Callable[[str], None]
MARGIN_S = 90.0  # kept back from --max-minutes: cells checkpoint, then tables and figures are written
REPORT_S = 20.0  # of which for the latter
GRACE_S = 180.0  # for checkpoints, where no deadline presses; beyond it a cell loses what it did since its last one


@dataclass
class StopRequest:
    """Asked for by a signal, or by the clock."""

    deadline: float | None = None  # of time.monotonic, when cells are told to stop
    end: float | None = None  # when all must be over
    asked: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def after(cls, minutes: float | None) -> StopRequest:
        if minutes is None:
            return cls()
        end = time.monotonic() + 60.0 * minutes
        return cls(end - min(MARGIN_S, 0.4 * 60.0 * minutes), end)

    @property
    def grace_s(self) -> float:
        """Time that cells have for their last checkpoint."""
        return GRACE_S if self.end is None else max(self.end - time.monotonic() - REPORT_S, 1.0)

    def __bool__(self) -> bool:
        return self.asked.is_set() or (self.deadline is not None and time.monotonic() >= self.deadline)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C ask for a clean end; a second Ctrl-C ends at once."""

        def note(number: int, _: FrameType | None) -> None:
            if self.asked.is_set() and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.asked.set()

        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Launcher(Protocol):
    """Where cells run."""

    def run(self, root: Path, cells: Sequence[Cell], stop: StopRequest, tell: Tell) -> None:
        """Returns when no cell can go further; a cell that fails does not keep the others."""
        ...


class Reporter:
    """One line for each cell that ends, with how many are left."""

    def __init__(self, root: Path, total: int, tell: Tell) -> None:
        self._root, self._total, self._tell, self._ended = root, total, tell, 0

    def began(self, cell: Cell) -> None:
        self._tell(f"  {_name(cell)}: begins")

    def ended(self, cell: Cell) -> CellStatus:
        self._ended += 1
        found = status(self._root, cell)
        reason = f": {found.reason}" if found.reason else ""
        state = "stopped" if found.state == "running" else found.state
        self._tell(f"  {self._ended}/{self._total} {_name(cell)}: {state} ({found.seconds:.0f} s){reason}")
        return found


def workers_of(cell: Cell, cores: int, *, on_gpu: bool) -> int:
    """Processes that step environments of a cell which has so many cores; results do not depend on it."""
    outside = on_gpu or get_task(cell.task).stepping == "workers"
    return cores if outside and cores > 1 and cell.scale != "smoke" else 0


def _name(cell: Cell) -> str:
    variant = f" [{cell.variant}]" if cell.variant else ""
    return f"{cell.task} {cell.method}{variant}"
