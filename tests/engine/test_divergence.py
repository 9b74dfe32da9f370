"""Divergence: noticed within one evaluation interval for every method, one seed of a run alone, and never saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_task as toy
from test_run import TINY, build, corridor_env, stop_after

import calql
import corridor
from calql.cli import main
from calql.engine.health import Health
from calql.engine.plan import Plan, make_plan
from calql.engine.program import Program, UpdateInputs
from calql.engine.replay import empty_like
from calql.engine.run import Run
from calql.methods import METHODS, able
from calql.methods.base import METRICS, meaning_of
from calql.results import Silent, read_run
from calql.results.diagnosis import diagnose
from calql.results.metrics import read_rows
from calql.results.report import write_report
from calql.results.summary import summarise
from calql.runs.life import Watching, resume
from calql.system.errors import Diverged

pytestmark = pytest.mark.slow

INTERVAL = 12


def far_too_fast(name: str) -> dict[str, float]:
    known = vars(METHODS[name].options())
    return {rate: 1e3 for rate in ("critic_rate", "policy_rate") if rate in known}


@pytest.mark.parametrize("name", able(False))
def test_every_method_is_noticed_within_one_evaluation_interval(name: str, tmp_path: Path) -> None:
    sizes = {"offline_updates": INTERVAL, "online_steps": 0, "evaluate_offline_every": INTERVAL, "block": INTERVAL}
    plan = make_plan(
        name, toy.task(), toy.tiny(name, **far_too_fast(name)), toy.run_options(name, **sizes), toy.data(), None, 0.99
    )
    run = Run(plan, tmp_path, Silent())
    try:
        run.execute(lambda: False)
    except Diverged:
        pass
    finally:
        run.close()
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert {row["update"] for row in rows} <= {0, INTERVAL}  # one interval, and no more
    for seed in plan.seeds:
        assert seed in run.lost or seed in run.output.watch.alarms


@pytest.mark.parametrize("name", able(False))
def test_metrics_are_words_of_the_vocabulary_and_some_of_them_signal(name: str) -> None:
    method = toy.tiny(name)
    rows, program = toy.logged(method), Program(method)
    of_seeds = jax.vmap(lambda key: method.init(key, toy.spec()))
    states = jax.eval_shape(of_seeds, jnp.stack([jax.random.key(0)]))
    learning = program.fresh(states, jnp.zeros(1, jnp.int32), rows)
    assert {metric for metric in learning.sums if meaning_of(metric) is None} == set()
    assert any(METRICS[metric.partition("/")[0]].signal for metric in learning.sums)


def ruined(at: int) -> Callable[[Run], None]:
    """Once a run has done so many updates, the target network of its seed with index 1 is as good as infinite."""

    def ruin(run: Run) -> None:
        if int(run.counters.gradient_steps[1]) == at:
            targets = jax.tree.map(lambda leaf: leaf.at[1].set(1e30), run.learning.state.targets)
            run.learning = run.learning._replace(state=run.learning.state._replace(targets=targets))

    return ruin


def ruin_one(monkeypatch: pytest.MonkeyPatch, at: int = 10) -> None:
    train, ruin = Run._train, ruined(at)

    def poisoned(run: Run, *inputs: Any) -> None:
        ruin(run)
        train(run, *inputs)

    monkeypatch.setattr(Run, "_train", poisoned)


def train(folder: Path, **changes: Any) -> calql.Outcome:
    return calql.train(
        dataset=corridor.demonstrations(), env=corridor_env, out=folder, episode_limit=20, **{**TINY, **changes}
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[calql.Outcome, calql.Outcome]:
    """The same run without and with a seed that diverges after ten updates."""
    folder = tmp_path_factory.mktemp("both")
    healthy = train(folder / "healthy")
    with pytest.MonkeyPatch.context() as patch:
        ruin_one(patch)
        return healthy, train(folder / "one")


def lines(outcome: calql.Outcome, seed: int) -> list[str]:
    text = (outcome.folder / "metrics.jsonl").read_text()
    return [line for line in text.splitlines() if json.loads(line)["seed"] == seed]


def test_the_other_seeds_go_on_to_the_byte(both: tuple[calql.Outcome, calql.Outcome]) -> None:
    healthy, one = both
    assert one.finished
    assert lines(one, 0) == lines(healthy, 0)
    assert not any("diverged" in name for row in healthy.rows for name in row)


@pytest.mark.parametrize("way", ["pieces", "step"])
def test_the_other_seeds_go_on_in_every_way_of_updating(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an accelerator is given its blocks, by loops of fixed length, and with updates after each step."""
    monkeypatch.setattr(Plan, "on_accelerator", way == "pieces")
    changes = {"lag": 1, "block": 36, "workers": 0} if way == "pieces" else {"update_schedule": "step"}
    healthy = train(tmp_path / "healthy", online_steps=30, **changes)
    ruin_one(monkeypatch)
    one = train(tmp_path / "one", online_steps=30, **changes)
    assert lines(one, 0) == lines(healthy, 0)
    assert one.diverged == {1: {"update": 10, "env_steps": 0}}


