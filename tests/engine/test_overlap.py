"""Work beside the updates: it changes when things are done, and never what comes out."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import toy_task as toy
from test_run import TINY, build, stop_after

import calql
import corridor
from calql.data.rewards import EpisodeSummary
from calql.engine.collect import Collector, Flight
from calql.engine.evaluation import NEVER_AGAIN, Evaluation, Evaluations
from calql.engine.plan import Plan
from calql.engine.program import Program
from calql.engine.rollout import RolloutWorker, policy_of
from calql.engine.run import Run
from calql.engine.speed import Busy, Stopwatch
from calql.engine.workers import ProcessPool
from calql.results.metrics import read_rows
from calql.runs.life import Watching, resume

pytestmark = pytest.mark.slow


def begin(folder: Path, **changes: Any) -> calql.Outcome:
    path = corridor.write_demonstrations(folder.parent)
    return calql.train(dataset=path, env="corridor:Corridor-v0", out=folder, **{**TINY, **changes})


def train(folder: Path, **changes: Any) -> bytes:
    return (begin(folder, **changes).folder / "metrics.jsonl").read_bytes()


def same_rows(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    """To rounding: of two programs for the same updates."""
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            close = isinstance(value, float)
            assert value == (pytest.approx(other[name], rel=1e-3, abs=1e-4) if close else other[name]), name


@pytest.mark.parametrize("lag", [0, 1])
def test_workers_beside_the_updates_give_the_rows_of_one_thing_after_the_other(
    lag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In worker processes, in worker processes that are waited for at once, and in this process."""
    beside = train(tmp_path / "beside", workers=2, lag=lag)
    submit = ProcessPool.submit

    def waited(workers: ProcessPool, job: Any) -> Future[Any]:
        future = submit(workers, job)
        future.exception()
        return future

    monkeypatch.setattr(ProcessPool, "submit", waited)
    assert train(tmp_path / "waited", workers=1, lag=lag) == beside
    assert train(tmp_path / "here", workers=0, lag=lag) == beside


