"""Algorithm 2 on the hand-worked chain, the split of regret, and what calibration does to Bellman errors."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from small_mdps import quick_jit, quickly, random_mdp, random_policy, random_table, seeds, two_state_chain

from calql.theory.algorithm import VARIANTS, Rules, fine_tune, fitted_q, rollout, rules
from calql.theory.conditions import Instance, make_instance, near_optimal
from calql.theory.mdp import bellman, one_hot_greedy, optimal_q, policy_q
from calql.theory.regression import RIDGE, sample_offline

LONGEST, LARGEST = 30, 400
tune = quick_jit(partial(fine_tune, buffer=LONGEST))
offline = quick_jit(partial(sample_offline, buffer=LARGEST))


def chain_instance() -> Instance:
    """The chain with the reference that always stays: Q^ref_0(0, .) = [0, 1.2], V^ref(0) = 0."""
    mdp = two_state_chain()
    staying = jnp.zeros((2, 2, 2)).at[..., 0].set(1.0)
    return make_instance(mdp, lambda *_: (staying, jnp.full((2, 2, 2), 0.25)))


def test_variants_are_the_four_corners() -> None:
    instance = chain_instance()
    plain = rules(VARIANTS["hy-q"], instance, 1.0)
    assert float(plain.pessimism) == 0.0
    np.testing.assert_array_equal(plain.floor, 0.0)
    np.testing.assert_array_equal(plain.ceiling[:, 0, 0], [2.0, 1.0])
    full = rules(VARIANTS["cal-ql"], instance, 1.0)
    assert float(full.pessimism) == 1.0
    np.testing.assert_array_equal(full.floor, instance.reference_q)
    np.testing.assert_array_equal(rules(VARIANTS["cal-ql-oracle"], instance, 1.0).ceiling, instance.optimal_q)


def test_fit_without_data_is_the_floor() -> None:
    instance = chain_instance()
    data = offline(instance, 0, jax.random.key(0))
    np.testing.assert_array_equal(fitted_q(data, rules(VARIANTS["hy-q"], instance, 1.0)), 0.0)
    np.testing.assert_allclose(fitted_q(data, rules(VARIANTS["cal-ql"], instance, 1.0)), instance.reference_q)


def test_last_step_of_one_fit_by_hand() -> None:
    """Staying in 1 pays 1 always: n tuples give n / (n + ridge), less pessimism / sqrt(n + ridge)."""
    instance = chain_instance()
    data = offline(instance, 400, jax.random.key(0))
    count = float(data[1].count[1, 0].sum())  # type: ignore[union-attr]
    f = fitted_q(data, Rules(jnp.array(0.5), jnp.full((2, 2, 2), 2.0), jnp.zeros((2, 2, 2))))
    assert np.isclose(f[1, 1, 0], count / (count + RIDGE) - 0.5 * (count + RIDGE) ** -0.5, atol=1e-5)


def test_hy_q_solves_the_covered_chain() -> None:
    instance = chain_instance()
    data = offline(instance, 400, jax.random.key(0))
    run = tune(instance, rules(VARIANTS["hy-q"], instance, 1.0), data, 20, jax.random.key(1))
    assert float(run.value[0]) == 0.0  # f^1 = 0, whose greedy action stays in the worthless state
    np.testing.assert_allclose(run.value[1:20], 1.2, atol=1e-6)


def test_conservatism_alone_never_leaves_the_bad_state_and_calibration_does() -> None:
    """No offline data: the lowered fit stays at 0 for ever; Q^ref(0, move) = 1.2 shows the way at once."""
    instance = chain_instance()
    data = offline(instance, 0, jax.random.key(0))
    key = jax.random.key(1)
    alone = tune(instance, rules(VARIANTS["no-calibration"], instance, 1.0), data, 30, key)
    np.testing.assert_array_equal(alone.value, 0.0)
    np.testing.assert_array_equal(alone.promised, 0.0)
    both = tune(instance, rules(VARIANTS["cal-ql"], instance, 1.0), data, 30, key)
    np.testing.assert_allclose(both.value[1:], 1.2, atol=1e-6)


def test_traced_length_equals_a_shorter_run() -> None:
    instance = chain_instance()
    data = offline(instance, 20, jax.random.key(0))
    rule, key = rules(VARIANTS["cal-ql"], instance, 1.0), jax.random.key(3)
    short, full = (tune(instance, rule, data, n, key) for n in (9, 16))
    np.testing.assert_array_equal(short.value[:9], full.value[:9])
    np.testing.assert_array_equal(short.value[9:], 0.0)


def test_rollout_follows_the_policy_and_the_model() -> None:
    mdp = two_state_chain()
    moving = jnp.zeros((2, 2, 2)).at[..., 1].set(1.0)
    first, second = rollout(mdp, moving, jax.random.key(0))
    assert [int(first.state), int(first.action), int(first.next_state)] == [0, 1, 1]
    assert [int(second.state), int(second.action), int(second.next_state)] == [1, 1, 0]


@quickly
@given(seeds)
def test_neither_step_of_the_class_adds_bellman_error(seed: int) -> None:
    """max(f, Q^ref) moves f toward T f if f_{h+1} >= Q^ref, and min(f, Q*) if f_{h+1} <= Q*: pointwise.

    The least-squares bound of the lowered or raised f therefore follows from that of the fit.
    """
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    reference, best = policy_q(mdp, random_policy(rng, mdp)), optimal_q(mdp)
    inside = reference + jnp.asarray(rng.random(best.shape), jnp.float32) * (best - reference)
    target = bellman(mdp, inside)
    fit = target + random_table(rng, mdp, 1.0)
    raised, lowered = jnp.maximum(fit, reference), jnp.minimum(fit, best)
    assert (jnp.abs(raised - target) <= jnp.abs(fit - target) + 1e-5).all()
    assert (jnp.abs(lowered - target) <= jnp.abs(fit - target) + 1e-5).all()


def test_vmap_over_variants_equals_one_by_one() -> None:
    instance = make_instance(random_mdp(np.random.default_rng(0), 2, 2, 2), near_optimal)
    data = offline(instance, 30, jax.random.key(0))
    each = [rules(v, instance, 1.0) for v in VARIANTS.values()]
    run = partial(tune, instance, data=data, episodes=12, key=jax.random.key(1))
    together = jax.vmap(lambda rule: run(rule=rule))(jax.tree.map(lambda *x: jnp.stack(x), *each))
    for n, rule in enumerate(each):
        np.testing.assert_allclose(together.value[n], run(rule=rule).value, atol=1e-5)


def test_greedy_policy_of_the_reference_is_at_least_the_reference() -> None:
    mdp = random_mdp(np.random.default_rng(5))
    policy = random_policy(np.random.default_rng(6), mdp)
    q = policy_q(mdp, policy)
    improved = policy_q(mdp, one_hot_greedy(q))
    assert (improved >= q - 1e-5).all()