def test_a_diverged_seed_is_marked_in_rows_status_and_report(both: tuple[calql.Outcome, calql.Outcome]) -> None:
    _, one = both
    mine = [row for row in one.rows if row["seed"] == 1]
    marked = [row for row in mine if "diverged_update" in row]
    assert {(row["diverged_update"], row["diverged_env_steps"]) for row in marked} == {(10, 0)}
    assert [row["update"] >= 12 for row in mine] == ["diverged_update" in row for row in mine]
    assert len(mine) == len({row["update"] for row in mine})  # evaluated to the end
    assert len({row["average_q"] for row in marked}) == 1  # by a state that no longer changes
    assert "td_loss" not in marked[-1]
    status = json.loads((one.folder / "status.json").read_text())
    assert status["diverged"] == [{"seed": 1, "update": 10, "env_steps": 0}]
    assert one.diverged == {1: {"update": 10, "env_steps": 0}}
    run = read_run(one.folder)
    found = {finding.title: finding for finding in diagnose(run, summarise(run))}
    assert "seed 1 at update 10 (environment step 0)" in found["1 of 2 seeds diverged"].text
    page = write_report([one.folder]).read_text()
    assert "Before they diverged" in page
    assert "<h3>Seed 1</h3>" in page


def test_an_alarm_comes_with_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(Silent, "message", lambda _, text: told.append(text))
    run = build(tmp_path / "r", dual=True)
    row = {"phase": "offline", "update": 12, "env_steps": 0, "score": 0.0, "average_q": 1e6}
    rows = [{**row, "seed": seed, "conservative_gap": 3.0, "alpha_prime": 7.0} for seed in (0, 1)]
    run.output.standing(rows)
    run.output.standing(rows)
    run.close()
    found = [text for text in told if "running away" in text or "Try" in text]
    assert [text[:22] for text in found[:2]] == ["seed 0 is running away", "seed 1 is running away"]
    assert len(found) == 3  # once for both, and never again
    assert found[2].startswith(
        "alpha_prime is 7 and its target is not reached: conservative_gap stands at 3, --gap asks"
    )
    assert "Try --no-dual" in found[2]


