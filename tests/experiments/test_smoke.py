"""`calql reproduce NAME --scale smoke` for every name: from the command line to the report, with real processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calql import theory
from calql.cli import main
from calql.experiments.analysis.tidy import read_table
from calql.experiments.launchers import local, process
from calql.experiments.paper.matrices import EXPERIMENTS
from calql.theory.experiment import Scale

pytestmark = pytest.mark.slow

# Names that share cells run in one folder, each with as many of its methods as show something new.
GROUPS: dict[str, dict[str, list[str]]] = {
    "door": {"table-scores": [], "table-regret": [], "fig-curves": []},
    "images": {name: ["--methods", "iql", "--seeds", "1"] for name in ("fig-analysis", "fig-iql")},
    "mixing": {"fig-mixing": ["--methods", "iql", "--seeds", "1"]},
    "ratio": {"fig-utd": ["--methods", "rlpd", "--seeds", "1"]},
    "data": {"fig-data": ["--methods", "cql", "--seeds", "1"]},
    "reference": {"fig-reference": ["--seeds", "1"]},
    "locomotion": {"table-locomotion": ["--methods", "cal-ql", "--seeds", "1"]},
    "idea": {"fig-idea": ["--methods", "cal-ql", "--seeds", "1"]},
}
SHARED = {"door": 2, "images": 1}  # cells that one name leaves to the next
PROCESSES = ("door", "images")  # cells of the others are run in this one: of a process, most is its start


class InThisProcess:
    """In place of the process of a cell: what that would have run, and its exit code."""

    def __init__(self, folder: Path, **_: object) -> None:
        self.returncode = process.main([str(folder)])

    def poll(self) -> int:
        return self.returncode


def _reproduce(name: str, out: Path, *words: str) -> Path:
    assert main(["reproduce", name, "--scale", "smoke", "--out", str(out), "--jobs", "2", *words]) == 0
    return out / f"{name}-smoke"


def _check(name: str, folder: Path) -> None:
    rows = read_table(folder / "results.csv")
    assert rows
    assert {row["experiment"] for row in rows} == {name}
    assert {row["finished"] for row in rows} == {"1"}
    assert {row["phase"] for row in rows} >= {"offline"}
    assert all(row["commit"] and row["device"] and row["command"] and row["dataset"] for row in rows)
    for file in ("report.html", "tables.md", "tables.tex"):
        assert (folder / file).stat().st_size > 0, file
    assert list(folder.glob("*.png"))
    assert list(folder.glob("*.svg"))


@pytest.mark.parametrize("group", GROUPS)
def test_the_whole_path(
    group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if group == "images":
        monkeypatch.delenv("XLA_FLAGS", raising=False)  # convolutions that are not optimised take minutes
    if group not in PROCESSES:
        monkeypatch.setattr(local, "launch", InThisProcess)
    for name, words in GROUPS[group].items():
        _check(name, _reproduce(name, tmp_path, *words))
    found = capsys.readouterr().out.count(f" {SHARED[group]} finished before") if group in SHARED else 0
    assert found == (len(GROUPS[group]) - 1)


def test_the_theory_by_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Scale(2, seeds=9, episodes=16, scaling_instances=2, families=("random-tabular", "lock"))
    monkeypatch.setattr(theory, "SCALES", {"smoke": tiny})
    folder = _reproduce("fig-theory", tmp_path, "--seeds", "2")
    assert {"results.csv", "theory.png", "theory.svg", "report.md"} <= {path.name for path in folder.iterdir()}


def test_every_name_is_here() -> None:
    assert {name for group in GROUPS.values() for name in group} == set(EXPERIMENTS)


def test_a_failure_shows_in_the_exit_code_and_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data that need a recording which is not there: the cell fails, the report is written all the same."""
    words = ["--scale", "small", "--tasks", "door-binary", "--methods", "cal-ql", "--out", str(tmp_path)]
    assert main(["reproduce", "table-scores", *words]) == 1
    said = capsys.readouterr().out
    assert re.search(r"about .* (hours|minutes) for what is left, 1 cells at once on this machine", said)
    assert "failed: door-binary.cal-ql" in said
    assert "adroit_door_human" in (tmp_path / "table-scores-small" / "report.html").read_text()


def test_a_dry_run_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "fig-curves", "--scale", "paper", "--dry-run", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("not run") == 109
    assert "6,000,000" in said  # door: 6 seeds of a million steps and 20,000 updates
    assert not any(tmp_path.iterdir())


def test_unknown_names_suggest_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "fig-curve"]) == 2
    assert "did you mean 'fig-curves'?" in capsys.readouterr().err
    assert main(["reproduce", "fig-theory", "--tasks", "door-binary"]) == 2
