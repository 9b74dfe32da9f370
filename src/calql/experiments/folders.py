"""The folder of a cell: what it is for, how far it came, and who is at work in it.

    cell.json        what is run
    state.json       how far it came, and why it went no further
    provenance.json  what its data were
    log.txt          what its process said
    run/             the run folder, as `calql train` makes it

No file names a place outside the folder that reading results would need, so it can be copied to another machine.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calql.experiments.cells import DESCRIPTION, LOG, RUN, STATE, Cell, CellStatus, State
from calql.results.metrics import write_atomically
from calql.runs.folder import finished
from calql.runs.stops import CODES
from calql.system.locks import taken
from calql.system.run_files import CONFIG, LOCK

BUSY = 3  # exit code of a process that found somebody else at work


@dataclass(frozen=True)
class CellProgress:
    """How far a cell came; `seconds` over all attempts."""

    state: State = "not run"
    reason: str = ""
    seconds: float = 0.0


def prepare(root: Path, cell: Cell) -> Path:
    """The folder of a cell below `root`, made where it is not there yet."""
    folder = root / cell.id
    if not (folder / DESCRIPTION).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / DESCRIPTION, cell.as_json())
    return folder


def read_progress(folder: Path) -> CellProgress:
    """What state.json says; a cell whose process was killed is still 'running' there."""
    try:
        return CellProgress(**json.loads((folder / STATE).read_text()))
    except FileNotFoundError:
        return CellProgress()


def write_progress(folder: Path, progress: CellProgress) -> None:
    write_atomically(folder / STATE, json.dumps(vars(progress)) + "\n")


def note_death(folder: Path, code: int) -> None:
    """A process that died without a word (a crash, out of memory) leaves its cell 'running': say that it failed."""
    found = read_progress(folder)
    told = found.state in ("failed", "finished") or bool(found.reason)
    if not told and code not in (0, BUSY, -signal.SIGTERM, *CODES.values()):
        write_progress(folder, CellProgress("failed", f"its process died ({_how(code)}); see {LOG}", found.seconds))


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def progress_of(root: Path, cell: Cell) -> CellProgress:
    """How far a cell came; one that is its run folder has no state of its own beside the run's."""
    if not cell.home:
        return read_progress(root / cell.id)
    if not (root / cell.home / CONFIG).is_file():
        return CellProgress()
    if finished(root / cell.home):
        return CellProgress("finished")
    return CellProgress("running", "unfinished; it goes on when called again")


def status(root: Path, cell: Cell) -> CellStatus:
    """Where a cell stands, in words that say what will happen to it."""
    found = progress_of(root, cell)
    reason = found.reason
    if found.state == "running" and not reason:
        reason = "at work" if held(root / cell.id) else "its process ended before it did; it goes on when called again"
    return CellStatus(
        cell.id, cell.task, cell.method, cell.variant, found.state, reason, round(found.seconds, 1), cell.shortened
    )


def run_folder(folder: Path) -> Path:
    return folder / RUN


@contextlib.contextmanager
def at_work(folder: Path, wait_s: float = 0.0) -> Iterator[bool]:
    """Hold the folder while working in it; False where somebody else still does after the wait."""
    until = time.monotonic() + wait_s
    with (folder / LOCK).open("a") as lock:
        while not (free := taken(lock.fileno()) is not False) and time.monotonic() < until:
            time.sleep(0.5)
        yield free


def held(folder: Path) -> bool:
    """Whether somebody is at work in it."""
    with at_work(folder) as free:
        return not free
