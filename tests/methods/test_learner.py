"""The learner: where it starts, what each step moves, and what the switch changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hand import Q1, Q2, agrees, constant_policy, linear_critics, rows, squashed_policy
from toy_task import data, logged, same, spec, tiny

from calql.methods import PRESETS
from calql.methods.learner import ActorCritic, LearnerState
from calql.methods.learner_options import ActorCriticOptions
from calql.networks import move_towards, q_values

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def method() -> ActorCritic:
    return tiny("cal-ql", critics=2, initialiser="orthogonal")


@pytest.fixture(scope="module")
def start(method: ActorCritic) -> LearnerState:
    return jax.jit(method.init, static_argnums=1)(KEY, spec())


@pytest.fixture(scope="module")
def batch(method: ActorCritic) -> Any:
    return jax.tree.map(lambda column: column[:4], logged(method))


@pytest.fixture(scope="module")
def moved(method: ActorCritic, start: LearnerState, batch: Any) -> LearnerState:
    """A state with momentum in every optimiser."""
    return jax.jit(method.update)(start, jax.tree.map(lambda column: column[None], batch), KEY)[0]


def test_where_it_starts(method: ActorCritic, start: LearnerState) -> None:
    """alpha' = e, alpha = 1, standard deviation about exp(-1) = 0.368, Q about 0."""
    assert float(method.multiplier(start.raw_multiplier)) == pytest.approx(2.71828, abs=1e-5)
    assert float(jnp.exp(start.raw_temperature)) == 1.0
    observations, actions = jnp.asarray(data().observations), jnp.asarray(data().actions)
    std = jnp.exp(start.policy(observations).log_std)
    np.testing.assert_allclose(std, 0.368, atol=0.02)
    assert float(jnp.abs(method.value(start, observations, actions)).max()) < 0.1
    assert float(start.numbers.target_entropy) == -2.0
    same(start.critics, start.targets)


def test_the_target_is_the_least_critic_at_the_best_action() -> None:
    # the policy plays 0.25 and nothing else: at s' = 2 min(2.25, 0.5) = 0.5; 1 + 0.9 * 0.5
    method = ActorCritic(ActorCriticOptions(critics=2))
    state = stub(discount=0.9)
    target = method.td_target(state, rows(), KEY)
    assert float(target[0]) == pytest.approx(1.45, rel=1e-4)
    subset = ActorCritic(ActorCriticOptions(critics=2, target_subset=1))
    values = {round(float(subset.td_target(state, rows(), jax.random.key(k))[0]), 3) for k in range(8)}
    assert values == {1.45, 3.025}  # one critic at a time: 1 + 0.9 * 0.5 or 1 + 0.9 * 2.25


def test_the_policy_loss_takes_the_least_or_the_mean_critic() -> None:
    # at s = 1, a = 0.25: Q = 1.25 and 0.5; alpha 0 leaves -Q
    critics, sure = linear_critics(Q1, Q2), squashed_policy(jnp.arctanh(0.25), -20.0)
    for kind, expected in (("min", -0.5), ("mean", -0.875)):
        method = ActorCritic(ActorCriticOptions(policy_critic=kind))
        loss, _ = method.policy_loss(sure, critics, jnp.float32(0.0), rows(), KEY)
        assert float(loss) == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_critic_loss_adds_the_weighted_regulariser(method: ActorCritic, start: LearnerState, batch: Any) -> None:
    """TD + alpha' w (gap - 0.8), summed over critics; fixed: TD + w gap."""
    loss, m = method.critic_loss(start.critics, start, batch, KEY)
    expected = 2 * (m["td_loss"] + 2.7182818 * 5.0 * (m["conservative_gap"] - 0.8))
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    fixed = replace(method, options=replace(method.options, dual=False))
    loss, m = fixed.critic_loss(start.critics, start, batch, KEY)
    assert float(loss) == pytest.approx(float(2 * (m["td_loss"] + 5.0 * m["conservative_gap"])), rel=1e-5)