@pytest.mark.parametrize("lag", [0, 1])
def test_pieces_of_fixed_length_give_the_rows_of_whole_blocks(
    lag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an accelerator is given its blocks; also where nothing that is due is a whole number of pieces."""
    given = toy.noted_loops(monkeypatch)
    whole = read_rows(begin(tmp_path / "whole", lag=lag).folder / "metrics.jsonl")
    assert set(given) == {None}
    monkeypatch.setattr(Plan, "on_accelerator", True)
    for block, piece in ((60, 5), (37, 3)):
        given.clear()
        pieces = begin(tmp_path / str(piece), lag=lag, workers=0, block=block).folder
        assert set(given) == {piece}
        same_rows(read_rows(pieces / "metrics.jsonl"), whole)


def test_lag_changes_results_and_a_repeat_does_not(tmp_path: Path) -> None:
    one, again, none = (train(tmp_path / str(i), lag=lag) for i, lag in enumerate((1, 1, 0)))
    assert one == again
    assert one != none


@pytest.mark.parametrize(("lag", "trajectories"), [(0, 1), (1, 1), (0, 2), (1, 2)])
def test_the_policy_of_a_turn(lag: int, trajectories: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without lag, a round is played after all updates earned before it; with lag, before those of the round before."""
    run = build(tmp_path / "r", offline_updates=3, online_steps=70, lag=lag, trajectories=trajectories, block=7)
    policy_after: dict[tuple[int, int], Any] = {}  # of a seed, by its updates online
    earned = {0: [0], 1: [0]}  # by each round of a seed, in a running sum
    launched: list[tuple[int, int, Any]] = []  # seed, number of the round, policy
    launch, receive = Collector._launch, Collector.receive

    def noted(collector: Collector, index: int, policy: Any, pool: Any) -> None:
        launched.append((index, int(run.counters.episodes[index]) // trajectories, policy))
        launch(collector, index, policy, pool)

    def counted(collector: Collector, who: Any, watch: Any) -> Any:
        episodes = receive(collector, who, watch)
        for index in np.flatnonzero(who):
            earned[int(index)].append(int(run.counters.env_steps[index]))
        return episodes

    monkeypatch.setattr(Collector, "_launch", noted)
    monkeypatch.setattr(Collector, "receive", counted)
    while not run.finished:
        if run.online:
            for index, updates in enumerate(run.counters.gradient_steps - 3):
                policies = jax.device_get(run.program.policies(run.learning.state))
                policy_after.setdefault((index, int(updates)), policy_of(policies, index))
        run._advance()
    run.close()
    assert len(launched) >= 4
    for index, number, policy in launched:
        toy.same(policy, policy_after[index, earned[index][max(number - lag, 0)]])


def test_a_turn_is_launched_while_the_device_is_given_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gives a GPU its block may wait until the block is done: with lag, the next round is in flight by then."""
    run = build(tmp_path / "r", offline_updates=3, online_steps=70, lag=1)
    launched, train, launch = threading.Event(), Program.train, Collector.launch

    def noted(collector: Collector, who: Any, *rest: Any) -> None:
        launch(collector, who, *rest)
        if np.any(who):
            launched.set()

    def held_up(program: Program, *inputs: Any, **options: Any) -> Any:
        assert not run.online or not np.any(run.collector.unfinished) or launched.wait(30.0)
        launched.clear()
        return train(program, *inputs, **options)

    monkeypatch.setattr(Collector, "launch", noted)
    while not run.online:
        run._advance()
    run._advance()  # the first round is played before there is anything to update with
    launched.clear()
    monkeypatch.setattr(Program, "train", held_up)
    blocks = 0
    while np.all(run.collector.unfinished):
        idle = bool(np.any(run._idle))
        if not idle:
            launched.set()  # nobody is due
        run._advance()
        blocks += idle
    run.close()
    assert blocks >= 2


@pytest.mark.parametrize("luck", [0, 1, 2])
def test_a_turn_that_is_late_holds_up_its_seed_alone(
    luck: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns end when they will: meanwhile other seeds update, and rows and their order stay the same."""
    prompt = train(tmp_path / "prompt", lag=1, seeds=3, block=8)
    rng, block, beside = np.random.default_rng(luck), Run._online_block, []

    def noted(run: Run) -> Any:
        calls = block(run)
        beside.append(bool(np.any(run._idle & run.collector.in_flight) and calls.any()))
        return calls

    monkeypatch.setattr(Flight, "over", property(lambda _: rng.random() < 0.2))
    monkeypatch.setattr(Run, "_online_block", noted)
    assert train(tmp_path / "late", lag=1, seeds=3, block=8) == prompt
    assert any(beside)


def test_rows_stand_by_evaluation_and_then_by_seed(tmp_path: Path) -> None:
    begin(tmp_path / "r", lag=1, seeds=3)
    seeds = [row["seed"] for row in read_rows(tmp_path / "r" / "metrics.jsonl")]
    assert seeds == sorted(set(seeds)) * (len(seeds) // 3)


def test_a_seed_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    """Seeds may have different numbers of evaluations: long episodes pass over some."""
    run = build(tmp_path / "r", offline_updates=3, online_steps=70)
    begun, places = run.evaluations, [(0, 0), (1, 0), (0, 1)]
    done: Future[list[Any]] = Future()
    done.set_result([EpisodeSummary(total=1.0, last_reward=1.0, length=1, success=True)])
    for number, index in places:
        standing = {"number": number, "phase": "offline", "switch": False, "update": 0, "env_steps": 0}
        standing |= {"average_q": None, "means": {}}
        standing |= dict.fromkeys(("collected_episodes", "collected_return", "collected_success"))
        begun._unwritten[number, index] = Evaluation(index, standing, None, None, [done])
    assert [[row["seed"] for row in rows] for rows in begun.finished()] == [[0, 1]]  # the other may still come to it
    run.counters.evaluated_at[1] = NEVER_AGAIN
    assert [[row["seed"] for row in rows] for rows in begun.finished()] == [[0]]
    run.close()


def test_a_seed_does_not_depend_on_the_others(tmp_path: Path) -> None:
    """To rounding: its lag counts its own rounds, whatever the others do."""
    both, alone = (build(tmp_path / name, lag=1, **sizes) for name, sizes in (("both", {}), ("alone", ONE)))
    for run in (both, alone):
        assert run.execute(lambda: False)
        run.close()
    left = [row for row in read_rows(tmp_path / "both" / "metrics.jsonl") if row["seed"] == 1]
    right = read_rows(tmp_path / "alone" / "metrics.jsonl")
    same_rows(left, right)


ONE = {"seeds": 1, "first_seed": 1}


def test_an_evaluation_says_what_held_when_it_fell_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held up for the whole run, its rows are the same and in the same order."""
    prompt = train(tmp_path / "prompt")
    run = build(tmp_path / "late")
    write = type(run)._write_evaluations
    monkeypatch.setattr(type(run), "_write_evaluations", lambda run: write(run) if run.finished else None)
    monkeypatch.setattr("calql.engine.evaluation.BEHIND", 1000)
    assert run.execute(lambda: False)
    run.close()
    assert (tmp_path / "late" / "metrics.jsonl").read_bytes() == prompt


@pytest.mark.parametrize("lag", [0, 1])
def test_a_checkpoint_holds_evaluations_that_are_not_finished(
    lag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(tmp_path / "whole", lag=lag)
    monkeypatch.setattr(Evaluation, "ready", property(lambda _: len(saved) > 4))
    saved: list[int] = []
    pack = Evaluations.pack

    def noted(evaluations: Evaluations) -> Any:
        saved.append(evaluations.unfinished)
        return pack(evaluations)

    monkeypatch.setattr(Evaluations, "pack", noted)
    stop_after(monkeypatch, lambda: 3)
    begin(tmp_path / "cut", lag=lag)
    while not resume(tmp_path / "cut", Watching()).finished:
        pass
    assert max(saved) >= 2
    assert (tmp_path / "cut" / "metrics.jsonl").read_bytes() == whole


@pytest.mark.parametrize("waiting", ["behind", "at the end"])
def test_a_run_that_waits_for_evaluations_can_be_stopped(
    waiting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They never come back: it stops when asked, and goes on from there to the same rows."""
    whole = train(tmp_path / "whole")
    with monkeypatch.context() as held:
        held.setattr(Evaluation, "ready", False)
        held.setattr("calql.engine.evaluation.BEHIND", 1 if waiting == "behind" else 1000)
        held.setattr("calql.engine.run.PATIENCE_S", 0.0)
        waited: list[float] = []
        wait = Evaluations.wait
        held.setattr(Evaluations, "wait", lambda self, seconds: (waited.append(seconds), wait(self, seconds)))
        run = build(tmp_path / "cut")
        assert not run.execute(lambda: len(waited) >= 3)
        assert run.finished == (waiting == "at the end")
        run.close()
        told = read_rows(tmp_path / "cut" / "speed.jsonl")[-1]
        assert told["evaluations_unfinished"] > 0
        assert told["update"] == run.counters.gradient_steps.mean()
    cut = build(tmp_path / "cut")
    cut.restore()
    assert cut.execute(lambda: False)
    cut.close()
    assert (tmp_path / "cut" / "metrics.jsonl").read_bytes() == whole


def test_busy_time_counts_what_overlaps_once() -> None:
    busy = Busy()
    for begun, ended in ((0.0, 2.0), (1.0, 3.0), (1.5, 2.5), (5.0, 6.0)):
        busy.add(begun, ended)
    assert busy.total == pytest.approx(4.0)


def test_a_phase_that_is_over_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of ten seconds busy; rows that are written later say so too."""
    watch = Stopwatch(begun=0.0)
    watch.device.add(0.0, 6.0)
    monkeypatch.setattr("time.monotonic", lambda: 10.0)
    assert watch.device_wait_share == pytest.approx(0.4)
    watch.ended = 10.0
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    assert watch.device_wait_share == pytest.approx(0.4)


def test_players_keep_their_environments() -> None:
    from test_rollout import SETUP, policy, requests

    worker = RolloutWorker(SETUP)
    worker.play(policy(), requests(2), explore=True)
    first = list(worker._envs)
    worker.play(policy(), requests(1), explore=False)
    assert worker._envs == first


def test_a_turn_that_has_landed_is_gone() -> None:
    """Its policy may be large: it does not wait until Python looks for cycles."""
    flight, episode = Flight(np.zeros(4), 0.0), Future[Any]()
    flight.add(episode)
    episode.set_result([None])
    gone = weakref.ref(flight)
    del flight, episode
    assert gone() is None
