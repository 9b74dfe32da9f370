"""The course of a run: the collection rule per seed, evaluations, what is written, and stopping anywhere."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import toy_task as toy

import calql
import corridor
from calql.data import return_to_go
from calql.engine.plan import Plan
from calql.engine.run import Run
from calql.methods import METHODS
from calql.results import MetricsLog, Silent
from calql.results.metrics import read_rows
from calql.runs.life import Watching, resume
from calql.system.errors import UserError
from event_files import steps

pytestmark = pytest.mark.slow

TINY: dict[str, Any] = {
    **{name: toy.TINY[name] for name in ("policy_widths", "critic_widths", "sampled_actions", "backup_actions")},
    "batch_size": 8,
    "seeds": 2,
    "offline_updates": 12,
    "online_steps": 60,
    "evaluate_offline_every": 5,
    "evaluate_online_every": 25,
    "evaluation_episodes": 2,
    "block": 8,
    "critic_rate": 3e-3,
}


def train(folder: Path, **changes: Any) -> calql.Outcome:
    return calql.train(
        dataset=corridor.demonstrations(), env=corridor_env, out=folder, episode_limit=20, **{**TINY, **changes}
    )


def corridor_env() -> corridor.Corridor:
    return corridor.Corridor()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> calql.Outcome:
    return train(tmp_path_factory.mktemp("run") / "r", dual=True)


def test_rows_say_everything_at_every_evaluation(finished: calql.Outcome) -> None:
    rows = finished.rows
    assert finished.finished
    for seed in (0, 1):
        mine = [row for row in rows if row["seed"] == seed]
        assert [row["update"] for row in mine if row["phase"] == "offline"] == [0, 5, 10, 12]
        assert [row["switch"] for row in mine if row["phase"] == "offline"] == [False, False, False, True]
        online = [row for row in mine if row["phase"] == "online"]
        assert online[-1]["env_steps"] >= 60
        steps = [row["env_steps"] for row in online]
        assert steps == sorted(steps)
        assert [step // 25 for step in steps] == sorted({step // 25 for step in steps})  # one per interval passed
        for number, row in enumerate(online, start=1):
            assert row["update"] == 12 + row["env_steps"]  # as many updates as steps
            assert row["regret"] == pytest.approx(np.mean([1 - r["score"] for r in online[:number]]))
        wanted = {
            "score", "regret", "average_q", "average_return_to_go", "conservative_gap", "alpha", "alpha_prime",
            "episode_length", "bound_rate/q1/policy", "bound_rate/q2/next",
        }  # fmt: skip
        assert wanted <= set(online[-1])


def test_speed_is_kept_apart_from_results(finished: calql.Outcome) -> None:
    speed = read_rows(finished.folder / "speed.jsonl")
    assert {"updates_per_s", "env_steps_per_s", "elapsed_s", "device_wait_share", "memory_mb"} <= set(speed[-1])
    assert 0.0 <= speed[-1]["device_wait_share"] <= 1.0
    assert not {"updates_per_s", "env_steps_per_s"} & set(finished.rows[-1])


def test_the_folder_holds_what_it_should(finished: calql.Outcome) -> None:
    names = {path.name for path in finished.folder.iterdir()}
    assert {"config.json", "metrics.jsonl", "speed.jsonl", "status.json", "checkpoints"} <= names
    assert {"calibration-switch.npz", "calibration-end.npz"} <= names
    config = json.loads((finished.folder / "config.json").read_text())
    assert config["options"]["calibrate"] is True
    assert config["run"]["mixing"] == 0.5
    assert config["versions"]["jax"]


def build(folder: Path, env: Callable[[], corridor.Corridor] = corridor_env, **changes: Any) -> Run:
    """A run that has not started, for looking inside."""
    from calql.runs import preparation, request

    choice = request.Choice(method="cal-ql", episode_limit=20)
    task, data, notes = request.resolve_task(choice, env, corridor.demonstrations())
    run, options = request.defaults(choice, task)
    run, options = request.set_options(run, options, {**TINY, **changes}, "cal-ql")
    plan = preparation.plan(preparation.prepare(choice, task, data, run, options, notes))
    folder.mkdir(exist_ok=True)
    return Run(plan, folder, Silent())


def test_collected_steps_are_valued_before_any_update_on_them(tmp_path: Path) -> None:
    run = build(tmp_path / "r", offline_updates=0)
    while int(run.counters.episodes.min()) < 2:
        run._advance()
    rule = run.plan.task.rewards
    for seed in range(2):
        size = int(run.replay.inserted[seed])
        rewards = np.asarray(run.replay.rows.rewards[seed])[:size]
        terminals = np.asarray(run.replay.rows.terminals[seed])[:size]
        held = np.asarray(run.replay.rows.reference[seed])[:size]
        ends = [*np.flatnonzero(terminals), *range(19, size, 20), size - 1]
        start = 0
        for end in sorted({int(e) for e in ends}):
            piece = slice(start, end + 1)
            expected = return_to_go(rewards[piece], terminals[piece], 0.99, sparse_failure_reward=rule.mapped_failure)
            if len(rewards[piece]) == 20 or terminals[end]:
                np.testing.assert_allclose(held[piece], expected, rtol=1e-5)
            start = end + 1
        assert np.isfinite(held).all()


def test_each_seed_does_its_own_updates(tmp_path: Path) -> None:
    run = build(tmp_path / "r", online_steps=80)
    for _ in range(60):
        run._advance()
        done = np.asarray(run.learning.updates) - 12
        if run.online:
            np.testing.assert_array_equal(done + run.counters.debt, run.counters.env_steps)
    assert (run.counters.debt >= 0).all()


def test_the_switch_changes_the_mixture_alone(tmp_path: Path) -> None:
    run = build(tmp_path / "r")
    while int(run.learning.updates[0]) < 12:
        run._advance()
    before = jax.device_get(run.learning.state)
    program = run.program
    run._advance()
    assert run.online
    toy.same(before, run.learning.state)
    assert run.program == program  # not even compiled again


def test_no_seed_is_taken_out_of_the_state_at_the_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several devices each leaf would go through all of them, in programs that may wait for each other."""
    run, seen = build(tmp_path / "r"), []
    whole = type(run.plan.method).switch

    def watched(method: Any, state: Any) -> Any:
        seen.extend(jax.tree.leaves(state))
        return whole(method, state)

    monkeypatch.setattr(type(run.plan.method), "switch", watched)
    while not run.online:
        run._advance()
    assert seen
    assert all(isinstance(leaf, jax.core.Tracer) for leaf in seen)


