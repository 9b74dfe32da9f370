"""The script of docs/formats.md runs, and what the page shows of its log is what `calql data inspect` prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from calql.cli import main
from calql.data.formats import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (script,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (command,) = re.findall(r"```bash\ncalql (data inspect log.parquet .*?)```", PAGE, re.DOTALL)
    exec(script, {})
    assert main(shlex.split(command.replace("\\\n", " "))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 12
    assert [line for line in lines if line.strip() not in PAGE] == []


def test_every_format_is_on_the_page() -> None:
    shown = PAGE.lower()
    assert [name for name in FORMATS if name not in shown] == []
