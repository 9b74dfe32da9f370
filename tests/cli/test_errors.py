"""Bad input: exit code 2, one line that says what and how to mend it, and no half-made run folder."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import corridor
from calql.cli import main


def fails(words: list[str], capsys: pytest.CaptureFixture[str], out: Path) -> str:
    """The one line of a command that must be refused."""
    code = main([*words, "--out", str(out)])
    captured = capsys.readouterr().err.strip()
    assert code == 2
    assert len(captured.splitlines()) == 1, captured
    assert not out.exists()
    return captured


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--task", "point-maze-narow"], "did you mean 'point-maze-narrow'"),
        (["train", "--method", "calql"], "did you mean 'cal-ql'"),
        (["train", "--preset", "papr"], "did you mean 'paper'"),
        (["train", "--conservative-wieght", "3"], "did you mean 'conservative-weight'"),
        (["train", "--seeds", "none"], "seeds"),
        (["train", "--seeds", "0"], "at least 1"),
        (["train", "--mixing", "1.5"], "[0, 1]"),
        (["train", "--target-subset", "3"], "number of critics"),
        (["train", "--discount", "1.0"], "below 1"),
        (["train", "--dataset", "missing.hdf5", "--env", "corridor:Corridor-v0"], "missing.hdf5"),
        (["train", "--env", "corridor:Corridor-v0"], "--dataset is missing"),
    ],
)
def test_names_and_numbers(words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert said in fails(words, capsys, tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--env corridor:Corridor-v0", "--dataset is missing"),
        ("--offline", "--dataset is missing"),
        ("--dataset gone.npz --env corridor:Corridor-v0 --vary calibrat=true,false", "did you mean 'calibrate'"),
        ("--dataset gone.npz --env corridor:Corridor-v0 --method CQL", "did you mean 'cql'"),
    ],
)
def test_what_names_alone_show_is_refused_before_anything_is_read(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words.split()]) == 2
    heard = capsys.readouterr()
    assert said in heard.err
    assert not heard.out


def test_a_module_in_this_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [place for place in sys.path if place])
    good = own(corridor.write_demonstrations(tmp_path), "nobodys_robot:Point-v0")
    assert "PYTHONPATH" not in fails(good, capsys, tmp_path / "run")
    (tmp_path / "nobodys_robot.py").write_text("")
    said = fails(good, capsys, tmp_path / "run")
    assert "nobodys_robot.py is in this folder" in said
    assert "PYTHONPATH=." in said
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "nobodys_robot.py").write_text("import no_such_thing")
    assert "PYTHONPATH" not in fails(good, capsys, tmp_path / "run")  # what is missing is another


def test_a_dataset_is_no_film(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = corridor.write_demonstrations(tmp_path)
    said = fails(["render", str(data)], capsys, tmp_path / "film.gif")
    assert f"calql data view {data}" in said


def test_unknown_commands_suggest_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    assert "did you mean 'train'" in capsys.readouterr().err


def own(path: Path, env: str = "corridor:Corridor-v0") -> list[str]:
    return ["train", "--dataset", str(path), "--env", env]


def test_damaged_and_incomplete_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = corridor.write_demonstrations(tmp_path)
    columns = dict(np.load(good))

    def npz(name: str, **changes: np.ndarray) -> Path:
        path = tmp_path / f"{name}.npz"
        np.savez(path, **{key: value for key, value in {**columns, **changes}.items() if value is not None})
        return path

    truncated = tmp_path / "truncated.hdf5"
    with h5py.File(truncated, "w") as file:
        file["observations"] = np.zeros((1000, 2), np.float32)
    truncated.write_bytes(truncated.read_bytes()[:2000])
    nan = columns["observations"].copy()
    nan[3, 0] = np.nan
    wide = np.zeros((len(nan), 3), np.float32)
    cases = {
        truncated: "truncated.hdf5",
        npz("keys", rewards=None): "rewards",
        npz("lengths", rewards=columns["rewards"][:-1]): "rewards",
        npz("nan", observations=nan): "observations",
        npz("shape", observations=wide, next_observations=wide): "3",
        npz("ends", terminals=columns["terminals"] * 0, timeouts=columns["terminals"] * 0): "episode",
    }  # fmt: skip
    for path, said in cases.items():
        assert said in fails(own(path), capsys, tmp_path / "run")


def test_environments_that_cannot_be_made_or_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = corridor.write_demonstrations(tmp_path)
    assert "package:Name-v0" in fails(own(good, "nowhere:Nothing-v0"), capsys, tmp_path / "run")
    assert "the motor is off" in fails(own(good, "corridor:Broken-v0"), capsys, tmp_path / "run")
    assert "CartPole-v1" in fails(own(good, "CartPole-v1"), capsys, tmp_path / "run")


def test_resuming_what_is_not_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["train", "--resume", str(tmp_path)]) == 2
    assert "remove the folder and give the command that began it again" in capsys.readouterr().err
    (tmp_path / "something").write_text("")
    assert main(["train", "--resume", str(tmp_path)]) == 2
    assert "not a run folder" in capsys.readouterr().err


def test_evaluating_what_is_not_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "something").write_text("")
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "not a run folder" in capsys.readouterr().err
