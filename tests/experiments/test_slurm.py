"""Cells as jobs of submitit: run by its local executor, cut in the middle as Slurm would, and what sbatch is given."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reproduce_cells import tiny_cell

from calql.cli import main
from calql.engine.checkpoint import whole
from calql.experiments.folders import CellProgress, at_work, prepare, read_progress, status, write_progress
from calql.experiments.launchers.base import Reporter, StopRequest
from calql.experiments.launchers.local import LocalLauncher
from calql.experiments.launchers.slurm import JOBS, SlurmLauncher, SubmittedCell, minutes_of
from calql.system.errors import UserError

CELL = tiny_cell("cal-ql", online_steps=400)


@pytest.fixture
def submitit() -> Any:
    return pytest.importorskip("submitit", reason="the extra 'slurm' is not installed")


@pytest.mark.slow
def test_a_cell_that_is_cut_goes_on_in_the_next_job_to_the_bytes_of_the_local_launcher(
    submitit: Any, tmp_path: Path
) -> None:
    """The signal of a pre-emption comes after the first checkpoints; the executor starts the job again by itself."""
    root, told = tmp_path / "slurm", list[str]()
    launcher = SlurmLauncher(["time=10"], cluster="local")
    matrix = threading.Thread(target=launcher.run, args=(root, [CELL], StopRequest(), told.append))
    matrix.start()
    _wait_until(lambda: bool(whole(root / CELL.id / "run" / "checkpoints")) or not matrix.is_alive())
    for task in _tasks(root / JOBS):
        os.kill(task, signal.SIGUSR2)
    matrix.join(timeout=300)
    assert not matrix.is_alive()
    log = (root / CELL.id / "log.txt").read_text()
    assert log.count(f"{CELL.method} on {CELL.task}") == 2  # it began twice,
    assert "SIGTERM: stopping at a checkpoint" in log  # was asked to checkpoint in between,
    assert "starting from the beginning" not in log  # and went on from there
    assert "Requeued job" in "".join(path.read_text() for path in (root / JOBS).glob("*_log.out"))
    assert status(root, CELL).state == "finished"
    LocalLauncher(jobs=1).run(tmp_path / "local", [CELL], StopRequest(), lambda _: None)
    cut, whole_run = (
        (folder / CELL.id / "run" / "metrics.jsonl").read_bytes() for folder in (root, tmp_path / "local")
    )
    assert cut == whole_run


class Ended:
    """A job that is over, whatever became of its cell."""

    job_id, cancelled = "7", False

    def done(self) -> bool:
        return True

    def cancel(self, check: bool) -> None:
        self.cancelled = True


class Sending(SlurmLauncher):
    """Notes what it sends, and sends nothing."""

    def _send(self, executor: Any, cells: Any) -> list[SubmittedCell]:
        return [SubmittedCell(cell, folder, Ended()) for cell, folder in cells]


def test_a_job_that_ends_before_its_cell_is_sent_again_but_not_for_ever(tmp_path: Path) -> None:
    launcher, told = Sending(["time=10"], retries=2), list[str]()
    job = SubmittedCell(CELL, prepare(tmp_path, CELL), Ended())
    write_progress(job.folder, CellProgress("running", "stopped; it goes on when called again", 5.0))
    reporter = Reporter(tmp_path, 1, told.append)
    assert [launcher._goes_on(None, job, reporter, told.append) for _ in range(3)] == [True, True, False]
    assert read_progress(job.folder) == CellProgress("failed", f"its job ended 3 times before it did; see {JOBS}", 5.0)
    write_progress(job.folder, CellProgress("finished"))
    assert not launcher._goes_on(None, job, reporter, told.append)
    assert [line.split(": ")[-1].split(" (")[0] for line in told[:2]] == ["its job ended before it did, sent again"] * 2


def test_when_the_command_is_stopped_jobs_are_cancelled_and_cells_left_time_to_checkpoint(tmp_path: Path) -> None:
    stop, told = StopRequest(), list[str]()
    stop.asked.set()
    launcher, sent = Sending(["time=10"]), list[SubmittedCell]()
    launcher._executor = lambda folder: None  # type: ignore[method-assign]
    send = launcher._send
    launcher._send = lambda executor, cells: sent.extend(send(executor, cells)) or sent  # type: ignore[method-assign,func-returns-value]
    folder = prepare(tmp_path, CELL)
    with at_work(folder):
        matrix = threading.Thread(target=launcher.run, args=(tmp_path, [CELL], stop, told.append))
        matrix.start()
        _wait_until(lambda: bool(sent) and sent[0].job.cancelled)
        assert matrix.is_alive()  # until the cell has left its folder
    matrix.join(timeout=60)
    assert not matrix.is_alive()
    assert told[-1].startswith("  1/1 ")


def test_what_sbatch_is_given(submitit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array with a limit on jobs at once, a warning before the end, the options of the user as they are."""
    monkeypatch.setattr("submitit.slurm.slurm.SlurmExecutor.affinity", classmethod(lambda _: 2))
    asked = ["time=1-02:00:00", "partition=gpu", "account=lab", "exclusive"]
    executor = SlurmLauncher(asked, cpus=8, gpus=2, jobs=4, retries=5)._executor(tmp_path)
    executor._executor.parameters["map_count"] = 9
    text = executor._executor._make_submission_file_text("command", "uid")
    flags = {line.removeprefix("#SBATCH --") for line in text.splitlines() if line.startswith("#SBATCH")}
    assert {
        "array=0-8%4", "time=1560", "cpus-per-task=8", "gpus-per-node=2", "signal=USR2@120", "partition=gpu",
        "account=lab", "exclusive",
    } <= flags  # fmt: skip
    assert executor._executor.max_num_timeout == 5


@pytest.mark.parametrize(("text", "minutes"), [("90", 90), ("1:30:00", 90), ("0:00:30", 1), ("2-01:00:10", 2941)])
def test_times_as_sbatch_has_them(text: str, minutes: int) -> None:
    assert minutes_of(text) == minutes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slurm", "time=60"], "--slurm means nothing for --launcher local"),
        (["--launcher", "slurm"], "--slurm has no time"),
        (["--launcher", "slurm", "--slurm", "time=soon"], "--slurm time=soon is no time"),
        (["--launcher", "slurm", "--slurm", "time=60", "gpus=1"], "give --gpus instead"),
        (["--launcher", "slurm", "--slurm", "time=60", "--gpus", "0.5"], "a whole number with --launcher slurm"),
    ],
)
def test_bad_options(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "fig-idea", "--scale", "smoke", "--out", str(tmp_path / "new"), *words]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


def test_without_the_extra_or_the_cluster_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    launcher = SlurmLauncher(["time=10"])
    with contextlib.suppress(ImportError):
        import submitit  # noqa: F401

        with pytest.raises(UserError, match="no machine of a Slurm cluster"):
            launcher._executor(tmp_path)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match=r"--launcher slurm needs the package submitit.*pip install 'calql\[slurm\]'"):
        launcher._executor(tmp_path)


def _tasks(folder: Path) -> list[int]:
    """The processes of submitit's tasks whose files are in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "submitit.core._submit" in words and str(folder) in words:
                found.append(int(process.name))
    return found


def _wait_until(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.1)
