"""Cells as processes on one machine: several at once, so that its cores and its GPU are full."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calql.experiments.cells import Cell
from calql.experiments.folders import note_death, prepare
from calql.experiments.launchers.base import Reporter, StopRequest, Tell, workers_of
from calql.experiments.launchers.launch import kill, launch
from calql.experiments.launchers.machine import Machine, this_machine

POLL_S = 0.1


@dataclass
class RunningCell:
    cell: Cell
    folder: Path
    process: subprocess.Popen[bytes]
    gpu: str | None


class LocalLauncher:
    """Fills this machine; `jobs` cells at once."""

    def __init__(self, jobs: int | None = None, machine: Machine | None = None) -> None:
        self.machine = machine or this_machine()
        self.jobs = jobs or self.machine.jobs

    def run(self, root: Path, cells: Sequence[Cell], stop: StopRequest, tell: Tell) -> None:
        waiting, jobs = list(cells), list[RunningCell]()
        reporter = Reporter(root, len(waiting), tell)
        at_once = min(self.jobs, max(len(waiting), 1))
        try:
            while (waiting or jobs) and not stop:
                while waiting and len(jobs) < at_once:
                    jobs.append(self._start(root, waiting.pop(0), at_once, self._free_gpu(jobs)))
                    reporter.began(jobs[-1].cell)
                time.sleep(POLL_S)
                jobs = self._reap(jobs, reporter)
            if jobs:
                tell(f"  stopping {len(jobs)} cells at their next checkpoint")
                self._end(jobs, stop.grace_s, reporter)
        finally:
            for job in jobs:
                kill(job.process)

    def _free_gpu(self, jobs: Sequence[RunningCell]) -> str | None:
        """The GPU with the fewest cells on it."""
        in_use = [job.gpu for job in jobs]
        return min(self.machine.gpus, key=in_use.count, default=None)

    def _start(self, root: Path, cell: Cell, at_once: int, gpu: str | None) -> RunningCell:
        folder = prepare(root, cell)
        workers = workers_of(cell, self.machine.cores // at_once, on_gpu=gpu is not None)
        sharing = -(-at_once // max(len(self.machine.gpus), 1))
        process = launch(folder, workers=workers, gpu=gpu, sharing=sharing)
        return RunningCell(cell, folder, process, gpu)

    def _reap(self, jobs: Sequence[RunningCell], reporter: Reporter) -> list[RunningCell]:
        """Jobs that go on; those that ended are reported."""
        for job in jobs:
            if job.process.poll() is not None:
                note_death(job.folder, job.process.returncode)
                reporter.ended(job.cell)
        return [job for job in jobs if job.process.returncode is None]

    def _end(self, jobs: Sequence[RunningCell], grace_s: float, reporter: Reporter) -> None:
        for job in jobs:
            job.process.terminate()
        until = time.monotonic() + grace_s
        while jobs and time.monotonic() < until:
            time.sleep(POLL_S)
            jobs = self._reap(jobs, reporter)
        for job in jobs:
            kill(job.process)
            reporter.ended(job.cell)
