"""`calql round`, command by command, as a user gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

import corridor
from calql.cli import main

pytestmark = pytest.mark.slow

TINY = (
    "--policy-widths 8 --critic-widths 8 --sampled-actions 2 --backup-actions 2 --batch-size 8 --seeds 1 "
    "--offline-updates 12 --evaluate-offline-every 12 --evaluate-online-every 15 --evaluation-episodes 1 --block 8"
)


def test_a_project_from_start_to_going_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corridor.write_demonstrations(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def said(words: str) -> str:
        assert main(["round", *words.split()]) == 0
        return capsys.readouterr().out

    out = said(f"start arm --dataset corridor.npz --env corridor:Corridor-v0 --no-probe --quiet {TINY}")
    assert "policy to deploy: arm/rounds/000/policy" in out
    assert "next: calql round add arm arm/collected/round-000/seed-0" in said("collect arm --episodes 2")
    assert "2 new episodes" in said("add arm arm/collected/round-000/seed-0")
    again = said("add arm arm/collected/round-000/seed-0")
    assert "episode-00001.npz, episode 0: is there already (added" in again
    assert "0 new episodes with 0 steps; 2 wait: calql round train arm" in again
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the data of round 0 are found from anywhere
    assert "policy to deploy: ../arm/rounds/001/policy" in said("train ../arm --quiet")
    known = said("add ../arm ../arm/collected/round-000/seed-0")
    assert known.endswith("\n0 new episodes with 0 steps\n")
    out = said("back ../arm 0")
    assert "(1)" in out
    assert "2 episodes are set aside" in out
    assert said("status ../arm") == out
    assert (tmp_path / "arm" / "report.html").exists()


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["round"]) == 0
    said = capsys.readouterr().out
    listed = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert listed == ["start", "collect", "add", "train", "back", "status"]
    with pytest.raises(SystemExit):
        main(["round", "start", "--help"])
    out = capsys.readouterr().out
    assert "--no-share" in out
    assert "--resume" not in out