STOPPED = {
    "cal-ql": {},
    "cql-sac": {},
    "lag": {"lag": 1},
    "lag, several": {"lag": 1, "trajectories": 2},
    "step": {"update_schedule": "step"},
    "pieces": {"lag": 1, "block": 36, "workers": 0},  # as an accelerator is given its blocks
}


@pytest.mark.parametrize("case", STOPPED)
def test_stopping_and_going_on_changes_nothing(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, method = corridor.write_demonstrations(tmp_path), case if case in METHODS else "cal-ql"
    own: dict[str, Any] = {"dataset": path, "env": "corridor:Corridor-v0", "method": method, **TINY, **STOPPED[case]}
    monkeypatch.setattr(Plan, "on_accelerator", case == "pieces")
    whole = calql.train(out=tmp_path / "whole", **own)
    rng = np.random.default_rng(1)
    longest = 16 if case == "step" else 5  # a round is then one step
    stop_after(monkeypatch, lambda: int(rng.integers(1, longest)))
    cut = calql.train(out=tmp_path / "cut", **own)
    stops = 0
    while not cut.finished:
        cut = resume(tmp_path / "cut", Watching())
        stops += 1
    assert stops >= 3
    assert (tmp_path / "cut" / "metrics.jsonl").read_bytes() == (whole.folder / "metrics.jsonl").read_bytes()
    for name in ("calibration-switch.npz", "calibration-end.npz"):
        left, right = np.load(whole.folder / name), np.load(tmp_path / "cut" / name)
        np.testing.assert_array_equal(left["q"], right["q"])


def stop_after(monkeypatch: pytest.MonkeyPatch, rounds: Callable[[], int]) -> None:
    """Runs stop of themselves after a number of rounds."""
    execute = Run.execute

    def short(run: Run, _: Callable[[], bool]) -> bool:
        left = rounds()

        def stop() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        return execute(run, stop)

    monkeypatch.setattr(Run, "execute", short)


def test_offline_only_and_online_only(tmp_path: Path) -> None:
    offline = train(tmp_path / "offline", online_steps=0)
    assert offline.finished
    assert {row["phase"] for row in offline.rows} == {"offline"}
    online = train(tmp_path / "online", offline_updates=0, online_steps=30)
    assert online.finished
    assert [row["switch"] for row in online.rows].count(True) == 2


def test_tensorboard_has_every_row_once_after_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a run that was killed: its rows since the last checkpoint are in the event files already."""
    pytest.importorskip("tensorboardX")
    path, watching = corridor.write_demonstrations(tmp_path), Watching(tensorboard=True)
    own: dict[str, Any] = {"dataset": path, "env": "corridor:Corridor-v0", "episode_limit": 20, **TINY}
    stop_after(monkeypatch, lambda: 6)
    cut = calql.train(out=tmp_path / "r", watching=watching, **own)
    save, saves = Run.save, 0

    def killed(run: Run) -> None:
        nonlocal saves
        saves += 1
        if saves == 2:
            raise KeyboardInterrupt
        save(run)

    monkeypatch.setattr(Run, "save", killed)
    while not cut.finished:
        try:
            cut = resume(tmp_path / "r", watching)
        except KeyboardInterrupt:
            continue
    for seed in (0, 1):
        assert steps(cut.folder, seed) == [row["update"] for row in cut.rows if row["seed"] == seed]


def test_an_environment_that_raises_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the motor is off"):
        calql.train(dataset=corridor.demonstrations(), env=_breaks_online, out=tmp_path / "r", episode_limit=20, **TINY)


class _Late(corridor.Corridor):
    """Breaks in its first collected episode: the evaluation environments are reset more often."""

    steps = 0

    def step(self, action: np.ndarray) -> Any:
        type(self).steps += 1
        if type(self).steps > 700:
            raise RuntimeError("the motor is off")
        return super().step(action)


def _breaks_online() -> _Late:
    return _Late()


@pytest.mark.parametrize("phase", ["offline", "online"])
def test_a_full_disk_is_said_so(phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = MetricsLog.append

    def until_full(log: MetricsLog, rows: Any) -> None:
        if any(row["phase"] == phase for row in rows):
            raise OSError(errno.ENOSPC, "No space left on device")
        append(log, rows)

    monkeypatch.setattr(MetricsLog, "append", until_full)
    with pytest.raises(UserError, match="the disk is full"):
        train(tmp_path / "r")
    status = json.loads((tmp_path / "r" / "status.json").read_text())
    assert "the disk is full" in status["reason"] or "No space left" in status["reason"]


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    with pytest.raises(UserError, match="exists already"):
        train(tmp_path / "r")
    assert list((tmp_path / "r").iterdir()) == []


def test_learning_happens(tmp_path: Path) -> None:
    """The end-to-end claim on the simplest task: demonstrations are imitated and kept through the switch."""
    outcome = train(
        tmp_path / "r", offline_updates=600, online_steps=200, evaluate_offline_every=600, seeds=1,
        policy_widths=(32, 32), critic_widths=(32, 32), batch_size=64, policy_rate=3e-3, evaluation_episodes=5,
        block=100, dual=False, conservative_weight=1.0, target_rate=0.05,
    )  # fmt: skip
    rows = outcome.rows
    assert rows[0]["score"] < 0.5
    assert rows[-1]["score"] >= 0.8
