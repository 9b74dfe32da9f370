"""The commands as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import calql
import corridor
from calql.cli import main

TINY: dict[str, Any] = {
    "seeds": 2, "offline_updates": 6, "online_steps": 30, "evaluate_offline_every": 6, "evaluate_online_every": 20,
    "evaluation_episodes": 2, "policy_widths": (8,), "critic_widths": (8,), "batch_size": 8, "sampled_actions": 2,
    "backup_actions": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bring your own, from Python, in under ten lines."""
    folder = tmp_path_factory.mktemp("own")
    data = corridor.write_demonstrations(folder)
    outcome = calql.train(dataset=data, env="corridor:Corridor-v0", method="cal-ql", out=folder / "run", **TINY)
    assert outcome.finished
    return outcome.folder


@pytest.mark.slow
def test_bring_your_own_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = corridor.write_demonstrations(tmp_path)
    words = ["train", "--dataset", str(data), "--env", "corridor:Corridor-v0", "--method", "cal-ql"]
    for name, value in TINY.items():
        words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else [value])]
    assert main([*words, "--out", str(tmp_path / "run"), "--tensorboard", "--live"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("live: http://127.0.0.1:")
    assert "report:" in printed
    assert "cal-ql" in printed
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<html" in page
    assert list((tmp_path / "run" / "plots").glob("*.png"))
    assert list((tmp_path / "run" / "tensorboard").rglob("events*"))


@pytest.mark.slow
def test_evaluate_prints_scores_and_leaves_the_run_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "metrics.jsonl").read_bytes()
    assert main(["evaluate", str(run), "--episodes", "3"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["score"]) == 2
    assert main(["evaluate", str(run), "--episodes", "3"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_policy_acts_in_the_bounds_of_its_environment(run: Path) -> None:
    policy = calql.load_policy(run)
    env = gymnasium.make("corridor:Corridor-v0")
    seen, _ = env.reset(seed=0)
    action = policy(seen)
    assert env.action_space.contains(action)
    policy.reset()
    np.testing.assert_array_equal(action, policy(seen))


@pytest.mark.slow
def test_a_policy_that_trained_in_bfloat16_acts_in_float32_as_it_was_evaluated(tmp_path: Path) -> None:
    path = corridor.write_demonstrations(tmp_path)
    options = {**TINY, "seeds": 1, "online_steps": 0, "precision": "bfloat16"}
    outcome = calql.train(dataset=path, env="corridor:Corridor-v0", out=tmp_path / "low", **options)
    assert calql.load_policy(outcome.folder)._parameters.network.precision == "float32"


@pytest.mark.slow
def test_several_runs_in_one_report(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), str(run), "--out", str(tmp_path / "both.html")]) == 0
    assert (tmp_path / "both.html").exists()


@pytest.mark.parametrize("command", ["tasks", "methods"])
def test_listings(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 0
    printed = capsys.readouterr().out
    assert ("point-maze-narrow" if command == "tasks" else "cal-ql") in printed


@pytest.mark.slow
def test_bench_measures_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "--seeds", "1", "--seconds", "0.2", "--transitions", "1000", "--batch-size", "8"]
    assert main([*words, "--policy-widths", "8", "--critic-widths", "8"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["results"][0]["updates_per_s"] > 0
    assert printed["versions"]["jax"]


@pytest.mark.slow
def test_help_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "train" in capsys.readouterr().out
    for words in (["train", "--help"], ["bench", "--help"], ["evaluate", "--help"], ["report", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert not end.value.code
    assert "conservative-weight" in capsys.readouterr().out
