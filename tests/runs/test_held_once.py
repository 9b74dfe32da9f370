"""Logged data are in memory once while a run trains: the rows on the device, and not also what they came from."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from test_probe import TINY

import calql
import corridor
from calql.cli import main
from calql.data import Dataset, write_npz
from calql.results import Silent
from calql.runs.life import Watching

pytestmark = pytest.mark.slow


class Counting(Silent):
    """How many datasets there are while updates are done, beside those that other tests still hold."""

    def __init__(self) -> None:
        self.most = -1
        self.others = datasets()

    def advance(self, updates: int, env_steps: int, updates_per_s: float, env_steps_per_s: float) -> None:
        known = {id(each) for each in self.others}
        self.most = max(self.most, sum(id(each) not in known for each in datasets()))


def datasets() -> list[Dataset]:
    return [each for each in gc.get_objects() if isinstance(each, Dataset)]


@pytest.fixture
def file(tmp_path: Path) -> str:
    write_npz(corridor.demonstrations(), tmp_path / "data.npz")
    gc.collect()
    return str(tmp_path / "data.npz")


def test_from_python(file: str, tmp_path: Path) -> None:
    """Begun and resumed."""
    options: dict[str, Any] = {**TINY, "episode_limit": 20, "online_steps": 0}
    held = Counting()
    calql.train(dataset=file, env=corridor.Corridor, out=tmp_path / "run", watching=Watching(held), **options)
    again = Counting()
    calql.resume(tmp_path / "run", Watching(again), env=corridor.Corridor, online_steps=20)
    assert (held.most, again.most) == (0, 0)


def test_from_the_command_line(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Counting()
    monkeypatch.setattr("calql.cli.watching.Silent", lambda: held)
    words = ["--dataset", file, "--env", "corridor:Corridor-v0", "--quiet", "--no-films", "--seeds", "1"]
    words += ["--policy-widths", "8", "--critic-widths", "8", "--batch-size", "8", "--offline-updates", "4"]
    words += ["--online-steps", "0", "--evaluation-episodes", "1", "--out", str(tmp_path / "run")]
    assert main(["train", *words]) == 0
    assert held.most == 0
