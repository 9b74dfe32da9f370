"""The recording script of docs/own-data.md runs, and what the page says of its file is true."""

from __future__ import annotations

import os
import re
from pathlib import Path

import gymnasium
import pytest

from calql.cli.data import inspect
from calql.data import check, load

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text()


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "COLUMNS", "120")
    script = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert script is not None
    exec(script.group(1), {})
    assert inspect("my.npz") == 0
    for line in capsys.readouterr().out.splitlines():
        assert line.strip() in PAGE
    env = gymnasium.make("MountainCarContinuous-v0")
    for warning in check(load("my.npz"), env, name="MountainCarContinuous-v0"):
        assert warning in PAGE
