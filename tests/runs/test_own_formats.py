"""From a stranger's format to a trained policy: the whole way, through the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import bad_world
import calql
import corridor
from calql.cli import main
from calql.runs.trust import remember
from calql.system.errors import UserError

pytestmark = pytest.mark.slow
TINY = bad_world.TINY


def _words(value: object) -> list[str]:
    return [str(part) for part in value] if isinstance(value, tuple) else [str(value)]


FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", *_words(value))]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "store"))
    monkeypatch.syspath_prepend(str(tmp_path))


def table(path: Path) -> None:
    """As a data logger writes it: numbers in columns of their own, and a name for each run."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    data = corridor.demonstrations()
    episode = np.repeat(np.arange(len(data.episode_ends)), data.episode_lengths)
    columns = {
        "run_id": [f"run {number}" for number in episode],
        "joint_0": data.observations[:, 0],
        "joint_1": data.observations[:, 1],
        "cmd_0": data.actions[:, 0],
        "reached": data.terminals,
    }
    parquet.write_table(pa.table(columns), path)


def test_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path / "log.parquet")
    how = ["--columns", "observation=joint_*", "action=cmd_*", "episode=run_id", "--reward", "success=reached"]
    assert main(["data", "inspect", "log.parquet", *how]) == 0
    shown = capsys.readouterr().out
    assert "reward: 1 where 'reached' is first true" in shown
    assert "(joint_0 0:1, joint_1 1:2)" in shown
    words = [
        "train",
        "--dataset",
        "log.parquet",
        *how,
        "--env",
        "corridor:Corridor-v0",
        "--out",
        "run",
        "--quiet",
        *FLAGS,
    ]
    assert main(words) == 0
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["choice"]["columns"] == how[1:4]
    assert config["choice"]["reward"] == "success=reached"
    assert config["dataset"]["observation_parts"] == [["joint_0", 0, 1], ["joint_1", 1, 2]]
    assert config["dataset"]["transitions"] == len(corridor.demonstrations())
    assert calql.resume("run", online_steps=40).finished  # the same rows again, or it would be refused


def test_a_folder_of_lerobot(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from format_samples import as_lerobot

    as_lerobot(corridor.demonstrations(), tmp_path)
    outcome = calql.train(dataset="lerobot", env="corridor:Corridor-v0", out="run", progress=False, **TINY)
    assert outcome.finished
    assert calql.load_policy("run")(np.zeros(2, np.float32)).shape == (1,)


def test_a_reward_function_is_asked_about_like_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_rewards.py").write_text(
        "def reached(observations, actions, following):\n    return (following[:, 0] > 3.0).astype(float)\n"
    )
    corridor.write_demonstrations(tmp_path)
    given = {"dataset": "corridor.npz", "env": "corridor:Corridor-v0", "reward": "own_rewards:reached"}
    assert calql.train(**given, out="run", progress=False, **TINY).finished
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "another user's"))
    with pytest.raises(UserError, match=r"imports the module 'corridor'.*--trust"):
        calql.resume("run", online_steps=40)
    config = json.loads((tmp_path / "run/config.json").read_text())
    config["choice"]["reward"] = "strange_rewards:reached"
    remember("corridor:Corridor-v0")
    (tmp_path / "run/config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"imports the module 'strange_rewards', which only its config.json names"):
        calql.resume("run", online_steps=40)


def test_bad_episodes_are_dropped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = bad_world.columns()
    arrays["observations"][3] = np.nan
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    given = {"dataset": "bad.npz", "env": "corridor:Corridor-v0", "out": "run", "progress": False, **TINY}
    with pytest.raises(UserError, match="'observations' holds 2 NaN values"):
        calql.train(**given)
    assert calql.train(**given, drop_bad_episodes=True).finished
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["dataset"]["episodes"] == 11
    assert main(["data", "convert", "bad.npz", "good.hdf5", "--drop-bad-episodes"]) == 0
    said = capsys.readouterr().out
    assert "1 of 12 episodes dropped: NaN or inf in 'observations' (episode 0)" in said
    assert main(["data", "inspect", "good.hdf5"]) == 0
    assert "episodes        11" in capsys.readouterr().out