def test_stopping_changes_nothing_of_a_run_with_a_diverged_seed(
    both: tuple[calql.Outcome, calql.Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruin_one(monkeypatch)
    stop_after(monkeypatch, lambda: 4)
    path = corridor.write_demonstrations(tmp_path)
    own: dict[str, Any] = {"dataset": path, "env": "corridor:Corridor-v0", "episode_limit": 20, **TINY}
    cut = calql.train(out=tmp_path / "cut", **own)
    stops = 0
    while not cut.finished:
        cut = resume(tmp_path / "cut", Watching())
        stops += 1
    assert stops >= 3
    assert (cut.folder / "metrics.jsonl").read_bytes() == (both[1].folder / "metrics.jsonl").read_bytes()
    assert cut.diverged == both[1].diverged


def test_a_seed_stops_before_the_very_update_however_blocks_are_cut() -> None:
    """A row that is not a number poisons the first update that draws it."""
    method = toy.tiny("cal-ql")
    program, logged = Program(method), toy.logged(method)
    logged = logged._replace(rewards=logged.rewards.at[3].set(jnp.nan))
    keys = jnp.stack([jax.random.key(seed) for seed in (0, 1)])
    one = empty_like(jax.tree.map(lambda column: column[0], logged), 10)
    replay = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 2, axis=0), one)
    shares = np.full(2, method.batch_size, np.int32)

    def after(blocks: list[int]) -> tuple[Any, Health]:
        learning = program.fresh(program.start(keys, toy.spec()), jnp.zeros(2, jnp.int32), logged)
        health, done = Health.fresh(2), 0
        for block in blocks:
            stands = np.full(2, done, np.int32), np.zeros(2, np.int32)
            given = UpdateInputs((logged, replay), keys, shares, np.zeros(2, np.int32), None, stands)
            learning, health = program.advance(learning, health, given, np.full(2, block), loop=None)
            done += block
        return learning, health

    whole, health = after([24])
    assert (np.asarray(health.gradient_steps) >= 0).all()
    assert len(set(np.asarray(health.gradient_steps).tolist())) == 2  # each by its own draws
    np.testing.assert_array_equal(health.gradient_steps, whole.updates * method.minibatches)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((whole.state, whole.sums)))
    cut, same_health = after([1, 5, 2, 9, 7])
    toy.same((whole, health), (cut, same_health))


def test_nothing_that_is_not_a_number_is_saved(tmp_path: Path) -> None:
    run = build(tmp_path / "r")
    run.save()
    number, sound = run.checkpoints.latest, run.learning
    adam = jax.tree.map(lambda leaf: leaf.at[(1, *[0] * (leaf.ndim - 1))].set(jnp.inf), sound.state.critic_adam[1])
    run.learning = sound._replace(state=sound.state._replace(critic_adam=sound.state.critic_adam._replace(mu=adam)))
    with pytest.raises(Diverged, match="not finite"):
        run.save()
    run.learning = sound
    run.counters.env_steps[:] = 3
    run.replay = run.replay._replace(rows=run.replay.rows._replace(reference=run.replay.rows.reference - jnp.inf))
    run.save()  # a reference value may be absent
    run.replay = run.replay._replace(
        rows=run.replay.rows._replace(rewards=run.replay.rows.rewards.at[1, 2].set(jnp.nan))
    )
    with pytest.raises(Diverged, match="the column 'rewards' of the replay buffer"):
        run.save()
    run.close()
    assert run.checkpoints.latest == number + 1


@pytest.mark.parametrize("rate", ["--policy-rate=10", "--critic-rate=1000"])
def test_rates_far_too_high_end_with_their_own_exit_code(
    rate: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = corridor.write_demonstrations(tmp_path), tmp_path / "r"
    sizes = {**TINY, "offline_updates": 300, "evaluate_offline_every": 100, "online_steps": 0}
    del sizes["critic_rate"]
    words = [f"--{name.replace('_', '-')}={value}" for name, value in sizes.items() if not isinstance(value, tuple)]
    words += ["--policy-widths", "8", "--critic-widths", "8", f"--dataset={path}", "--env=corridor:Corridor-v0"]
    code = main(["train", *words, rate, f"--out={out}", "--quiet"])
    status = json.loads((out / "status.json").read_text())
    checkpoint = np.load(max((out / "checkpoints").glob("*.npz"), key=lambda file: int(file.stem)))
    state = [checkpoint[name] for name in checkpoint.files if name.startswith("state/")]
    assert all(np.isfinite(array).all() for array in state)
    assert code == 3 or (code == 0 and status["running_away"])
    assert (code == 3) == ("diverged" in status)
