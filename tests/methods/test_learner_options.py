"""What single options of the learner change, in numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hand import Q1, Q2, linear_critics, rows, squashed_policy
from toy_task import BATCH, logged, spec, tiny

from calql.methods import losses
from calql.methods.learner import ActorCritic
from calql.methods.learner_options import ActorCriticOptions
from calql.networks import q_values

KEY = jax.random.key(0)


def learner(**options: Any) -> ActorCritic:
    return ActorCritic(ActorCriticOptions(critics=2, **options))


def sure(temperature: float = 1.0) -> Any:
    """A state whose policy plays 0.25, which Q1 values 2.25 at s' = 2 and Q2 0.5; discount 0.9."""
    return SimpleNamespace(
        policy=squashed_policy(jnp.arctanh(0.25), -20.0),
        targets=linear_critics(Q1, Q2),
        numbers=SimpleNamespace(discount=jnp.float32(0.9)),
        raw_temperature=jnp.float32(math.log(temperature)),
    )


def test_the_dual_weight_grows_while_the_regulariser_is_above_the_gap() -> None:
    # alpha' = e at 1: -e * 5 * (2 - 0.8) = -16.309691, and as its slope is itself, so is the loss's
    numbers: Any = SimpleNamespace(conservative_weight=5.0, gap=0.8)
    for method, weight in ((learner(), math.e), (learner(dual_form="softplus"), math.log(1 + math.e))):
        loss = lambda raw: method.multiplier_loss(raw, numbers, jnp.float32(2.0))  # noqa: E731, B023
        assert float(loss(jnp.float32(1.0))) == pytest.approx(-weight * 6.0, rel=1e-5)
        slope = float(jax.grad(loss)(jnp.float32(1.0)))
        assert slope == pytest.approx(float(loss(1.01) - loss(0.99)) / 0.02, rel=1e-3)
    assert float(learner().multiplier_loss(jnp.float32(1.0), numbers, jnp.float32(2.0))) == pytest.approx(-16.309691)


def test_entropy_in_the_target_is_alpha_times_it() -> None:
    # log pi of a draw e standard deviations off: 20 - 0.919 - e^2 / 2 + 0.065, so the target falls by about 17
    plain = float(learner(backup_actions=1).td_target(sure(), rows(), KEY)[0])
    assert plain == pytest.approx(1.45, rel=1e-4)
    method = learner(backup_actions=1, entropy_in_backup=True)
    falls = [plain - float(method.td_target(sure(alpha), rows(), KEY)[0]) for alpha in (1.0, 2.0)]
    assert 0.9 * 12.0 < falls[0] < 0.9 * 19.2
    assert falls[1] == pytest.approx(2.0 * falls[0], rel=1e-4)


@pytest.mark.slow
def test_a_subset_with_replacement_may_hold_one_critic_twice() -> None:
    def targets(**options: Any) -> set[float]:
        method = learner(target_subset=2, **options)
        return {round(float(method.td_target(sure(), rows(), key)[0]), 3) for key in jax.random.split(KEY, 12)}

    assert targets() == {1.45}  # the least of both: 1 + 0.9 * 0.5
    assert targets(subset_with_replacement=True) == {1.45, 3.025}  # or the first alone: 1 + 0.9 * 2.25


def test_as_many_critics_are_penalised_as_asked_for() -> None:
    method = ActorCritic(ActorCriticOptions(critics=5, penalised_critics=2))
    drawn = [method.penalised(key, "gap").tolist() for key in jax.random.split(KEY, 20)]
    assert all(len(set(pair)) == 2 for pair in drawn)
    assert {index for pair in drawn for index in pair} == set(range(5))  # each at some time
    twice = ActorCritic(ActorCriticOptions(critics=5, penalised_critics=2, subset_with_replacement=True))
    drawn = [twice.penalised(key, "gap").tolist() for key in jax.random.split(KEY, 40)]
    assert any(first == second for first, second in drawn)


