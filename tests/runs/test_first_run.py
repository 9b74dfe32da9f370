"""What a newcomer gets: two methods as one program, maps of Q, the policy at the switch, films; also after a kill."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import calql
from calql.cli import main, train
from calql.results import Row, Silent
from calql.results.metrics import read_rows
from calql.runs import run_films
from calql.runs.folder import clean
from calql.runs.life import Watching
from calql.runs.policy_folder import read_policies
from calql.runs.record import arm_titles
from calql.runs.request import Choice
from calql.system.run_files import MAPS, METRICS, POLICY_AT_SWITCH

pytestmark = pytest.mark.slow  # one run of the whole command, for all of them

TINY: dict[str, Any] = {
    "seeds": 2, "offline_updates": 6, "online_steps": 30, "evaluate_offline_every": 6, "evaluate_online_every": 20,
    "evaluation_episodes": 1, "policy_widths": (8,), "critic_widths": (8,), "batch_size": 8, "sampled_actions": 2,
    "backup_actions": 2, "checkpoint_minutes": 60.0, "episode_limit": 12,
}  # fmt: skip
ARMS = ("calibrate=true", "calibrate=false")
CHECKPOINTS = ("before the switch", "after the first updates", "at the end")


def typed() -> list[str]:
    words = []
    for name, value in TINY.items():
        words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else [value])]
    return words


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first") / "run"
    assert main(["train", *typed(), "--out", str(folder), "--quiet"]) == 0
    return folder


def test_who_names_nothing_gets_cal_ql_and_cql_side_by_side(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    assert config["task"] == "point-maze-quick"
    assert config["choice"]["vary"] == "calibrate=true,false"
    assert {row["arm"] for row in read_rows(run / METRICS)} == set(ARMS)


@pytest.mark.parametrize(
    "words", [["--method", "cql"], ["--task", "point-maze-narrow"], ["--vary", "gap=1,2"], ["--no-calibrate"]]
)
def test_who_names_something_gets_that(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--explain", *words]) == 0
    about = capsys.readouterr().out.splitlines()[0]
    assert "calibrate=true" not in about


def test_the_default_is_said_in_the_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--explain", "--seeds", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "cal-ql on point-maze-quick, for each of calibrate=true,false"


@pytest.mark.parametrize(
    ("vary", "names"),
    [
        ("calibrate=true,false", {"calibrate=true": "Cal-QL", "calibrate=false": "CQL"}),
        ("conservative_weight=1,5", {}),  # 5 is the default, and so Cal-QL: the name would hide the value
    ],
)
def test_arms_are_called_by_names_of_papers_where_all_have_one(vary: str, names: dict[str, str]) -> None:
    assert arm_titles(Choice(vary=vary)) == names


def test_maps_have_a_panel_of_each_arm_seed_and_moment(run: Path) -> None:
    found = json.loads((run / MAPS).read_text())
    panels = {(panel["arm"], panel["seed"], panel["checkpoint"]): panel["values"] for panel in found["panels"]}
    assert panels.keys() == {(arm, seed, checkpoint) for arm in ARMS for seed in (0, 1) for checkpoint in CHECKPOINTS}
    assert len(found["panels"]) == len(panels)
    for values in panels.values():
        assert (len(values), len(values[0])) == (len(found["y"]), len(found["x"]))
    before, first, end = (np.array(panels[ARMS[0], 0, checkpoint], float) for checkpoint in CHECKPOINTS)
    assert np.isnan(before).sum() == 24 * 25  # walls alone
    assert not np.array_equal(before, first, equal_nan=True)
    assert not np.array_equal(first, end, equal_nan=True)


def test_the_policy_at_the_switch_is_kept_beside_the_last_one(run: Path) -> None:
    before, after = read_policies(run / POLICY_AT_SWITCH), read_policies(run / "policy")
    assert (before.description["phase"], before.description["env_steps"]) == ("offline", [0] * 4)
    assert (after.description["phase"], before.of_member.keys()) == ("online", after.of_member.keys())
    seen = np.zeros(4, np.float32)
    actions = [calql.load_policy(folder, arm=ARMS[0], seed=1)(seen) for folder in (run / POLICY_AT_SWITCH, run)]
    assert not np.array_equal(*actions)


def test_films_of_both_arms_before_and_after(run: Path) -> None:
    found = json.loads((run / "films" / "films.json").read_text())
    assert [(film["arm"], film["checkpoint"], film["seed"]) for film in found] == [
        (arm, checkpoint, 0) for arm in ARMS for checkpoint in ("switch", "final")
    ]
    assert [film["title"] for film in found[1:3]] == [
        "Cal-QL, seed 0, after fine-tuning",
        "CQL, seed 0, before fine-tuning",
    ]
    for film in found:
        with Image.open(run / "films" / film["file"]) as pictures:
            assert min(pictures.size) >= 480
            assert 2 <= pictures.n_frames <= 13
    assert {path.name for path in (run / "films").iterdir()} == {"films.json", *(film["file"] for film in found)}


def test_films_that_cannot_be_written_do_not_lose_the_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the encoder is gone")

    copy = shutil.copytree(run, tmp_path / "run")
    monkeypatch.setattr(run_films, "write_films", broken)
    outcome = train.training.Outcome(copy, finished=True, reason="finished")
    assert train._finish(outcome, films=True) == 0
    printed = capsys.readouterr().out
    assert "no films: the encoder is gone; try again with: calql render" in printed
    assert "report:" in printed


def test_all_policies_as_one_film_side_by_side(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.gif"
    assert main(["render", str(run), "--out", str(out), "--all-policies", "--seed", "2"]) == 0
    with Image.open(out) as film:
        assert film.size == (4 * 672 + 3 * 6, 2 * (480 + 2 * 34) + 6)  # arms and checkpoints across, seeds down
    assert main(["render", str(run), "--out", str(out), "--arm", ARMS[1], "--checkpoint", "final"]) == 0
    with Image.open(out) as film:
        assert film.size == (672, 480 + 2 * 34)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--arm", "gap=1"], "the run has no arm 'gap=1'; its arms: calibrate=true, calibrate=false"),
        (["--policies", "7"], "the run has no seed 7; its seeds: [0, 1]"),
        (["--policies", "0", "--all-policies"], "--policies and --all-policies exclude each other"),
        (["--pixels", "100"], "--pixels is 100; it must be in [480, 2160]"),
        (["--out", "film.avi"], "name it .gif or .mp4"),
    ],
)
def test_what_cannot_be_filmed_is_said_in_one_line(
    words: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", str(run), *words]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_run_without_a_policy_of_the_switch_is_filmed_as_it_is(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(copy / POLICY_AT_SWITCH)
    assert main(["render", str(copy)]) == 0
    assert "so there is no film of before" in capsys.readouterr().out
    assert {film["checkpoint"] for film in json.loads((copy / "films" / "films.json").read_text())} == {"final"}
    assert main(["render", str(copy), "--checkpoint", "switch"]) == 2
    assert "film it with --checkpoint final" in capsys.readouterr().err


def test_what_a_kill_left_of_a_film_goes_and_whole_ones_stay(tmp_path: Path) -> None:
    films = tmp_path / "films"
    films.mkdir()
    for name in (f".seed-0-after.gif.{'0' * 32}", "seed-0-after.gif"):
        (films / name).touch()
    clean(tmp_path)
    assert [path.name for path in films.iterdir()] == ["seed-0-after.gif"]


class Struck(Silent):
    """Ends the process, as far as the run can tell, when so many evaluations have been written."""

    def __init__(self, after: int) -> None:
        self.left = after

    def evaluation(self, rows: Sequence[Row]) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [1, 2, 3])
def test_killed_and_resumed_has_the_same_rows_and_maps(after: int, run: Path, tmp_path: Path) -> None:
    """Struck before the switch, right behind it, and after the first updates."""
    folder = tmp_path / "run"
    options = {**TINY, "vary": {"calibrate": (True, False)}}
    with pytest.raises(KeyboardInterrupt):
        calql.train("point-maze-quick", out=folder, watching=Watching(Struck(after)), **options)
    assert calql.resume(folder, progress=False).finished
    assert (folder / METRICS).read_bytes() == (run / METRICS).read_bytes()
    maps = [json.loads((place / MAPS).read_text())["panels"] for place in (folder, run)]
    key = lambda panel: (panel["arm"], panel["seed"], panel["checkpoint"])  # noqa: E731
    assert sorted(maps[0], key=key) == sorted(maps[1], key=key)
    assert (
        read_policies(folder / POLICY_AT_SWITCH).description["checksums"]
        == (read_policies(run / POLICY_AT_SWITCH).description["checksums"])
    )
