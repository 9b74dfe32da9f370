"""A run folder of a stranger imports nothing unless its user asked for it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import calql
import corridor
from calql.cli import main
from calql.runs.trust import remember, require_trusted, trust_run
from calql.system.errors import UserError

TINY = {"seeds": 1, "offline_updates": 2, "online_steps": 0, "policy_widths": (8,), "critic_widths": (8,),
        "batch_size": 8, "evaluation_episodes": 1}  # fmt: skip
MODULE = """
import pathlib, gymnasium, corridor
pathlib.Path(__file__).with_name("imported").touch()
gymnasium.register("Theirs-v0", entry_point=corridor.Corridor, max_episode_steps=20)
"""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose config.json names a module that leaves a trace when it is imported, on a machine new to it."""
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "data"))
    data = corridor.write_demonstrations(tmp_path)
    run = calql.train(dataset=data, env="corridor:Corridor-v0", out=tmp_path / "run", **TINY).folder
    config = json.loads((run / "config.json").read_text())
    config["choice"]["env"] = "theirs:Theirs-v0"
    (run / "config.json").write_text(json.dumps(config))
    (tmp_path / "theirs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    return run


@pytest.mark.slow
def test_nothing_is_imported_unless_asked_for(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a run of before, whose policy is built again with its environment's name."""
    trace = theirs.parent / "imported"
    shutil.rmtree(theirs / "policy")
    with pytest.raises(UserError, match=r"imports the module 'theirs', which only its config.json names; if you trust"):
        calql.load_policy(theirs)
    assert main(["evaluate", str(theirs), "--episodes", "1"]) == 2
    assert main(["train", "--resume", str(theirs)]) == 0  # finished: nothing is left to do, and nothing is imported
    assert main(["train", "--resume", str(theirs), "--online-steps", "1000"]) == 2
    assert main(["render", str(theirs)]) == 2
    assert not trace.exists()
    assert main(["evaluate", str(theirs), "--episodes", "1", "--trust"]) == 0
    assert trace.exists()
    assert main(["evaluate", str(theirs), "--episodes", "1"]) == 0  # asked about once


def test_a_policy_is_loaded_without_its_environment_and_evaluated_with_it(theirs: Path) -> None:
    calql.load_policy(theirs)
    calql.load_policy(theirs / "policy")
    with pytest.raises(UserError, match=r"imports the module 'theirs', which only its config.json names; if you trust"):
        calql.evaluate(theirs, 1)
    assert not (theirs.parent / "imported").exists()
    assert calql.evaluate(theirs, 1, trust=True)["episodes"] == 1
    assert (theirs.parent / "imported").exists()


def test_what_a_user_named_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "data"))
    with pytest.raises(UserError, match="--trust"):
        require_trusted("mine:Env-v0", tmp_path)
    remember("mine:Env-v0")
    remember("also:Env-v0")
    require_trusted("mine:Env-v0", tmp_path)
    require_trusted("also:Env-v0", tmp_path)
    with pytest.raises(UserError, match="'other'"):
        require_trusted("other:Env-v0", tmp_path)


def test_names_that_import_nothing_are_not_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "data"))
    require_trusted("Pendulum-v1", tmp_path)
    require_trusted(None, tmp_path)
    remember("Pendulum-v1")
    assert not (tmp_path / "data").exists()


def test_trusting_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        trust_run(tmp_path)
