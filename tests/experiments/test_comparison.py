"""The comparison of all methods: what it changes, that it goes on where it stopped, what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calql
from calql.cli import main
from calql.engine.run import Run
from calql.experiments import compare as comparison
from calql.experiments.cells import Cell
from calql.experiments.launchers import here
from calql.experiments.training import options_of
from calql.methods import METHODS, able
from calql.runs.life import Outcome
from calql.runs.stops import Stopped
from calql.system.errors import UserError


def test_every_method_has_an_expectation() -> None:
    expected = {name: entry.compared for name, entry in METHODS.items() if entry.compared is not None}
    assert set(expected) == set(able(False))
    for low, high in (each.after for each in expected.values()):
        assert 0.0 <= low < high <= 1.0
        assert high - low < 1.0  # or it could not fail


@pytest.mark.parametrize("name", able(False))
def test_sizes_are_cut_and_kinds_are_kept(name: str) -> None:
    (cell,) = comparison.matrix_of("", [name]).cells
    changes = vars(options_of(cell)[0])
    assert changes["online_steps"] <= 4_000
    assert changes["offline_updates"] <= 5_000
    assert changes["seeds"] == 4
    if name in ("sac", "sac-offline", "hybrid", "rlpd"):
        assert changes["offline_updates"] == 0
    if name == "bc":
        assert changes["online_steps"] == 0


@pytest.mark.parametrize(("task", "discrete"), [(comparison.TASK, False), ("cliff-grid-masked", True)])
def test_all_that_can_learn_a_task_are_compared_on_it(task: str, discrete: bool) -> None:
    assert [cell.method for cell in comparison.matrix_of("", task=task).cells] == able(discrete)


def test_finished_methods_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(cell: Cell, folder: Path, *_: Any) -> Outcome:
        name = cell.method
        ran.append(name)
        assert folder == tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text("{}")
        (folder / "status.json").write_text(json.dumps({"finished": name != "iql" or len(ran) > 2, "reason": ""}))
        return Outcome(folder, name != "iql" or len(ran) > 2, "", "Ctrl-C")

    monkeypatch.setattr(here, "train_cell", run)
    monkeypatch.setattr(comparison, "write_report", lambda folders, out: out)
    monkeypatch.setattr(comparison, "_write_verdicts", lambda *_: None)
    with pytest.raises(Stopped, match="go on with the same command") as stopped:
        comparison.compare(tmp_path, ["bc", "iql"], tell=lambda _: None)
    assert stopped.value.code == 130
    assert comparison.compare(tmp_path, ["bc", "iql"], tell=lambda _: None) == tmp_path / "report.html"
    assert ran == ["bc", "iql", "iql"]


def test_an_unknown_method_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no method is called"):
        comparison.compare(tmp_path, ["cal-kl"], tell=lambda _: None)


@pytest.mark.slow
def test_the_folder_of_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run folder for each method, one report and the verdicts; what was stopped goes on by the same call."""
    sizes: dict[str, Any] = {"seeds": 2, "offline_updates": 6, "evaluate_offline_every": 3, "evaluation_episodes": 1}
    sizes |= {"policy_widths": (8,), "block": 3}
    told: list[str] = []
    with monkeypatch.context() as patch:
        execute = Run.execute
        patch.setattr(Run, "execute", lambda run, _: execute(run, lambda: int(run.counters.gradient_steps[0]) >= 3))
        with pytest.raises(Stopped, match="bc is unfinished"):
            comparison.compare(tmp_path / "all", ["bc"], tell=told.append, **sizes)
    report = comparison.compare(tmp_path / "all", ["bc"], tell=told.append, **sizes)
    assert report == tmp_path / "all" / "report.html"
    assert {path.name for path in report.parent.iterdir()} >= {"bc", "report.html", "verdicts.json"}
    (verdict,) = json.loads((report.parent / "verdicts.json").read_text())
    assert verdict["method"] == "bc"
    alone = calql.train(comparison.TASK, method="bc", out=tmp_path / "alone", **sizes)
    assert (report.parent / "bc" / "metrics.jsonl").read_bytes() == (alone.folder / "metrics.jsonl").read_bytes()
    comparison.compare(tmp_path / "all", ["bc"], tell=told.append, **sizes)
    assert "1 cells, 1 finished before" in told[-1]
    capsys.readouterr()
    assert main(["compare", "--methods", "bc", "--out", str(tmp_path / "all")]) == 0
    printed = capsys.readouterr().out
    assert "mean ± standard deviation over seeds" in printed
    assert f"report: {report}" in printed
