"""Cells on a Ray cluster: a share of a GPU each, sent elsewhere when their worker is lost.

A cell runs in a process of its own below a Ray actor. Where the node sees the folder of the matrix (a shared file
system), the cell works in it. Where it does not, the actor works in a folder of its node, and whenever there is a
new checkpoint the cell's folder travels back through Ray as one archive. Either way the newest checkpoint is with the
matrix, and another node goes on from it.
"""

from __future__ import annotations

import io
import logging
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from calql.engine.checkpoint import whole
from calql.experiments.cells import RUN, Cell
from calql.experiments.folders import CellProgress, note_death, prepare, read_progress, write_progress
from calql.experiments.launchers.base import Reporter, StopRequest, Tell, workers_of
from calql.experiments.launchers.launch import kill, launch
from calql.system.errors import UserError
from calql.system.extras import extra
from calql.system.run_files import CHECKPOINTS, LOCK

POLL_S = 1.0
TAKEOVER_S = 60.0  # a cell whose worker was lost notices by itself, and leaves its folder
Snapshot = bytes | None


class RayLauncher:
    """Sends cells to an existing cluster; `gpus` and `cpus` are what one cell takes of a node."""

    def __init__(
        self, address: str = "auto", *, cpus: float = 1.0, gpus: float = 0.0, retries: int = 3, share: bool = True
    ) -> None:
        self.address, self.cpus, self.gpus, self.retries = address, cpus, gpus, retries
        self.share = share  # use a shared file system where there is one

    def run(self, root: Path, cells: Sequence[Cell], stop: StopRequest, tell: Tell) -> None:
        ray = _ray(self.address)
        reporter = Reporter(root, len(cells), tell)
        root.mkdir(parents=True, exist_ok=True)
        marker = root / f".matrix-{uuid4().hex}"  # a node that sees it sees the folder
        marker.touch()
        jobs = [self._send(ray, prepare(root, cell), cell, marker) for cell in cells]
        try:
            while jobs and not stop:
                time.sleep(POLL_S)
                jobs = [job for job in jobs if self._goes_on(ray, job, marker, reporter, tell)]
            self._end(ray, jobs, stop.grace_s, reporter)
        finally:
            marker.unlink(missing_ok=True)
            for job in jobs:
                ray.kill(job.actor)

    def _send(self, ray: Any, folder: Path, cell: Cell, marker: Path, lost: int = 0) -> SentCell:
        """A new actor; what was done so far goes along where the node may not see it."""
        kind = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0)(CellActor)
        seen, sharing = str(marker) if self.share else "", round(1 / self.gpus) if 0 < self.gpus < 1 else 1
        workers = workers_of(cell, int(self.cpus), on_gpu=self.gpus > 0)
        actor = kind.remote(str(folder), seen, pack(folder), workers, sharing)
        return SentCell(cell, folder, actor, actor.look.remote(), lost)

    def _goes_on(self, ray: Any, job: SentCell, marker: Path, reporter: Reporter, tell: Tell) -> bool:
        """Look at a job; False once it has ended."""
        ready, _ = ray.wait([job.looking], timeout=0)
        if not ready:
            return True  # it waits for room on the cluster, or is being looked at
        try:
            found: Look = ray.get(job.looking)
        except ray.exceptions.RayError as error:
            return self._again(ray, job, marker, reporter, tell, error)
        job.take(found)
        if found.code is None:
            job.looking = job.actor.look.remote()
            return True
        note_death(job.folder, found.code)
        ray.kill(job.actor)
        reporter.ended(job.cell)
        return False

    def _again(self, ray: Any, job: SentCell, marker: Path, reporter: Reporter, tell: Tell, error: Exception) -> bool:
        """The worker is lost: send the cell elsewhere from its newest checkpoint, but not for ever."""
        job.lost += 1
        if job.lost > self.retries:
            seconds = read_progress(job.folder).seconds
            reason = f"its worker was lost {job.lost} times, last: {type(error).__name__}"
            write_progress(job.folder, CellProgress("failed", reason, seconds))
            reporter.ended(job.cell)
            return False
        tell(f"  {job.cell.id}: worker lost ({type(error).__name__}), sent elsewhere")
        fresh = self._send(ray, job.folder, job.cell, marker, job.lost)
        job.actor, job.looking = fresh.actor, fresh.looking
        return True

    def _end(self, ray: Any, jobs: Sequence[SentCell], grace_s: float, reporter: Reporter) -> None:
        """Every cell that began checkpoints and ends; those that never got room are simply not sent."""
        endings = {job.actor.end.remote(grace_s): job for job in jobs}
        if not endings:
            return
        done, _ = ray.wait(list(endings), num_returns=len(endings), timeout=grace_s + 5.0)
        for ending in done:
            try:
                endings[ending].take(ray.get(ending))
            except ray.exceptions.RayError:
                continue  # lost at the last moment: its newest checkpoint is here already
        for job in jobs:
            reporter.ended(job.cell)


