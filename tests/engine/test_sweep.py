"""Sweeps: every arm is what a run with its value alone would have been, in one program and one folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_run import TINY, corridor_env, stop_after

import calql
import corridor
from calql.cli import main
from calql.engine.options import RunOptions
from calql.engine.run import Run
from calql.methods import METHODS
from calql.results import read_run, read_runs, summarise
from calql.results.report import write_report
from calql.runs.life import Watching, resume
from calql.runs.scores import evaluate
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

ARMS = ("calibrate=true", "calibrate=false")
SHORT = {**TINY, "online_steps": 30}


def train(folder: Path, **changes: Any) -> calql.Outcome:
    own = {"dataset": corridor.demonstrations(), "env": corridor_env, "episode_limit": 20}
    return calql.train(out=folder, **{**own, **SHORT, **changes})


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> calql.Outcome:
    """From a file and a named environment, so that the run can be taken up again."""
    folder = tmp_path_factory.mktemp("sweep")
    data, vary = corridor.write_demonstrations(folder), {"calibrate": (True, False)}
    return train(folder / "r", dataset=data, env="corridor:Corridor-v0", vary=vary)


def of_arm(outcome: calql.Outcome, arm: str) -> list[dict[str, Any]]:
    return [row for row in outcome.rows if row["arm"] == arm]


def alike(rows: list[dict[str, Any]], alone: list[dict[str, Any]]) -> None:
    """The same but for the arm's name and rounding: another number of seeds at once is another order of sums."""
    assert len(rows) == len(alone)
    for row, other in zip(rows, alone, strict=True):
        assert row.keys() - {"arm"} == other.keys()
        for name, value in other.items():
            expected = pytest.approx(value, rel=2e-3, abs=2e-4) if isinstance(value, float) else value
            assert row[name] == expected, name


@pytest.mark.parametrize(
    ("method", "option", "values"),
    [
        ("cal-ql", "calibrate", (True, False)),
        ("cal-ql", "conservative_weight_online", (0.1, 5.0)),
        ("iql", "expectile", (0.6, 0.9)),
        ("td3-bc", "policy_rate", (1e-4, 1e-3)),
    ],
)
def test_each_arm_is_the_run_with_its_value_alone(
    method: str, option: str, values: tuple[Any, ...], tmp_path: Path
) -> None:
    together = train_method(tmp_path / "together", method, vary={option: values})
    rows = [of_arm(together, f"{option}={str(value).lower()}") for value in values]
    assert [len(each) for each in rows] == [len(rows[0])] * len(values)
    for value, each in zip(values, rows, strict=True):
        alone = train_method(tmp_path / str(value), method, **{option: value})
        alike(each, alone.rows)
    assert [row["average_q"] for row in rows[0]] != [row["average_q"] for row in rows[1]]  # the value matters


def train_method(folder: Path, method: str, **changes: Any) -> calql.Outcome:
    """With those of the sizes that the method has."""
    known = vars(RunOptions()) | vars(METHODS[method].options())
    own = {"dataset": corridor.demonstrations(), "env": corridor_env, "episode_limit": 20}
    sizes = {name: value for name, value in SHORT.items() if name in known}
    return calql.train(out=folder, method=method, **{**own, **sizes, **changes})


def test_rows_name_the_arm_and_those_of_a_plain_run_do_not(sweep: calql.Outcome, tmp_path: Path) -> None:
    first = sweep.rows[:4]
    assert [(row["seed"], row["arm"]) for row in first] == [(seed, arm) for arm in ARMS for seed in (0, 1)]
    assert not any("arm" in row for row in train(tmp_path / "plain", online_steps=0).rows)


