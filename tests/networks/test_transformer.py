"""The causal transformer: nothing looks ahead, and acting sees what training saw."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.methods.base import Spec, TimeStep
from calql.methods.odt import ODT, ODTOptions

STEPS, OBSERVATION, ACTION = 4, 3, 2


@pytest.fixture(scope="module")
def method() -> ODT:
    return ODT(ODTOptions(width=8, layers=2, heads=2, training_context=STEPS, acting_context=STEPS, standardise=False))


@pytest.fixture(scope="module")
def network(method: ODT):  # type: ignore[no-untyped-def]
    return method.init(jax.random.key(0), Spec((OBSERVATION,), ACTION)).policy.parameters


@pytest.fixture(scope="module")
def episode() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=STEPS), rng.normal(size=(STEPS, OBSERVATION)), rng.normal(size=(STEPS, ACTION))


TIMES = jnp.arange(STEPS)


@pytest.mark.slow
def test_no_step_sees_what_follows(network, episode) -> None:  # type: ignore[no-untyped-def]
    returns, observations, actions = (jnp.asarray(column, jnp.float32) for column in episode)
    before = network(returns, observations, actions, TIMES)
    changed = network(returns.at[3].add(5.0), observations.at[3].add(5.0), actions.at[2].add(5.0), TIMES)
    np.testing.assert_allclose(before.mean[:3], changed.mean[:3], atol=1e-6)  # step 2 does not see its own action
    assert not np.allclose(before.mean[3], changed.mean[3])


def test_log_std_stays_in_its_range(network, episode) -> None:  # type: ignore[no-untyped-def]
    out = network(*(1e3 * jnp.asarray(column, jnp.float32) for column in episode), TIMES)
    assert float(out.log_std.min()) >= -5.0
    assert float(out.log_std.max()) <= 2.0


def test_dropout_is_on_with_a_key_alone(network, episode) -> None:  # type: ignore[no-untyped-def]
    columns = [*(jnp.asarray(column, jnp.float32) for column in episode), TIMES]
    fixed = network(*columns)
    np.testing.assert_array_equal(fixed.mean, network(*columns).mean)
    assert not np.allclose(fixed.mean, network(*columns, jax.random.key(1)).mean)


def test_acting_step_by_step_is_the_forward_pass_of_the_whole_sequence(method, network, episode) -> None:  # type: ignore[no-untyped-def]
    """The memory holds what training would have shown: what is still to be earned, states, actions played."""
    _, observations, _ = (jnp.asarray(column, jnp.float32) for column in episode)
    rewards = [0.0, 0.25, 0.0, 0.5]  # before each step
    carry, played = method.start(network), []
    act = jax.jit(method.act, static_argnames="explore")
    for step in range(STEPS):
        time_step = TimeStep(observations[step], jnp.float32(rewards[step]), jnp.int32(step))
        action, carry = act(network, carry, time_step, jax.random.key(step), explore=False)
        played.append(action)
    returns = jnp.array([1.0, 0.75, 0.75, 0.25])  # 1 asked for, less what was earned
    whole = network(returns, observations, jnp.stack(played), TIMES)
    np.testing.assert_allclose(jnp.tanh(whole.mean), jnp.stack(played), atol=1e-5)
    # one step more: the oldest goes, the rest moves up
    time_step = TimeStep(observations[0], jnp.float32(0.0), jnp.int32(STEPS))
    _, carry = act(network, carry, time_step, jax.random.key(9), explore=False)
    np.testing.assert_allclose(carry.earned, [0.25, 0.25, 0.75, 0.75])
    np.testing.assert_allclose(carry.observations[:3], observations[1:], atol=1e-6)


@pytest.mark.slow
def test_half_precision_changes_actions_by_little(method: ODT, network, episode) -> None:  # type: ignore[no-untyped-def]
    """Parameters, norms and outputs stay float32; products of the blocks have 8 bits."""
    halved = ODT(replace(method.options, precision="bfloat16")).init(jax.random.key(0), Spec((OBSERVATION,), ACTION))
    inputs = [*(jnp.asarray(column, jnp.float32) for column in episode), TIMES]
    ours, theirs = halved.policy.parameters(*inputs), network(*inputs)
    for mine, exact in ((ours.mean, theirs.mean), (ours.log_std, theirs.log_std)):
        assert mine.dtype == jnp.float32
        assert 0.0 < float(jnp.max(jnp.abs(mine - exact))) < 0.01 * float(jnp.max(jnp.abs(exact)))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(halved.policy.parameters))
