"""Training on logs alone: no environment is ever made, and what one would have said is said from held-out episodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_probe import TINY

import calql
import corridor
from calql.cli import main
from calql.data import load
from calql.domains.own.logs import action_bounds
from calql.engine.run import Run
from calql.results import Silent, logs_tables, read_rows, read_runs
from calql.results.logs_alone import WARNING, best, lead
from calql.results.report import write_report
from calql.runs import preparation, record
from calql.runs.export.numpy_policy import NumpyPolicy
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

ONLINE = ("online_steps", "evaluate_online_every", "evaluation_episodes")
SMALL: dict[str, Any] = {name: value for name, value in TINY.items() if name not in ONLINE}
OPTIONS = {
    **SMALL,
    "seeds": 2,
    "offline_updates": 20,
    "evaluate_offline_every": 10,
    "fqe_updates": 30,
    "hold_out": 0.25,
}
SAID = ("fqe_value", "fqe_low", "fqe_high", "behaviour_value", "action_distance")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    data = corridor.write_demonstrations(folder)
    return calql.train(dataset=data, offline=True, out=folder / "run", **OPTIONS).folder


def test_rows_say_what_the_logs_say(run: Path) -> None:
    rows = read_rows(run / "metrics.jsonl")
    assert [(row["seed"], row["update"]) for row in rows] == [(s, u) for u in (0, 10, 20) for s in (0, 1)]
    for row in rows:
        assert row["score"] is None
        assert row["return"] is None
        assert all(np.isfinite(row[name]) for name in SAID)
        assert row["fqe_low"] <= row["fqe_value"] <= row["fqe_high"]
    data = load(run.parent / "corridor.npz")
    held_out = data.split(0.25, seed=0)[1]
    assert held_out is not None
    goal = 0.99 ** (held_out.episode_lengths - 1)  # reward 1 at the end of each
    assert rows[0]["behaviour_value"] == pytest.approx(float(goal.mean()), rel=1e-4)
    assert json.loads((run / "status.json").read_text())["finished"]
    (note,) = json.loads((run / "config.json").read_text())["fits"]
    assert f"{len(held_out.episode_ends)} episodes are held out: intervals over so few say little" in note


def test_bounds_of_actions_are_those_of_the_data_unless_given() -> None:
    data = corridor.demonstrations()
    box, notes = action_bounds(data, (), ())
    np.testing.assert_allclose([box.low, box.high], [data.actions.min(axis=0), data.actions.max(axis=0)])
    assert "taken from the data" in notes[0]
    box, notes = action_bounds(data, (-3.0,), (3.0,))
    assert (box.low.tolist(), box.high.tolist(), notes) == ([-3.0], [3.0], [])
    box, notes = action_bounds(data, (-3.0,), ())
    assert box.low.tolist() == [-3.0]
    assert len(notes) == 1


def test_its_policy_loads_exports_and_stays_within_the_bounds(run: Path, tmp_path: Path) -> None:
    rows = read_rows(run / "metrics.jsonl")[-2:]
    wanted = max(rows, key=lambda row: row["fqe_low"])["seed"]
    written = calql.export_policy(run, "npz", tmp_path / "p.npz")
    assert written.description["seed"] == wanted == best(rows)
    assert "highest lower end of its value by fitted Q evaluation" in written.description["chosen"]
    seen = np.array([0.3, 1.0], np.float32)
    action = calql.load_policy(run, seed=wanted)(seen)
    np.testing.assert_allclose(NumpyPolicy(tmp_path / "p.npz")(seen), action, atol=1e-5)
    logged = load(run.parent / "corridor.npz").actions
    assert logged.min() - 1e-5 <= action <= logged.max() + 1e-5


def test_interrupted_it_goes_on_to_the_same_rows(run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    shutil.rmtree(folder / "checkpoints")
    (folder / "metrics.jsonl").unlink()
    looks = iter([False, False, True])
    first = Run(preparation.plan(record.from_config(folder)[0]), folder, Silent())
    assert not first.execute(lambda: next(looks))
    first.close()
    assert len(read_rows(folder / "metrics.jsonl")) < 6
    (folder / "status.json").write_text(json.dumps({"finished": False, "reason": "stopped"}))
    assert calql.resume(folder).finished
    assert read_rows(folder / "metrics.jsonl") == read_rows(run / "metrics.jsonl")


def test_a_finished_run_goes_on_as_if_it_had_been_asked_for_more(run: Path, tmp_path: Path) -> None:
    """Rows are those of the longer run from its start; an end between two evaluations stands beside them."""
    data, options = run.parent / "corridor.npz", {**OPTIONS, "seeds": 1}
    short = calql.train(dataset=data, offline=True, out=tmp_path / "run", **{**options, "offline_updates": 15}).folder
    assert not (short / "policy-at-switch").exists()  # there is no switch
    assert calql.resume(short, offline_updates=20).finished
    found = read_rows(short / "metrics.jsonl")
    assert [(row["update"], row["phase"], row["switch"]) for row in found] == [
        (update, "offline", False) for update in (0, 10, 15, 20)
    ]
    longer = [row for row in read_rows(run / "metrics.jsonl") if row["seed"] == 0]
    for one, other in zip((found[0], found[1], found[3]), longer, strict=True):
        assert {name: one[name] for name in SAID} == pytest.approx({name: other[name] for name in SAID}, rel=1e-4)
    with pytest.raises(UserError, match="it must be 0 with --offline"):
        calql.resume(short, online_steps=10)


def test_the_report_and_the_terminal_say_what_to_take_and_what_is_not_known(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = write_report([run], tmp_path / "page.html").read_text()
    assert "From the logs alone, take seed" in page
    assert "Nothing was tried in the world" in page
    last = read_rows(run / "metrics.jsonl")[-2:]
    card = logs_tables.results(["mine"], read_runs(run), [0])
    assert [cell.text for cell in card.grid.heads] == ["run", "take", "value", "logged", "distance²", "Q", "return"]
    taken = next(row for row in last if row["seed"] == best(last))
    assert card.grid.rows[0][2].text == f"{taken['fqe_value']:.3g}"
    assert card.grid.rows[0][2].below == f"{taken['fqe_low']:.3g} to {taken['fqe_high']:.3g}"
    assert card.grid.rows[0][2].text in page[page.index('id="results"') :]
    assert "worst early" not in page  # of scores there are none
    assert main(["report", str(run), "--out", str(tmp_path / "other.html")]) == 0
    assert "Values from the logs alone" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "200")
    words = [f"--{name.replace('_', '-')}" for name in OPTIONS]
    pairs = zip(words, (np.atleast_1d(value) for value in OPTIONS.values()), strict=True)
    given = [text for word, values in pairs for text in (word, *map(str, values))]
    command = ["train", "--dataset", str(run.parent / "corridor.npz"), "--offline", "--out", str(tmp_path / "again")]
    assert main([*command, *given, "--action-low", "-2", "--action-high", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "(take)" in said
    assert said.count(WARNING) == 1
    assert f"valuing the policies (fitted Q evaluation, {OPTIONS['fqe_updates']} updates) ..." in said
    assert "score" not in said
    assert json.loads((tmp_path / "again" / "policy" / "policy.json").read_text())["action"]["low"] == -2.0


def test_nothing_can_be_played(run: Path) -> None:
    with pytest.raises(UserError, match="was trained on logs alone, and there is no environment to play in"):
        calql.evaluate(run)


def test_data_in_memory_are_logs_too(tmp_path: Path) -> None:
    data = corridor.demonstrations()
    critics = ("critic_widths", "sampled_actions", "backup_actions")
    options = {name: value for name, value in OPTIONS.items() if name not in critics} | {"seeds": 1, "method": "bc"}
    out = calql.train(dataset=data, offline=True, out=tmp_path / "run", **options)
    assert out.rows[-1]["average_q"] is None
    assert np.isfinite(out.rows[-1]["fqe_value"])
    shutil.rmtree(out.folder / "policy")
    assert calql.load_policy(out.folder)(np.array([0.3, 1.0], np.float32)).shape == (1,)  # from its own kept data


def test_the_highest_lower_end_is_taken_and_of_equals_the_first() -> None:
    def row(seed: int, low: float, value: float, **more: Any) -> dict[str, Any]:
        numbers = {"fqe_value": value, "fqe_low": low, "fqe_high": value + 1.0, "behaviour_value": 1.0}
        return {"seed": seed, "score": None, **numbers, **more}

    rows = [row(0, 9.0, 9.5), row(0, 1.0, 8.0), row(2, 2.0, 3.0), row(1, 2.0, 2.5), row(3, float("nan"), 7.0)]
    assert best(rows) == 1
    assert "take seed 1" in lead(rows)
    assert "seed 0 8 (1 to 9)" in lead(rows)
    assert best([row(0, 9.0, 9.5, score=0.5)]) is None  # it was played
    assert lead([]) == ""