def test_stopping_and_going_on_changes_nothing(
    sweep: calql.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, rng, stops = corridor.write_demonstrations(tmp_path), np.random.default_rng(1), 0
    stop_after(monkeypatch, lambda: int(rng.integers(1, 4)))
    cut = train(tmp_path / "cut", dataset=data, env="corridor:Corridor-v0", vary={"calibrate": (True, False)})
    while not cut.finished:
        cut = resume(tmp_path / "cut", Watching())
        stops += 1
    assert stops >= 2
    assert (cut.folder / "metrics.jsonl").read_bytes() == (sweep.folder / "metrics.jsonl").read_bytes()


def test_updates_after_each_step_know_arms_too(tmp_path: Path) -> None:
    changes = {"update_schedule": "step", "online_steps": 12}
    together = train(tmp_path / "together", vary={"calibrate": (True, False)}, **changes)
    alike(of_arm(together, ARMS[1]), train(tmp_path / "alone", calibrate=False, **changes).rows)


def test_one_seed_of_one_arm_may_diverge_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy, begin = train(tmp_path / "healthy", vary={"critic_rate": (1e-3, 3e-3)}), Run._train

    def poisoned(run: Run, *inputs: Any) -> None:
        if int(run.counters.gradient_steps[3]) == 10:
            state = run.learning.state
            numbers = state.numbers._replace(critic_rate=state.numbers.critic_rate.at[3].set(1e38))
            run.learning = run.learning._replace(state=state._replace(numbers=numbers))
        begin(run, *inputs)

    monkeypatch.setattr(Run, "_train", poisoned)
    one = train(tmp_path / "one", vary={"critic_rate": (1e-3, 3e-3)})
    assert one.finished
    assert list(one.diverged) == [("critic_rate=0.003", 1)]
    status = json.loads((one.folder / "status.json").read_text())["diverged"]
    assert [(each["seed"], each["arm"]) for each in status] == [(1, "critic_rate=0.003")]
    others = [[r for r in o.rows if (r["seed"], r["arm"]) != (1, "critic_rate=0.003")] for o in (healthy, one)]
    assert others[0] == others[1]


def test_policies_and_scores_are_those_of_the_arms(sweep: calql.Outcome, tmp_path: Path) -> None:
    found = evaluate(sweep.folder, episodes=2)
    assert found["arms"] == [arm for arm in ARMS for _ in range(2)]
    assert found["seeds"] == [0, 1, 0, 1]
    assert len(found["score"]) == 4
    seen = corridor_env().reset(seed=0)[0]
    actions = [calql.load_policy(sweep.folder, arm=arm, seed=1)(seen) for arm in ARMS]
    assert not np.array_equal(*actions)
    data = corridor.write_demonstrations(tmp_path)
    train(tmp_path / "alone", dataset=data, env="corridor:Corridor-v0", calibrate=False)
    np.testing.assert_allclose(calql.load_policy(tmp_path / "alone", seed=1)(seen), actions[1], rtol=2e-3, atol=2e-4)


def test_a_policy_of_a_sweep_needs_an_arm_and_one_of_a_plain_run_has_none(sweep: calql.Outcome) -> None:
    with pytest.raises(UserError, match="is a sweep; name one of its arms: calibrate=true, calibrate=false"):
        calql.load_policy(sweep.folder)
    with pytest.raises(UserError, match="no arm 'calibrate=no'"):
        calql.load_policy(sweep.folder, arm="calibrate=no")


def test_the_report_compares_the_arms(sweep: calql.Outcome) -> None:
    page = write_report([sweep.folder])
    assert page == sweep.folder / "report.html"
    text = page.read_text()
    assert "Cal-QL against CQL" in text
    for name, arm in zip(("Cal-QL", "CQL"), ARMS, strict=True):
        assert f"{name}: {arm}" in text
    assert "options.calibrate" in text  # where the runs differ
    summary = json.loads((sweep.folder / "summary.json").read_text())
    assert list(summary["arms"]) == list(ARMS)
    assert (sweep.folder / "plots" / "score.png").exists()


def test_each_arm_reads_as_a_run_of_its_own(sweep: calql.Outcome, tmp_path: Path) -> None:
    arms, alone = read_runs(sweep.folder), read_run(train(tmp_path / "alone", calibrate=False).folder)
    assert [run.arm for run in arms] == list(ARMS)
    assert [run.option("calibrate") for run in arms] == [True, False]
    assert [len(summarise(run).seeds) for run in arms] == [2, 2]
    for moment in ("switch", "end"):
        np.testing.assert_allclose(arms[1].calibration[moment].q, alone.calibration[moment].q, rtol=2e-3, atol=2e-3)
    with pytest.raises(UserError, match="a sweep of several arms"):
        read_run(sweep.folder)


@pytest.mark.parametrize(
    ("vary", "says"),
    [
        ("critics=2,3", "--vary critics: the arms of a sweep are one program.*can be varied: policy_rate"),
        ("discount=0.9,0.99", "--vary discount: .*can be varied: policy_rate"),
        ("mixing=0.5,0.25", "no option to vary is called 'mixing'"),
        ("calibrat=true,false", "no option to vary is called 'calibrat'.*did you mean 'calibrate'"),
        ("calibrate=true", "give at least two values, each once"),
        ("gap=0.5,0.50", "give at least two values, each once"),
        ("calibrate=yes,no", "--vary calibrate=yes; it must be true or false"),
        ("calibrate", "give one option and its values"),
        ("critic_rate=1e-3,-1", "it must be above 0"),
    ],
)
def test_what_cannot_be_varied_is_refused_before_anything_starts(
    vary: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--vary", vary, "--out", str(tmp_path / "r")]) == 2
    assert re.search(says, capsys.readouterr().err)
    assert not (tmp_path / "r").exists()


def test_python_varies_one_option(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="vary names 2 options"):
        train(tmp_path / "r", vary={"calibrate": (True, False), "gap": (0.5, 0.8)})


def test_a_sweep_cannot_become_another_one(sweep: calql.Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", str(sweep.folder), "--vary", "calibrate=false,true"]) == 2
    assert "--vary calibrate=false,true would make another run of this one" in capsys.readouterr().err
