"""Cells on a Slurm cluster: an array of jobs, each of which goes on from its checkpoint when it is cut.

A cell runs in a process of its own below a job, in the folder of the matrix, which the nodes have to see. Before a job
is pre-empted or its time is up, Slurm sends it a signal; the cell then checkpoints, and the job is put back into the
queue, with or without this command waiting for it. A job that ends in another way is sent again by this command.
"""

from __future__ import annotations

import math
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calql.experiments.cells import Cell
from calql.experiments.folders import CellProgress, held, note_death, prepare, read_progress, write_progress
from calql.experiments.launchers.base import Reporter, StopRequest, Tell, workers_of
from calql.experiments.launchers.launch import kill, launch
from calql.system.errors import UserError
from calql.system.extras import extra
from calql.system.options import require

POLL_S = 0.5
WARNED_S = 120  # before a job's time is up: for its last checkpoint
TAKEOVER_S = 60.0  # a cell whose job was lost notices by itself, and leaves its folder
JOBS = ".slurm"  # below the folder of the cells: what was submitted, and what the jobs said


class SlurmLauncher:
    """Submits cells as one array; `asked` are options of sbatch, `cpus` and `gpus` what one cell takes of a node."""

    def __init__(
        self,
        asked: Sequence[str],
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        jobs: int | None = None,
        retries: int = 3,
        cluster: str = "slurm",
    ) -> None:
        require(gpus == int(gpus), "gpus", gpus, "a whole number with --launcher slurm: its jobs do not share a GPU")
        self.cpus, self.gpus, self.jobs, self.retries = math.ceil(cpus), int(gpus), jobs, retries
        self.asked = options_of_sbatch(asked)
        self.minutes = minutes_of(str(self.asked.pop("time")))
        self.cluster = cluster  # "local" runs jobs as processes of this machine: to try things out

    def run(self, root: Path, cells: Sequence[Cell], stop: StopRequest, tell: Tell) -> None:
        executor, reporter = self._executor(root / JOBS), Reporter(root, len(cells), tell)
        jobs = self._send(executor, [(cell, prepare(root, cell)) for cell in cells])
        number = str(jobs[0].job.job_id).partition("_")[0]
        at_once = min(self.jobs or len(cells), len(cells))
        tell(f"  sent as job {number}, {at_once} cells at once; logs are in {root / JOBS}")
        try:
            while jobs and not stop:
                time.sleep(POLL_S)
                jobs = [job for job in jobs if self._goes_on(executor, job, reporter, tell)]
        finally:
            _end(jobs, stop.grace_s, reporter)

    def _executor(self, folder: Path) -> Any:
        submitit: Any = extra("submitit", "--launcher slurm")
        try:
            made = submitit.AutoExecutor(folder, self.cluster, **{f"{self.cluster}_max_num_timeout": self.retries})
            made.update_parameters(
                name="calql",
                timeout_min=self.minutes,
                cpus_per_task=self.cpus,
                **({"gpus_per_node": self.gpus} if self.gpus else {}),
                **({"slurm_array_parallelism": self.jobs} if self.jobs else {}),
                slurm_signal_delay_s=WARNED_S,
                slurm_additional_parameters=self.asked,
                stderr_to_stdout=True,
            )
        except RuntimeError as error:  # submitit's, of a machine without srun
            mend = "start this command where 'sbatch' works, for example on a login node"
            raise UserError(f"this is no machine of a Slurm cluster ({error})", mend=mend) from None
        return made

    def _send(self, executor: Any, cells: Sequence[tuple[Cell, Path]]) -> list[SubmittedCell]:
        """Several of them as one array."""
        tasks = [CellJob(str(folder), workers_of(cell, self.cpus, on_gpu=self.gpus > 0)) for cell, folder in cells]
        try:
            with executor.batch():
                sent = [executor.submit(task) for task in tasks]
        except subprocess.CalledProcessError as error:
            said = str(error.stderr or error.output or error).strip().splitlines()[-1]
            raise UserError(f"sbatch refused the jobs ({said})", mend="change --slurm, --gpus or --cpus") from None
        return [SubmittedCell(cell, folder, job) for (cell, folder), job in zip(cells, sent, strict=True)]

    def _goes_on(self, executor: Any, job: SubmittedCell, reporter: Reporter, tell: Tell) -> bool:
        """Look at a job; False once its cell has come to an end."""
        if not job.job.done():
            return True
        if read_progress(job.folder).state in ("finished", "failed"):
            reporter.ended(job.cell)
            return False
        job.lost += 1
        if job.lost > self.retries:
            reason = f"its job ended {job.lost} times before it did; see {JOBS}"
            write_progress(job.folder, CellProgress("failed", reason, read_progress(job.folder).seconds))
            reporter.ended(job.cell)
            return False
        tell(f"  {job.cell.id}: its job ended before it did, sent again")
        job.job = self._send(executor, [(job.cell, job.folder)])[0].job
        return True


