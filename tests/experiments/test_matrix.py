"""The matrix goes on cell by cell: finished ones are left alone, killed ones resume, failed ones are reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from reproduce_cells import tiny_cell

from calql.engine.checkpoint import whole
from calql.experiments import folders
from calql.experiments.cells import Cell
from calql.experiments.estimate import cost_text, size_of
from calql.experiments.experiment import Experiment, cells_of
from calql.experiments.folders import CellProgress, at_work, note_death, prepare, read_progress, status, write_progress
from calql.experiments.launchers.base import StopRequest, Tell, workers_of
from calql.experiments.launchers.launch import kill, launch
from calql.experiments.launchers.local import LocalLauncher
from calql.experiments.launchers.machine import Machine
from calql.experiments.matrix import Matrix, outcome_text, plan_text
from calql.experiments.paper.matrices import EXPERIMENTS
from calql.experiments.scales import SMALL, SMOKE

pytestmark = pytest.mark.slow


class Noting:
    """A launcher that only notes what it was asked to run."""

    def __init__(self) -> None:
        self.asked: list[Cell] = []

    def run(self, root: Path, cells: Sequence[Cell], stop: StopRequest, tell: Tell) -> None:
        self.asked += cells


def _matrix(root: Path, *cells: Cell) -> Matrix:
    return Matrix(Experiment("fig-idea", "", (), ()), SMOKE, cells, root)


def _quiet(text: str) -> None: ...


def test_finished_cells_are_not_run_again_and_failed_ones_are(tmp_path: Path) -> None:
    done, failed, new = tiny_cell("cal-ql"), tiny_cell("cql"), tiny_cell("sac")
    matrix, launcher = _matrix(tmp_path, done, failed, new), Noting()
    write_progress(prepare(matrix.cell_root, done), CellProgress("finished"))
    write_progress(prepare(matrix.cell_root, failed), CellProgress("failed", "no reason"))
    matrix.run(launcher, StopRequest(), _quiet)
    assert launcher.asked == [failed, new]
    assert outcome_text(matrix.statuses()).splitlines() == [
        "3 cells: 1 finished, 1 failed, 1 not run",
        f"  failed: {failed.id}: no reason",
    ]


def test_a_failed_cell_does_not_keep_the_others(tmp_path: Path) -> None:
    bad, good = tiny_cell(mixing=7.0), tiny_cell()
    told: list[str] = []
    LocalLauncher(jobs=1).run(tmp_path, [bad, good], StopRequest(), told.append)
    assert (status(tmp_path, bad).state, status(tmp_path, good).state) == ("failed", "finished")
    assert "--mixing is 7" in status(tmp_path, bad).reason
    assert any("failed" in line and "--mixing is 7" in line for line in told)


def test_a_stopped_and_a_killed_cell_go_on_to_the_same_end(tmp_path: Path) -> None:
    cell = tiny_cell(online_steps=1_200)
    folder = prepare(tmp_path / "broken", cell)
    stop = StopRequest()
    running = threading.Thread(target=LocalLauncher(jobs=1).run, args=(folder.parent, [cell], stop, _quiet))
    running.start()
    _wait_until(lambda: _checkpoint(folder) > 0)
    stop.asked.set()
    running.join()
    stopped = read_progress(folder)
    assert (stopped.state, stopped.reason) == ("running", "stopped; it goes on when called again")
    at_stop = _checkpoint(folder)
    process = launch(folder, workers=0)
    _wait_until(lambda: _checkpoint(folder) > at_stop or process.poll() is not None)
    kill(process)
    assert "goes on when called again" in status(folder.parent, cell).reason
    LocalLauncher(jobs=1).run(folder.parent, [cell], StopRequest(), _quiet)
    LocalLauncher(jobs=1).run(tmp_path / "whole", [cell], StopRequest(), _quiet)
    assert status(folder.parent, cell).state == "finished"
    assert _metrics(folder) == _metrics(tmp_path / "whole" / cell.id)


def test_a_process_that_dies_without_a_word_is_a_failure(tmp_path: Path) -> None:
    folder = prepare(tmp_path, tiny_cell())
    write_progress(folder, CellProgress("running"))
    note_death(folder, -9)
    assert read_progress(folder) == CellProgress("failed", "its process died (signal 9); see log.txt")


def test_two_processes_never_work_in_one_folder(tmp_path: Path) -> None:
    with at_work(tmp_path) as first, at_work(tmp_path) as second:
        assert (first, second) == (True, False)


def test_a_folder_is_free_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "taken", lambda _: None)
    with at_work(tmp_path) as free:
        assert free


@pytest.mark.parametrize(
    ("machine", "jobs"), [(Machine(2), 1), (Machine(8), 2), (Machine(16, ("0",)), 5), (Machine(64, ("0", "1")), 12)]
)
def test_cells_at_once(machine: Machine, jobs: int) -> None:
    assert machine.jobs == jobs


def test_cores_go_to_environments_that_step_outside() -> None:
    (kitchen,) = cells_of(EXPERIMENTS["fig-reference"], SMALL, tasks=("kitchen-mixed",))[:1]
    assert workers_of(kitchen, 3, on_gpu=False) == 3
    assert workers_of(replace(kitchen, task="hopper-medium"), 3, on_gpu=False) == 0
    assert workers_of(replace(kitchen, task="hopper-medium"), 3, on_gpu=True) == 3
    assert workers_of(tiny_cell(), 3, on_gpu=True) == 0


def test_a_dry_run_lists_every_cell_with_its_size() -> None:
    experiment = EXPERIMENTS["fig-mixing"]
    cells = cells_of(experiment, SMALL)
    text = plan_text(Matrix(experiment, SMALL, cells, Path("nowhere")), Machine(16, ("0",), "NVIDIA H200"), 5)
    for cell in cells:
        assert f"{cell.variant} " in text
    size = size_of(cells[0])
    assert size.updates == 4 * (20_000 + 14_000)
    assert f"{size.updates:,}" in text
    assert "2,800 updates/s" in text
    assert "for what is left, 5 cells at once" in text


def test_a_plan_for_a_cluster_gives_each_cell_its_cards_and_adds_up_hours_and_money() -> None:
    """Two cells of an hour each on two cards of their own are four GPU-hours, whoever waits for whom."""
    experiment = EXPERIMENTS["fig-mixing"]
    cells, machine = cells_of(experiment, SMALL)[:2], Machine(16, ("0", "1"), "NVIDIA H200")
    matrix = Matrix(experiment, SMALL, cells, Path("nowhere"))
    hours = sum(size_of(cell).seconds(cell, machine, 1) for cell in cells) / 3600
    for at_once in (1, 2):
        assert plan_text(matrix, machine, at_once, apart=True).splitlines()[-1] == f"{2 * hours:,.0f} GPU-hours"
    assert cost_text(machine, 10.4, 2.5) == "21 GPU-hours, at 2.5 each: 52"
    assert cost_text(Machine(16), 3.0, None) == "3 hours of a machine"


def test_a_deadline_leaves_time_for_checkpoints_and_the_report() -> None:
    stop = StopRequest.after(10.0)
    assert not stop
    assert stop.deadline is not None
    assert stop.end is not None
    assert 60 <= stop.end - stop.deadline <= 120
    assert StopRequest.after(0.0)


def _checkpoint(folder: Path) -> int:
    """Number of the newest checkpoint, -1 before the first."""
    return max((int(path.stem) for path in whole(folder / "run" / "checkpoints")), default=-1)


def _metrics(folder: Path) -> bytes:
    return (folder / "run" / "metrics.jsonl").read_bytes()


def _wait_until(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.05)