@dataclass(frozen=True)
class Look:
    """What an actor tells: the exit code of the cell's process, if it has ended, and news of its folder."""

    code: int | None
    snapshot: Snapshot = None


@dataclass
class SentCell:
    cell: Cell
    folder: Path
    actor: Any
    looking: Any  # the answer that is on its way
    lost: int = 0

    def take(self, found: Look) -> None:
        if found.snapshot is not None:
            unpack(found.snapshot, self.folder)


class CellActor:
    """On a node of the cluster: starts the process of a cell, and brings back what it writes."""

    def __init__(self, folder: str, marker: str, snapshot: Snapshot, workers: int, sharing: int) -> None:
        self._ships = not (marker and Path(marker).exists())
        self._folder = Path(folder)
        if self._ships:
            self._own = tempfile.TemporaryDirectory(prefix="calql-cell-")
            self._folder = Path(self._own.name) / self._folder.name
            self._folder.mkdir()
            if snapshot is not None:
                unpack(snapshot, self._folder)
        self._shipped = _checkpoints(self._folder)
        self._process = launch(self._folder, workers=workers, sharing=sharing, wait_s=TAKEOVER_S)

    def look(self) -> Look:
        code = self._process.poll()
        found = Look(code, self._news(last=code is not None))
        if code is not None and self._ships:
            self._own.cleanup()
        return found

    def end(self, grace_s: float) -> Look:
        """Ask for a checkpoint and wait for it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            kill(self._process)
        return self.look()

    def _news(self, *, last: bool) -> Snapshot:
        """The folder, when a checkpoint has come since it was last sent, and at the end."""
        present = _checkpoints(self._folder)
        if not self._ships or (present == self._shipped and not last):
            return None
        try:
            snapshot = pack(self._folder)
        except FileNotFoundError:
            return None  # an old checkpoint made room for a new one meanwhile: there will be another look
        self._shipped = present
        return snapshot


def pack(folder: Path) -> bytes:
    """A cell's folder as one archive.

    Checkpoints go first: rows of metrics that a checkpoint does not know yet are cut off when it goes on, but none
    that it knows may be missing.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        checkpoints = folder / RUN / CHECKPOINTS
        for path in sorted(whole(checkpoints)):
            tar.add(path, path.relative_to(folder).as_posix())
        for path in sorted(folder.rglob("*")):
            if path.is_file() and checkpoints not in path.parents and path.name != LOCK:
                tar.add(path, path.relative_to(folder).as_posix())
    return archive.getvalue()


def unpack(snapshot: bytes, folder: Path) -> None:
    """Put an archive in place: checkpoints that it holds are added, other files replaced."""
    with tarfile.open(fileobj=io.BytesIO(snapshot)) as tar:
        tar.extractall(folder, filter="data")


def _checkpoints(folder: Path) -> frozenset[str]:
    return frozenset(path.name for path in whole(folder / RUN / CHECKPOINTS))


def _ray(address: str) -> Any:
    ray: Any = extra("ray", "--launcher ray")
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError) as error:
            raise UserError(
                f"no Ray cluster answers ({str(error).splitlines()[0]})",
                where=f"--address {address}",
                mend="start one with 'ray start --head', and name it with --address",
            ) from None
    return ray