@dataclass
class SubmittedCell:
    cell: Cell
    folder: Path
    job: Any  # submitit's
    lost: int = 0


class CellJob:
    """What a job does, and what submitit calls when the job is to be put back into the queue."""

    def __init__(self, folder: str, workers: int) -> None:
        self.folder, self.workers = folder, workers
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """The exit code of the cell's process. It is looked at and not waited for: a signal's handler looks too."""
        folder = Path(self.folder)
        self._process = launch(folder, workers=self.workers, wait_s=TAKEOVER_S)
        while (code := self._process.poll()) is None:
            time.sleep(POLL_S)
        note_death(folder, code)
        return code

    def checkpoint(self) -> Any:
        """The cell checkpoints and ends; the job to submit in the place of this one goes on from there."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            until = time.monotonic() + WARNED_S / 2
            while self._process.poll() is None and time.monotonic() < until:
                time.sleep(POLL_S)
            kill(self._process)
        return extra("submitit", "--launcher slurm").helpers.DelayedSubmission(CellJob(self.folder, self.workers))


def _end(jobs: Sequence[SubmittedCell], grace_s: float, reporter: Reporter) -> None:
    """Jobs are cancelled, upon which cells that have begun checkpoint."""
    for job in jobs:
        job.job.cancel(check=False)
    until = time.monotonic() + grace_s
    while any(held(job.folder) for job in jobs) and time.monotonic() < until:
        time.sleep(POLL_S)
    for job in jobs:
        reporter.ended(job.cell)


def options_of_sbatch(words: Sequence[str]) -> dict[str, str | bool]:
    """Given as NAME=VALUE, or as NAME alone where an option has no value; sbatch knows which there are."""
    found: dict[str, str | bool] = {}
    for word in words:
        name, equals, value = word.partition("=")
        found[name.lstrip("-")] = value if equals else True
    if "time" not in found:
        raise UserError("--slurm has no time", mend="say how long a job may take, for example --slurm time=4:00:00")
    for name, option in (("gpus", "--gpus"), ("cpus-per-task", "--cpus"), ("array", "--jobs"), ("signal", "")):
        if name in found:
            mend = (
                f"give {option} instead" if option else f"leave it out: jobs are warned {WARNED_S} s before their end"
            )
            raise UserError(f"--slurm {name} is not yours to set", mend=mend)
    return found


def minutes_of(time: str) -> int:
    """The time limit of a job, which submitit wants to know in minutes: M, H:MM:SS or D-HH:MM:SS."""
    days, _, rest = time.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in (days or "0", *parts)) or len(parts) not in (1, 3):
        mend = "it must be minutes, H:MM:SS or D-HH:MM:SS, as sbatch has it"
        raise UserError(f"--slurm time={time} is no time", mend=mend)
    hours, minutes, seconds = map(int, parts) if len(parts) == 3 else (0, int(parts[0]), 0)
    return max(1440 * int(days or 0) + 60 * hours + minutes + math.ceil(seconds / 60), 1)
