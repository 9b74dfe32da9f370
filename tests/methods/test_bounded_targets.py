"""TD targets cut to possible returns: in every method with critics, by what was seen, and only where asked for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_task as toy

from calql.data import possible_returns
from calql.engine import mixing
from calql.engine.inputs import prepare
from calql.engine.program import Program, clear_sums
from calql.engine.replay import empty_like
from calql.engine.rollout import Episode
from calql.methods import METHODS, able, losses
from calql.methods.base import Transitions
from calql.methods.reference import Fit

WITH_CRITICS = [name for name in able(False) if hasattr(METHODS[name].options(), "target_bounds")]
LOW, HIGH = -10.0, 30.0
WIDER = losses.BOUNDS_ROOM * (HIGH - LOW)


def test_methods_without_critics_have_no_such_option() -> None:
    assert set(able(False)) - set(WITH_CRITICS) == {"bc", "odt"}


def batch_of(name: str, rewards: float, **options: bool) -> tuple[Program, Transitions]:
    method = toy.tiny(name, **options)
    shape = mixing.batch_shape(method)
    rows = toy.logged(method)
    count = int(np.prod(shape))
    drawn = jax.tree.map(lambda column: jnp.resize(column[:count], (count, *column.shape[1:])), rows)
    batch = jax.tree.map(lambda column: column.reshape(*shape, *column.shape[1:]), drawn)
    batch = batch._replace(rewards=jnp.full_like(batch.rewards, rewards))
    if method.bounds_targets:
        batch = batch._replace(returns=jnp.broadcast_to(jnp.array([LOW, HIGH]), (method.minibatches, 2)))
    return Program(method), batch


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_CRITICS)
def test_every_method_with_critics_cuts_its_targets(name: str) -> None:
    """By rewards that the range leaves no room for; ReBRAC's penalty has room below it."""
    program, above = batch_of(name, 1e6, target_bounds=True)
    state = program.method.init(jax.random.key(0), toy.spec())
    update = jax.jit(program.method.update)
    _, metrics = update(state, above, jax.random.key(1))
    assert float(metrics["average_target"]) == pytest.approx(HIGH + WIDER, rel=1e-5)
    assert float(metrics["bounded_targets"]) == 1.0
    _, metrics = update(state, above._replace(rewards=jnp.full_like(above.rewards, -1e6)), jax.random.key(1))
    penalty = getattr(program.method.options, "target_penalty", 0.0)
    below = 4.0 * toy.ACTION * penalty / (1.0 - program.method.options.discount)
    assert float(metrics["average_target"]) == pytest.approx(LOW - WIDER - below, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cal-ql", "iql", "td3-bc"])
def test_without_the_option_nothing_is_cut(name: str) -> None:
    program, batch = batch_of(name, 1e6)
    _, metrics = jax.jit(program.method.update)(
        program.method.init(jax.random.key(0), toy.spec()), batch, jax.random.key(1)
    )
    assert float(metrics["average_target"]) > 9e5
    assert "bounded_targets" not in metrics


def test_room_for_entropy_where_q_holds_it() -> None:
    """Twice alpha d log 2 / (1 - discount) on either side, at alpha 1."""
    program, batch = batch_of("sac", 1e6, target_bounds=True, entropy_in_backup=True)
    state = program.method.init(jax.random.key(0), toy.spec())
    _, metrics = jax.jit(program.method.update)(state, batch, jax.random.key(1))
    o = program.method.options
    room = 2.0 * max(o.entropy_scale * toy.ACTION, toy.ACTION * np.log(2.0)) / (1.0 - o.discount)
    assert float(metrics["average_target"]) == pytest.approx(HIGH + WIDER + room, rel=1e-4)


def test_a_goal_that_ends_the_episode_is_worth_its_reward_once() -> None:
    assert possible_returns([-5.0, -5.0, 5.0], [False, False, True], 0.99) == pytest.approx((-500.0, 5.0))
    assert possible_returns([-5.0, 5.0], [False, False], 0.99) == pytest.approx((-500.0, 500.0))
    assert possible_returns([1.0, 2.0], [False, True], 0.5) == pytest.approx((2.0, 2.0))
    assert possible_returns([-1.0, -3.0], [False, True], 0.5) == pytest.approx((-3.0, -2.0))


def test_rewards_seen_online_widen_the_range_of_their_seed() -> None:
    method = toy.tiny("cal-ql")
    inputs = prepare(method, "none", Fit(toy.data(), toy.task().rewards, 0.99))  # 0 and 1 become -5 and 5
    assert inputs.possible == pytest.approx((-500.0, 5.0))
    before = np.tile(np.float32(inputs.possible), (2, 1))
    seen = np.zeros((3, toy.OBSERVATION), np.float32)
    actions = np.zeros((2, toy.ACTION), np.float32)
    better = Episode(seen, actions, np.array([0.0, 3.0]), terminal=True, success=True)  # 3 becomes 25
    after = inputs.widened(before, [None, better])
    np.testing.assert_allclose(after, [[-500.0, 5.0], [-500.0, 25.0]], rtol=1e-6)
    going_on = Episode(seen, actions, np.array([0.0, 3.0]), terminal=False, success=True)
    np.testing.assert_allclose(inputs.widened(before, [going_on, None])[0], [-500.0, 2500.0], rtol=1e-6)


def reached(*, bounded: bool) -> tuple[float, float]:
    """Least and largest mean target of TD3, hardly held to the data, in 150 steps that are far too long."""
    method = toy.tiny("td3-bc", target_bounds=bounded, critic_rate=0.1, target_rate=0.5, ascent_weight=1e3)
    program, rows = Program(method), toy.logged(method)
    keys = jnp.stack([jax.random.key(seed) for seed in range(4)])
    learning = program.fresh(program.start(keys, toy.spec()), jnp.zeros(4, jnp.int32), rows)
    empty = empty_like(jax.tree.map(lambda column: column[0], rows), 1)
    replay = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 4, axis=0), empty)
    share, due, none = (np.full(4, count, np.int32) for count in (method.batch_size, 5, 0))
    returns = np.tile(np.array([-500.0, 5.0], np.float32), (4, 1)) if bounded else None
    targets = []
    for _ in range(15):
        learning = program.train(clear_sums(learning, np.ones(4, bool)), rows, replay, keys, share, due, none, returns)
        targets.append(np.asarray(learning.sums["average_target"] / learning.counts))
    return float(np.min(targets)), float(np.max(targets))


@pytest.mark.slow
def test_bounds_hold_what_runs_away_without_them() -> None:
    low, high = reached(bounded=False)
    assert high > 1000.0 or low < -1500.0
    low, high = reached(bounded=True)
    assert low >= -500.0 - 26.0
    assert high <= 5.0 + 26.0
