"""A real process, killed at random moments and resumed: the same results to the last byte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import corridor

TESTS = Path(__file__).resolve().parents[1]
SIZES = [
    "--seeds", "2", "--offline-updates", "150", "--online-steps", "300", "--evaluate-offline-every", "50",
    "--evaluate-online-every", "40", "--evaluation-episodes", "2", "--block", "10", "--checkpoint-minutes", "0.004",
    "--policy-widths", "8", "--critic-widths", "8", "--batch-size", "8", "--sampled-actions", "2",
    "--backup-actions", "2",
]  # fmt: skip


def start(*words: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-m", "calql", "train", *words],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def rows(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for_rows(process: subprocess.Popen[str], folder: Path, more: int) -> None:
    """Until the run has gone on by some evaluations, or has ended."""
    base, limit = rows(folder), time.monotonic() + 120
    while process.poll() is None and rows(folder) < base + more and time.monotonic() < limit:
        time.sleep(0.02)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    data = corridor.write_demonstrations(tmp_path_factory.mktemp("data"))
    return ["--dataset", str(data), "--env", "corridor:Corridor-v0", *SIZES]


def uninterrupted(words: list[str], folder: Path) -> Path:
    process = start(*words, "--out", str(folder))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return folder


@pytest.fixture(scope="module")
def whole(own: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that is never interrupted."""
    return uninterrupted(own, tmp_path_factory.mktemp("whole") / "run")


def test_killed_at_random_moments(own: list[str], whole: Path, tmp_path: Path) -> None:
    kill_and_compare(own, whole, tmp_path / "run")


def test_killed_while_workers_collect_and_evaluate(own: list[str], tmp_path: Path) -> None:
    """With trajectories and evaluations under way at every moment."""
    words = [*own, "--lag", "1", "--workers", "1"]
    kill_and_compare(words, uninterrupted(words, tmp_path / "whole"), tmp_path / "run")


def test_killed_within_episodes(own: list[str], tmp_path: Path) -> None:
    words = [*own, "--update-schedule", "step", "--online-steps", "200"]
    kill_and_compare(words, uninterrupted(words, tmp_path / "whole"), tmp_path / "run")


def kill_and_compare(words: list[str], whole: Path, folder: Path) -> None:
    chance = random.Random(3)
    process = start(*words, "--out", str(folder))
    kills = 0
    for _ in range(20):
        if kills < 3:
            wait_for_rows(process, folder, chance.randrange(2, 7))
            time.sleep(chance.random() * 0.3)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
        _, errors = process.communicate(timeout=300)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors
        process = start("--resume", str(folder))
    assert kills >= 2
    assert json.loads((folder / "status.json").read_text())["finished"]
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


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
    process = start(*own, "--out", str(tmp_path / "run"), "--online-steps", "100000", "--max-minutes", "0.4")
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 124, errors
    assert "the time is nearly up: stopping" in errors
    assert "go on with: calql train --resume" in output
    assert (tmp_path / "run" / "config.json").exists()
