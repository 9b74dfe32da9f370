"""Names that mean something to a terminal, to rich or to TeX are names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from synthetic_runs import make_run

from calql.cli import main
from calql.results.report import write_report
from calql.system.errors import shown

NAMES = ["b[bold]c", "[/x]", "$\\frac{", "a\x1b[31mred"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_name_neither_changes_nor_breaks_what_is_said(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = make_run(tmp_path / "usual")
    runs = []
    for number in range(2):  # told apart by their folders
        folder = tmp_path / f"{number}{name.replace('/', '-')}"
        shutil.copytree(usual, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "task": name}))
        runs.append(folder)
    assert main(["report", str(runs[0])]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert shown(name) in printed
    assert shown(f"report: {runs[0] / 'report.html'}") in printed
    assert write_report(runs, tmp_path / "both.html").read_text().count('class="plot"') > 1


def test_a_message_shows_what_a_name_would_send(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "nowhere\x1b[2J"]) == 2
    assert "nowhere\\x1b[2J" in capsys.readouterr().err