@pytest.mark.slow
def test_a_critic_step_moves_critics_and_targets_alone(method: ActorCritic, moved: LearnerState, batch: Any) -> None:
    """The policy has momentum, and stands still all the same."""
    after, _ = method.critic_step(moved, batch, KEY)
    for field in set(moved._fields) - {"critics", "targets", "critic_adam"}:
        same(getattr(moved, field), getattr(after, field))
    same(after.targets, move_towards(moved.targets, after.critics, moved.numbers.target_rate))  # the new critics
    with pytest.raises(AssertionError):
        same(after.critics, moved.critics)


def test_a_policy_step_moves_policy_and_temperature_alone(method: ActorCritic, moved: LearnerState, batch: Any) -> None:
    after, _ = method.policy_step(moved, moved.critics, batch, KEY)
    for field in set(moved._fields) - {"policy", "policy_adam", "raw_temperature", "temperature_adam"}:
        same(getattr(moved, field), getattr(after, field))


def test_several_critic_steps_are_one_policy_step(start: LearnerState, batch: Any, method: ActorCritic) -> None:
    twice = replace(method, options=replace(method.options, critic_steps=2))
    stacked = jax.tree.map(lambda column: jnp.stack([column, column]), batch)
    after, _ = jax.jit(twice.update)(start, stacked, KEY)
    count = lambda adam: int(jax.tree.leaves(adam)[0])  # noqa: E731
    assert (count(after.critic_adam), count(after.policy_adam), count(after.temperature_adam)) == (2, 1, 1)


def test_calibration_stays_on_online(method: ActorCritic, start: LearnerState, batch: Any) -> None:
    online, state = method.switch(start)
    assert online == method
    same(start, state)  # switching changes nothing but the mixture
    high = batch._replace(reference=jnp.full_like(batch.reference, 5.0))
    low = batch._replace(reference=jnp.full_like(batch.reference, -5.0))
    gaps = [online.critic_loss(state.critics, state, r, KEY)[1]["conservative_gap"] for r in (high, low)]
    assert gaps[0] > gaps[1]
    corl = replace(method, options=replace(method.options, calibrate_online=PRESETS["corl"]["calibrate_online"]))
    assert float(corl.switch(start)[1].numbers.calibrate) == 0.0


def test_bound_rates_are_logged_with_calibration_off(method: ActorCritic, start: LearnerState, batch: Any) -> None:
    off = replace(method, options=replace(method.options, calibrate=False))
    state = start._replace(numbers=start.numbers._replace(calibrate=jnp.float32(0.0)))
    high = batch._replace(reference=jnp.full_like(batch.reference, 5.0))
    _, on_metrics = method.critic_loss(start.critics, start, high, KEY)
    _, off_metrics = off.critic_loss(state.critics, state, high, KEY)
    assert off_metrics["conservative_gap"] < on_metrics["conservative_gap"]
    for name in ("q1/policy", "q2/policy", "q1/next", "q2/next"):
        assert float(off_metrics[f"bound_rate/{name}"]) == 1.0


def test_cql_then_sac_drops_the_regulariser_at_the_switch() -> None:
    method = tiny("cql-sac")
    assert method.options.conservative
    online = replace(method, options=replace(method.options, conservative=False))
    state = abstract(method)
    switched, after = method.switch(state)
    assert switched == online
    assert all(old is new for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True))


def test_wsrl_goes_on_with_sac_at_another_ratio() -> None:
    method = tiny("wsrl", critic_steps_online=4)
    switched, _ = method.switch(abstract(method))
    assert (method.minibatches, switched.minibatches) == (1, 4)
    assert not switched.options.conservative


def test_target_entropy_is_minus_a_share_of_the_dimension() -> None:
    assert float(tiny("cal-ql").numbers(spec()).target_entropy) == -2.0
    assert float(tiny("rlpd").numbers(spec()).target_entropy) == -1.0
    assert float(tiny("cal-ql", target_entropy=-7.0).numbers(spec()).target_entropy) == -7.0


