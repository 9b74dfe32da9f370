"""Mistakes known from public code, each with a test that would catch it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_task import BATCH, LIMIT, data, logged, run_options, task, tiny

from calql.domains.registry import get_task
from calql.engine import mixing
from calql.engine.collect import acts_at_random, note_collected
from calql.engine.episodes import Episode
from calql.engine.inputs import prepare
from calql.engine.plan import make_plan
from calql.engine.replay import Replay, empty_like, insert
from calql.engine.run import Run
from calql.methods.base import Transitions
from calql.methods.odt import padded_left
from calql.methods.reference import Fit
from calql.results import Silent
from calql.runs.request import Choice, defaults
from calql.system.errors import UserError

KEY = jax.random.key(0)


def episode(length: int, *, success: bool) -> Episode:
    rewards = np.array([0.0] * (length - 1) + [float(success)])
    seen = np.stack([np.full(3, step, np.float32) for step in range(length + 1)])
    return Episode(seen, np.full((length, 2), 0.1, np.float32), rewards, terminal=success, success=success)


def test_collected_steps_carry_their_own_return_to_go_and_no_placeholder() -> None:
    inputs = prepare(tiny("cal-ql"), "monte-carlo", Fit(data(), task().rewards, 0.99))
    padded, lengths = inputs.pad([episode(3, success=True), episode(4, success=False)], LIMIT)
    # rewards 10 r - 5: -5, -5, 5 -> 5; -5 + 0.99 * 5 = -0.05; -5 + 0.99 * -0.05 = -5.0495. Failing for ever: -500.
    np.testing.assert_allclose(padded.reference[0, :3], [-5.0495, -0.05, 5.0], rtol=1e-5)
    np.testing.assert_allclose(padded.reference[1, :4], -500.0, rtol=1e-5)
    assert lengths.tolist() == [3, 4]
    # success is terminal; the end of time is not
    np.testing.assert_array_equal(padded.terminals[0, :3], [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(padded.terminals[1, :4], 0.0)


def test_hindsight_returns_are_those_really_earned() -> None:
    inputs = prepare(tiny("odt"), "none", Fit(data(), task().rewards, 0.99))
    padded, _ = inputs.pad([episode(3, success=True)], LIMIT)
    assert padded.return_to_go is not None
    np.testing.assert_array_equal(padded.return_to_go[0, :3], [1.0, 1.0, 1.0])  # recorded rewards, undiscounted


def test_the_next_action_of_the_last_step_is_never_the_next_episodes() -> None:
    rows = logged(tiny("rebrac"))
    assert rows.next_actions is not None
    assert rows.has_next_action is not None
    ends = np.flatnonzero(data().terminals | data().truncated)
    np.testing.assert_array_equal(np.flatnonzero(np.asarray(rows.has_next_action) == 0), ends)
    inside = np.setdiff1d(np.arange(len(data())), ends)
    np.testing.assert_array_equal(rows.next_actions[inside], data().actions[inside + 1])
    np.testing.assert_array_equal(rows.next_actions[ends], data().actions[ends])


def test_nor_is_it_in_a_collected_episode() -> None:
    inputs = prepare(tiny("rebrac"), "none", Fit(data(), task().rewards, 0.99))
    padded, _ = inputs.pad([episode(3, success=True), episode(4, success=False)], LIMIT)
    np.testing.assert_array_equal(padded.has_next_action[0, :3], [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(padded.has_next_action[1, :4], [1.0, 1.0, 1.0, 0.0])


def numbered(count: int, first: int) -> Transitions:
    """Rows whose reward is their number."""
    numbers = jnp.arange(first, first + count, dtype=jnp.float32)
    column = numbers[:, None]
    return Transitions(column, column, numbers, column, jnp.zeros(count), numbers)


@pytest.mark.parametrize(("share", "expected"), [(0.25, 2), (0.5, 4), (0.0, 0), (1.0, 8), (-1.0, 6)])
def test_any_mixing_ratio_works(share: float, expected: int) -> None:
    offline = mixing.offline_rows(share, 8, logged=300, collected=100)  # pooled: 300 of 400
    assert offline == expected
    replay = Replay(numbered(10, first=1000), jnp.int32(5))
    batch = mixing.draw(KEY, numbered(300, first=0), replay, jnp.int32(offline), 0, (3, 8))
    is_logged = np.asarray(batch.rewards) < 1000
    assert (is_logged.sum(axis=1) == expected).all()
    assert np.asarray(batch.rewards)[~is_logged].max(initial=0) < 1005  # never rows that were not collected


@pytest.mark.slow
def test_sequences_stay_in_their_episode_also_where_the_ring_wraps() -> None:
    method = tiny("odt")
    rows = logged(method)
    row = jax.tree.map(lambda column: column[0], rows)
    replay = empty_like(row, 12)
    for length in (5, 4, 5):  # the third wraps round and overwrites the start of the first
        part = jax.tree.map(lambda column: column[:LIMIT], rows)
        steps = jnp.arange(LIMIT, dtype=jnp.int32)
        part = part._replace(remaining=length - 1 - steps, rewards=steps.astype(jnp.float32))
        replay = insert(replay, part, jnp.int32(length))
    for offline in (0, 64):
        batch = mixing.draw(KEY, rows, replay, jnp.int32(offline), 0, (1, 64, 3))
        batch = jax.tree.map(lambda column: column[0], batch)
        assert batch.remaining is not None
        first = np.asarray(batch.remaining)[:, 0]
        moved, real = padded_left(batch)
        mask, left = np.asarray(real) > 0, np.asarray(moved.remaining)
        np.testing.assert_array_equal(mask.sum(axis=1), np.minimum(first + 1, 3))  # to the end of the episode, or cut
        start = 3 - mask.sum(axis=1, keepdims=True)
        steps = np.arange(3) - start
        np.testing.assert_array_equal((first[:, None] - steps)[mask], left[mask])  # one step nearer to the end each
        assert mask[:, -1].all()
        assert not mask.all()
        assert not left[~mask].any()


def started(name: str, folder: Path, **changes: object) -> Run:
    folder.mkdir(parents=True)
    plan = make_plan(name, task(), tiny(name), run_options(name, **changes), data(), None, 0.99)
    return Run(plan, folder, Silent())


def test_warm_up_earns_no_updates_and_may_act_at_random(tmp_path: Path) -> None:
    run = started("bc", tmp_path / "a", warmup_steps=8, warmup_actions="random", offline_updates=0, online_steps=20)
    try:
        one = episode(5, success=False)
        for expected_debt, random in ((0, True), (4, False), (14, False)):  # two updates for each step after the eighth
            assert acts_at_random(run.options, run.counters, 0) == (run.counters.env_steps[0] < 8)
            note_collected(run.options, run.counters, 0, one)
            assert run.counters.debt[0] == expected_debt
            assert acts_at_random(run.options, run.counters, 0) == random
    finally:
        run.close()


def test_updates_per_episode_do_not_depend_on_its_length(tmp_path: Path) -> None:
    run = started("bc", tmp_path / "a", updates_per_episode=7)
    try:
        note_collected(run.options, run.counters, 0, episode(5, success=False))
        note_collected(run.options, run.counters, 1, episode(2, success=True))
        assert run.counters.debt.tolist() == [7, 7]
    finally:
        run.close()


def test_collected_episodes_push_out_the_worst_logged_ones(tmp_path: Path) -> None:
    count = len(data().episode_ends)
    run = started("odt", tmp_path / "a", keep_episodes=count)
    try:
        returns = np.asarray(run.plan.inputs.logged.return_to_go)[run.plan.inputs.episode_starts]
        assert (np.diff(returns) >= 0).all()  # the worst first
        run.counters.episodes[:] = [0, 2]
        assert run._logged.first().tolist() == [0, int(run.plan.inputs.episode_starts[2])]
        run.counters.episodes[:] = [count, 10 * count]
        assert run._logged.first().tolist() == [len(data())] * 2
    finally:
        run.close()


def test_kept_episodes_need_one_pool() -> None:
    with pytest.raises(UserError, match="--mixing"):
        run_options("cal-ql", keep_episodes=3, mixing=0.5)


def test_options_of_a_method_stand_above_the_tasks_for_all_and_below_its_own() -> None:
    """RLPD's backup is one action whatever the task says for all; its warm-up is what the task says for RLPD."""
    maze = get_task("point-maze-narrow")
    run, options = defaults(Choice(method="rlpd"), maze)
    assert (run.offline_updates, run.update_ratio, run.reference) == (0, 20, "none")
    assert options.backup_actions == 1
    assert options.critic_widths == maze.options["critic_widths"]
    run, _ = defaults(Choice(method="cal-ql"), maze)
    assert run.reference == "monte-carlo"
    assert BATCH == 4


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [("iql", {"reference": "sarsa"}, "takes no reference value"), ("odt", {"mixing": 0.5}, "mixing is 0.5")],
)
def test_bad_combinations_stop_before_a_folder_is_made(
    method: str, options: dict[str, object], words: str, tmp_path: Path
) -> None:
    from calql import train

    with pytest.raises(UserError, match=words):
        train("point-maze-narrow", method=method, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_networks_of_several_seeds_start_without_waiting_for_each_other_for_ever() -> None:
    """Batched QR decompositions side by side hang XLA on two cores; in a process of its own, which can be ended."""
    program = """
import jax
from calql.engine.program import Program
from calql.methods import METHODS, Method
from calql.methods.base import Spec
entry = METHODS["iql"]
method = entry.make(entry.options(policy_widths=(64, 64), critic_widths=(64, 64)))
jax.block_until_ready(Program(method).start(jax.random.split(jax.random.key(0), 4), Spec((4,), 2)))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
