"""A run that is gone on with is the same run, or says in what it is not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from test_folder import contents, data, train  # noqa: F401
from test_probe import Heard

from calql.cli import main
from calql.domains.own import tasks as own
from calql.runs import record
from calql.runs.life import Watching, resume
from calql.system.errors import UserError

pytestmark = pytest.mark.slow


@pytest.fixture
def begun(data: Path, tmp_path: Path) -> Path:  # noqa: F811
    """Pre-trained; its online phase is to come."""
    return train(tmp_path / "run", data, online_steps=0).folder


def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = gymnasium.spec("Corridor-v0")
    monkeypatch.setitem(gymnasium.registry, "Corridor-v0", dataclasses.replace(spec, max_episode_steps=10))


def other_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "sparse_failure", lambda _: None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (shorter, r"episode limit \(environment\): 20 then, 10 now"),
        (other_rewards, r"failure \(rewards\): 0.0 then, None now"),
    ],
)
def test_code_that_changed_is_refused_unless_accepted(
    change: Any, said: str, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    before = contents(begun)
    with pytest.raises(UserError, match=rf"no longer the one.*{said}; put the code back.*--accept-changes"):
        resume(begun, online_steps=20)
    assert contents(begun) == before
    assert resume(begun, online_steps=20, accept_changes=True).finished
    config = json.loads((begun / "config.json").read_text())
    assert len(config["resumed"][-1]["accepted"]) == 1
    assert resume(begun, online_steps=40).finished  # it was accepted once


def test_another_number_of_cores_is_noted(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = json.loads((begun / "config.json").read_text())["cores"]
    monkeypatch.setattr(record, "available_cores", lambda: cores + 1)
    heard = Heard()
    resume(begun, Watching(heard), online_steps=20)
    assert any(f"begun on {cores} cores and goes on with {cores + 1}" in line for line in heard.lines)
    assert json.loads((begun / "config.json").read_text())["resumed"][-1]["cores"] == cores + 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "cql"], "--method cql would make another run of this one (it is cal-ql)"),
        (["--batch-size", "9"], "--batch-size 9 would make another run"),
        (["--seeds", "7"], "--seeds 7 would make another run"),
        (["--out", "elsewhere"], "--out elsewhere would make another run"),
        (["--onlin-steps", "7"], "did you mean 'online-steps'"),
    ],
)
def test_options_of_another_run_are_refused(
    words: list[str], said: str, begun: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(begun)
    assert main(["train", "--resume", str(begun), *words]) == 2
    assert said in capsys.readouterr().err
    assert contents(begun) == before


def test_options_that_the_run_has_may_be_repeated(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--method", "cal-ql", "--seeds", "1", "--batch-size", "8", "--checkpoint-minutes", "1", "--quiet"]
    assert main(["train", "--resume", str(begun), "--online-steps", "20", *words]) == 0
    assert json.loads((begun / "config.json").read_text())["run"]["online_steps"] == 20