@pytest.mark.slow
def test_gradients_of_both_losses_against_finite_differences(
    method: ActorCritic, start: LearnerState, batch: Any
) -> None:
    critic = jax.jit(lambda c: method.critic_loss(c, start, batch, KEY)[0])
    policy = jax.jit(lambda p: method.policy_loss(p, start.critics, jnp.float32(0.5), batch, KEY)[0])
    for loss, network in ((critic, start.critics), (policy, start.policy)):
        agrees(loss, network)


def test_q_of_many_actions_is_q_of_each() -> None:
    critics = linear_critics(Q1, Q2)
    many = q_values(critics, jnp.array([[1.0], [2.0]]), jnp.array([[[0.5], [0.0]], [[1.0], [-1.0]]]))
    np.testing.assert_allclose(many, [[[1.5, 1.0], [3.0, 1.0]], [[1.0, 0.0], [2.0, -2.0]]])
    assert constant_policy(0.5)(jnp.ones((3, 1))).mode().shape == (3, 1)


def test_where_wsrl_starts() -> None:
    """The small gain on the last hidden layer, deviations of 1e-5 to 10, alpha = softplus(log(e - 1)) = 1."""
    changes = {"initialiser": "orthogonal", "output_gain": 2.0**0.5, "last_hidden_gain": 0.01}
    method = tiny("cal-ql", temperature_form="softplus", **changes)
    method = replace(method, options=replace(method.options, log_std_range=(-11.5, 2.3), log_std_offset=9.0))
    state = method.init(KEY, spec())
    *_, last = state.critics.members.hidden
    for kernel, gain in ((last.weight[0], 0.01), (state.critics.members.output.weight[0], 2.0**0.5)):
        np.testing.assert_allclose(np.linalg.svd(kernel, compute_uv=False), gain, rtol=1e-4)
    assert float(method.temperature(state.raw_temperature)) == pytest.approx(1.0, rel=1e-6)
    assert float(state.policy(jnp.ones(spec().observation_shape)).log_std.max()) == pytest.approx(2.3)


def test_the_temperature_by_softplus() -> None:
    """softplus(0) = log 2 and its slope is 1/2: loss log 2 * (2 + 4), slope 3."""
    method = ActorCritic(ActorCriticOptions(temperature_form="softplus"))
    log_probs = jnp.array([-1.0, -3.0])
    value, slope = jax.value_and_grad(method.temperature_loss)(jnp.float32(0.0), log_probs, -4.0)
    assert float(value) == pytest.approx(4.158883, rel=1e-6)
    assert float(slope) == pytest.approx(3.0, rel=1e-6)


def test_the_entropy_at_next_states_over_several_actions(start: LearnerState, batch: Any, method: ActorCritic) -> None:
    """The spread of the estimate over keys falls as the root of the number of actions: by 4 for 16."""

    def spread(samples: int) -> float:
        changes = {"temperature_states": "next", "backup_actions": samples}
        changed = replace(method, options=replace(method.options, **changes))
        step = jax.jit(lambda key: changed.policy_step(start, start.critics, batch, key)[1]["entropy"])
        return float(np.std([float(step(key)) for key in jax.random.split(KEY, 64)]))

    assert spread(16) < 0.5 * spread(1)


@pytest.mark.slow
def test_losses_of_critics_are_summed_or_averaged(start: LearnerState, batch: Any, method: ActorCritic) -> None:
    averaged = replace(method, options=replace(method.options, critic_loss="mean"))
    total, _ = method.critic_loss(start.critics, start, batch, KEY)
    mean, _ = averaged.critic_loss(start.critics, start, batch, KEY)
    assert float(mean) == pytest.approx(float(total) / method.options.critics, rel=1e-5)


def abstract(method: ActorCritic) -> Any:
    """A state of shapes and types alone."""
    return jax.eval_shape(lambda key: method.init(key, spec()), KEY)


def stub(**numbers: float) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(
        policy=squashed_policy(jnp.arctanh(0.25), -20.0),
        targets=linear_critics(Q1, Q2),
        numbers=SimpleNamespace(**{name: jnp.float32(value) for name, value in numbers.items()}),
        raw_temperature=jnp.float32(0.0),
    )
