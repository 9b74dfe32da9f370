"""--real: one environment in all, however many seeds, trajectories and evaluations there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import robot
from test_probe import TINY, counts  # noqa: F401

import calql
import corridor
from calql.cli import main
from calql.runs import life as training
from calql.runs.stops import Stops
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {
    **TINY, "seeds": 2, "evaluation_episodes": 12, "trajectories": 2, "lag": 1, "real": True, "score": "success",
}  # fmt: skip


def train(folder: Path, **changes: Any) -> calql.Outcome:
    data = corridor.write_demonstrations(folder.parent)
    return calql.train(dataset=data, env="robot:Robot-v0", out=folder, **{**OPTIONS, **changes})


def test_one_connection_at_a_time_and_nothing_is_tried_out(tmp_path: Path, counts: Path) -> None:  # noqa: F811
    outcome = train(tmp_path / "run")
    assert outcome.finished
    assert robot.most_open(counts) == 1
    last = [note["what"] for note in robot.noted(counts)]
    assert last.count("made") == last.count("closed") == 2  # to read its spaces, and to train
    evaluations = len(outcome.rows) * OPTIONS["evaluation_episodes"]
    collected = sum(row["collected_episodes"] for row in outcome.rows)
    assert last.count("reset") == evaluations + collected


def test_a_run_that_is_stopped_sends_nothing_more_and_lets_go(
    tmp_path: Path,
    counts: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within an episode; and it goes on as if nothing had happened."""
    asked = Stops.asked
    monkeypatch.setattr(Stops, "asked", lambda stops: robot.times(counts, "step") >= 25 or asked(stops))
    outcome = train(tmp_path / "run")
    assert not outcome.finished
    assert robot.times(counts, "step") == 25
    assert robot.noted(counts)[-1]["what"] == "closed"
    monkeypatch.undo()
    assert training.resume(outcome.folder).finished
    whole = train(tmp_path / "whole")
    assert (outcome.folder / "metrics.jsonl").read_bytes() == (whole.folder / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("schedule", [{"lag": 0}, {"lag": 0, "trajectories": 1}])
def test_stopped_within_a_collected_episode_of_any_order(
    schedule: dict[str, Any],
    tmp_path: Path,
    counts: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = {**schedule, "evaluation_episodes": 1, "online_steps": 200, "evaluate_online_every": 40}
    whole = train(tmp_path / "whole", **few)
    steps = robot.times(counts, "step")
    asked, limit = Stops.asked, [0]
    monkeypatch.setattr(Stops, "asked", lambda stops: robot.times(counts, "step") >= limit[0] or asked(stops))
    counts.unlink()
    limit[0] = steps // 7
    outcome = train(tmp_path / "run", **few)
    stops = 0
    while not outcome.finished:
        limit[0] = robot.times(counts, "step") + 150  # more than a round has, or it would never end
        outcome, stops = training.resume(outcome.folder), stops + 1
    assert stops >= 2
    assert (outcome.folder / "metrics.jsonl").read_bytes() == (whole.folder / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"update_schedule": "step", "lag": 0, "trajectories": 1}, "update_schedule is 'step'"),
        ({"workers": 2}, "workers is 2; it must be 0 with real=True"),
        ({"step_timeout": 0.0}, "step_timeout is 0.0"),
    ],
)
def test_what_cannot_be_one_environment_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        train(tmp_path / "run", **changes)


def test_evaluating_a_real_run_takes_turns_too(tmp_path: Path, counts: Path) -> None:  # noqa: F811
    folder = train(tmp_path / "run", online_steps=0).folder
    counts.unlink()
    assert main(["evaluate", str(folder), "--episodes", "3"]) == 0
    assert robot.most_open(counts) == 1
    assert robot.times(counts, "reset") == 6
