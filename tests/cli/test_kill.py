"""A real process, killed at random moments and resumed: the same results to the last byte."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

import corridor
from chaos import SIZES, WAYS, Tally, start, strike, torment, uninterrupted, wait_for_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    data = corridor.write_demonstrations(tmp_path_factory.mktemp("data"))
    return ["--dataset", str(data), "--env", "corridor:Corridor-v0", *SIZES]


@pytest.fixture(scope="module")
def whole(own: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that is never interrupted."""
    return uninterrupted(own, tmp_path_factory.mktemp("whole") / "run")


def test_killed_at_random_moments(own: list[str], whole: Path, tmp_path: Path) -> None:
    kill_and_compare(own, whole, tmp_path / "run")


def test_killed_while_workers_collect_and_evaluate(own: list[str], tmp_path: Path) -> None:
    """With trajectories and evaluations under way at every moment."""
    words = [*own, *WAYS["workers"]]
    kill_and_compare(words, uninterrupted(words, tmp_path / "whole"), tmp_path / "run")


def test_killed_within_episodes(own: list[str], tmp_path: Path) -> None:
    words = [*own, *WAYS["step"]]
    kill_and_compare(words, uninterrupted(words, tmp_path / "whole"), tmp_path / "run")


def kill_and_compare(words: list[str], whole: Path, folder: Path) -> None:
    """Two kills between evaluations."""
    chance = random.Random(3)
    process = start(*words, "--out", str(folder))
    tally = Tally()
    for _ in range(20):
        if len(tally.kills) == 0 or tally.kills["SIGKILL"] < 2:
            wait_for_rows(process, folder, chance.randrange(2, 7))
            time.sleep(chance.random() * 0.3)
            strike(process, signal.SIGKILL, folder, tally)
        _, errors = process.communicate(timeout=300)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors
        process = start("--resume", str(folder))
    assert tally.kills["SIGKILL"] == 2
    assert tally.faults == []
    assert json.loads((folder / "status.json").read_text())["finished"]
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_killed_at_any_moment_by_any_signal(own: list[str], whole: Path, tmp_path: Path) -> None:
    """As `python -m tests.chaos` does it many times."""
    tally = torment(own, whole, tmp_path / "run", 5.0, 4, random.Random(1))
    assert tally.faults == []
    assert 1 <= sum(tally.kills.values()) <= 4  # a fast machine may end it before the last
    assert tally.same_bytes == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_answered_and_ends_at_a_checkpoint(
    number: int, code: int, own: list[str], whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    process = start(*own, "--out", str(folder), "--checkpoint-minutes", "60")
    wait_for_rows(process, folder, 3)
    process.send_signal(number)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    assert "stopping at a checkpoint" in errors
    assert "--resume" in output
    assert not json.loads((folder / "status.json").read_text())["finished"]
    process = start("--resume", str(folder))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_a_time_limit_is_kept(own: list[str], tmp_path: Path) -> None:
    process = start(*own, "--out", str(tmp_path / "run"), "--online-steps", "100000", "--max-minutes", "0.25")
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 124, errors
    assert "the time is nearly up: stopping" in errors
    assert "go on with: calql train --resume" in output
    assert (tmp_path / "run" / "config.json").exists()