@pytest.mark.slow
def test_the_mean_of_penalised_critics_counts_as_much_as_that_of_all() -> None:
    """TD over all critics, the regulariser over those drawn: a drawn one weighs 1/2 there, 1/3 in the TD part."""
    method = tiny("wsrl", critics=3, penalised_critics=2, subset_with_replacement=False)
    assert method.options.critic_loss == "mean"
    state = jax.jit(method.init, static_argnums=1)(KEY, spec())
    batch = jax.tree.map(lambda column: column[:BATCH], logged(method))
    loss, metrics = method.critic_loss(state.critics, state, batch, KEY)
    key_gap = jax.random.split(KEY)[1]
    actions, log_probs = method.compared_actions(state, batch, key_gap)
    q = q_values(state.critics, state.critics.encode(batch.observations), actions)
    gaps, _ = method.gaps(q, log_probs, state, batch)
    excess = gaps[method.penalised(key_gap, "gap")].mean() - state.numbers.gap
    weight = method.multiplier(state.raw_multiplier) * state.numbers.conservative_weight
    assert float(loss) == pytest.approx(float(metrics["td_loss"] + weight * excess), rel=1e-5)


@pytest.mark.slow
def test_one_standard_deviation_for_all_states_samples_in_batches() -> None:
    """--no-state-dependent-std: one vector, whatever the number of states and actions."""
    for scalars in (True, False):
        method = tiny("cal-ql", state_dependent_std=False, log_std_scalars=scalars)
        state = jax.jit(method.init, static_argnums=1)(KEY, spec())
        batch = jax.tree.map(lambda column: column[None, :BATCH], logged(method))
        after, _ = jax.jit(method.update)(state, batch, KEY)
        assert not np.allclose(after.policy.log_std, state.policy.log_std)
        gaussian = after.policy(batch.observations[0])
        np.testing.assert_allclose(gaussian.log_std, gaussian.log_std[:1].repeat(BATCH, 0))


def test_entropy_comes_off_the_best_action_after_it_was_chosen() -> None:
    """Q 2 and 1 with log pi 3 and -3: the first is the best, and 3 comes off; not max(2 - 3, 1 + 3)."""
    q, log_probs = jnp.array([[[2.0, 1.0]]]), jnp.array([[3.0, -3.0]])
    assert float(losses.pessimistic_best(q)[0] - losses.at_best(log_probs, q)[0]) == -1.0


def test_the_regulariser_is_clipped_state_by_state() -> None:
    method = tiny("cal-ql", difference_clip=(0.1, 0.1))
    state = jax.jit(method.init, static_argnums=1)(KEY, spec())
    batch = jax.tree.map(lambda column: column[:BATCH], logged(method))
    _, metrics = jax.jit(method.critic_loss)(state.critics, state, batch, KEY)
    assert float(metrics["conservative_gap"]) == pytest.approx(0.1)


@pytest.mark.parametrize(("on_all", "seen"), [(False, BATCH), (True, 2 * BATCH)])
def test_the_policy_sees_the_last_minibatch_or_all(on_all: bool, seen: int) -> None:
    sizes: list[int] = []

    class Watched(ActorCritic):
        def policy_step(self, state: Any, critics: Any, batch: Any, key: Any) -> Any:
            sizes.append(len(batch.rewards))
            return super().policy_step(state, critics, batch, key)

    method = Watched(replace(tiny("cal-ql").options, critic_steps=2, policy_on_all=on_all))
    state = jax.eval_shape(lambda key: method.init(key, spec()), KEY)
    batch = jax.tree.map(lambda column: jnp.stack([column[:BATCH]] * 2), logged(method))
    jax.eval_shape(method.update, state, batch, KEY)
    assert sizes == [seen]


@pytest.mark.slow
def test_another_weight_online() -> None:
    method = tiny("cal-ql", conservative_weight_online=0.5)
    numbers = method.numbers(spec())
    _, after = method.switch(SimpleNamespace(numbers=numbers, _replace=lambda **parts: SimpleNamespace(**parts)))
    assert (float(numbers.conservative_weight), float(after.numbers.conservative_weight)) == (5.0, 0.5)
