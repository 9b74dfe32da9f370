"""Nothing drives an environment unless its user asked for it in that command."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import robot
from robot import times

import calql
import corridor
from calql.cli import main
from calql.data.check import RESETS, STEPS
from calql.runs import life as training
from calql.runs.life import Watching
from calql.runs.scores import evaluate
from calql.system.errors import UserError

TINY: dict[str, Any] = {
    "seeds": 1, "offline_updates": 4, "online_steps": 20, "evaluate_offline_every": 4, "evaluate_online_every": 20,
    "evaluation_episodes": 1, "policy_widths": (8,), "critic_widths": (8,), "batch_size": 8, "sampled_actions": 2,
    "backup_actions": 2,
}  # fmt: skip


@pytest.fixture
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(robot.COUNTS, str(tmp_path / "counts"))
    return tmp_path / "counts"


def train(folder: Path, **changes: Any) -> calql.Outcome:
    data = corridor.write_demonstrations(folder.parent)
    return calql.train(dataset=data, env="robot:Robot-v0", out=folder, **{**TINY, **changes})


class Heard(training.Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.slow
def test_a_run_is_read_without_driving_anything(tmp_path: Path, counts: Path) -> None:
    folder = train(tmp_path / "run").folder
    counts.unlink()
    policy = calql.load_policy(folder)
    assert policy._space == robot.Robot.action_space
    assert training.resume(folder).finished
    assert not counts.exists()


def test_evaluating_plays_the_episodes_alone(tmp_path: Path, counts: Path) -> None:
    folder = train(tmp_path / "run").folder
    counts.unlink()
    evaluate(folder, 2)
    assert times(counts, "reset") == 2
    assert times(counts, "step") <= 2 * 20


@pytest.mark.slow
def test_resuming_plays_what_is_left_alone(tmp_path: Path, counts: Path) -> None:
    folder = train(tmp_path / "run", online_steps=0).folder
    counts.unlink()
    training.resume(folder, online_steps=20)
    episodes = training.read_rows(folder / "metrics.jsonl")[-1]["collected_episodes"]
    assert times(counts, "reset") == episodes + 1  # and one evaluation


def test_the_trial_says_what_it_does_and_does_that(tmp_path: Path, counts: Path) -> None:
    heard = Heard()
    train(tmp_path / "run", online_steps=0, offline_updates=0, watching=Watching(heard))
    assert any(f"{RESETS + 1} resets" in line and f"{STEPS + 1} random steps" in line for line in heard.lines)
    assert any("reports success" in line for line in heard.lines)
    tried = [note for note in robot.noted(counts)]
    tried = tried[: [note["what"] for note in tried].index("closed")]
    assert sum(note["what"] == "step" for note in tried) == STEPS + 1
    assert [note["what"] for note in tried].count("made") == 1


def test_what_is_refused_before_the_trial_announces_none(tmp_path: Path) -> None:
    data, heard = corridor.demonstrations(), Heard()
    wide = dataclasses.replace(data, actions=np.repeat(data.actions, 2, axis=1))
    how: dict[str, Any] = {"env": "robot:Robot-v0", "out": tmp_path / "run", "watching": Watching(heard)}
    for refused, method in ((wide, "cal-ql"), (data, "dqn")):
        with pytest.raises(UserError):
            calql.train(dataset=refused, method=method, **how)
    assert not heard.lines


def test_without_a_trial_nothing_is_driven_before_training(tmp_path: Path, counts: Path) -> None:
    heard = Heard()
    train(tmp_path / "run", probe=False, online_steps=0, offline_updates=0, watching=Watching(heard))
    assert times(counts, "reset") == 1  # the evaluation at the switch
    assert not any("trying out" in line for line in heard.lines)
    assert any("--score success" in line for line in heard.lines)


def test_the_score_can_be_named(tmp_path: Path, counts: Path) -> None:
    one = train(tmp_path / "one", probe=False, score="success")
    tried = train(tmp_path / "tried")
    assert one.rows == tried.rows


def test_a_mistyped_command_drives_nothing(tmp_path: Path, counts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = corridor.write_demonstrations(tmp_path)
    assert main(["train", "--dataset", str(data), "--env", "robot:Robot-v0", "--seeds", "0"]) == 2
    capsys.readouterr()
    assert times(counts, "made") == 0
