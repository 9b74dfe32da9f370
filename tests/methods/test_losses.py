"""Every loss term against numbers worked out by hand (in the comments), and its gradient against finite differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.test_util import check_grads

from calql.methods import losses


def gap(reference: float | None = None, **options: Any) -> float:
    """The worked example: one sample of each kind, two action dimensions.

    Q(random) = -3, Q(policy at s) = -8, Q(policy at s') = -2, Q(data) = -2.5, their log-densities
    -1 and 0.5, reference -4.
    """
    one = jnp.ones((1, 1))
    value = losses.conservative_gap(
        jnp.array([-2.5]),
        -3.0 * one,
        -8.0 * one,
        -2.0 * one,
        -1.0 * one,
        0.5 * one,
        action_dim=2,
        reference=None if reference is None else jnp.array([reference]),
        **options,
    )
    return float(value[0])


# random: -3 + 2 ln 2 = -1.61371, exp 0.199147. next: -2 - 0.5 = -2.5, exp 0.082085.
# policy: -8 + 1 = -7, exp 0.000912; calibrated -4 + 1 = -3, exp 0.049787.
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"reference": -4.0}, 1.39442),  # ln 0.331019 = -1.10558, + 2.5
        ({}, 1.23467),  # ln 0.282144 = -1.26534, + 2.5
        ({"reference": -4.0, "importance_sampling": False}, 1.24657),  # ln(e^-3 + e^-2.5 + e^-2 + e^-4) + 2.5
        ({"reference": -4.0, "calibrate_after_importance": True}, 1.29452),  # policy: max(-7, -4), exp 0.018316
        ({"reference": -2.75, "calibrate_random": True}, 1.71109),  # checked below
        ({"reference": -4.0, "subtract_log_count": True}, 0.29581),  # 1.39442 - ln 3
    ],
)
def test_the_worked_example(options: dict[str, Any], expected: float) -> None:
    # calibrate_random, reference -2.75: random -2.75 + 1.386294 = -1.363706, exp 0.255711; next exp 0.082085;
    # policy -2.75 + 1 = -1.75, exp 0.173774; sum 0.511570, ln -0.670271; + 2.5 = 1.829729
    if options.get("calibrate_random"):
        expected = 1.829729
    assert gap(**options) == pytest.approx(expected, abs=1e-5)


def test_temperature_of_the_soft_maximum() -> None:
    # at temperature 2, no importance sampling: 2 ln(e^-1.5 + e^-1.25 + e^-1 + e^-2)
    # = 2 ln(0.223130 + 0.286505 + 0.367879 + 0.135335) = 2 ln 1.012849 = 0.025534; + 2.5
    value = gap(reference=-4.0, importance_sampling=False, temperature=2.0)
    assert value == pytest.approx(2.525534, abs=1e-5)


def test_no_gradient_through_a_calibrated_sample_but_through_a_random_one_below_the_reference() -> None:
    def loss(policy: jax.Array, random: jax.Array) -> jax.Array:
        zero = jnp.zeros((1, 1))
        args = (jnp.array([0.0]), random, policy, policy, zero, zero)
        return losses.conservative_gap(*args, action_dim=2, reference=jnp.array([-1.0]))[0]

    low = jnp.full((1, 1), -5.0)
    of_policy, of_random = jax.grad(loss, argnums=(0, 1))(low, low)
    assert float(of_policy[0, 0]) == 0.0
    assert float(of_random[0, 0]) > 0.0


def test_bound_rate_counts_entries_strictly_below() -> None:
    q = jnp.array([[-1.0, 0.0, 1.0, -2.0], [3.0, 3.0, 3.0, 1.0]])
    assert float(losses.bound_rate(q, jnp.array([0.0, 2.0]))) == 3 / 8  # -1, -2 and 1


def test_backup_stops_at_terminals_alone() -> None:
    target = losses.backup(jnp.array([1.0, 1.0]), jnp.array([0.0, 1.0]), 0.9, jnp.array([10.0, 10.0]))
    assert target.tolist() == [10.0, 1.0]  # 1 + 0.9 * 10; 1


def test_least_critic_first_then_the_best_action() -> None:
    q = jnp.array([[[1.0, 4.0]], [[3.0, 2.0]]])  # minima 1 and 2; the other order would give 3
    assert losses.pessimistic_best(q).tolist() == [2.0]


def test_squared_error_per_critic() -> None:
    q = jnp.array([[1.0, 2.0], [0.0, 0.0]])
    assert losses.squared_error(q, jnp.array([3.0, 1.0])).tolist() == [2.5, 5.0]  # (4 + 1) / 2, (9 + 1) / 2


def test_policy_and_temperature() -> None:
    # (0.5 * 1 - 2 + 0.5 * 3 + 2) / 2
    assert float(losses.entropy_regularised(jnp.array([1.0, 3.0]), jnp.array([2.0, -2.0]), 0.5)) == 1.0
    log_probs = jnp.array([-1.0, -3.0])  # entropy 2, above the target -4: alpha must fall
    assert float(losses.temperature_loss(jnp.float32(0.5), log_probs, -4.0)) == 3.0  # -0.5 * (-2 - 4)
    assert float(jax.grad(losses.temperature_loss)(jnp.float32(0.5), log_probs, -4.0)) == 6.0
    value, slope = jax.value_and_grad(losses.weighted_temperature_loss)(jnp.float32(0.5), log_probs, -4.0)
    assert (float(value), float(slope)) == (3.0, 6.0)  # 0.5 * (2 + 4), and 2 + 4


def test_dual_weight_starts_at_e_and_is_bounded() -> None:
    assert float(losses.dual_weight(jnp.float32(1.0))) == pytest.approx(2.71828, abs=1e-5)
    assert float(losses.dual_weight(jnp.float32(100.0))) == 1e6


def test_expectile() -> None:
    # 0.9 * 2^2 above, 0.1 * 2^2 below; at 1/2 both halves alike
    assert losses.expectile(jnp.array([2.0, -2.0]), 0.9).tolist() == pytest.approx([3.6, 0.4])
    assert losses.expectile(jnp.array([2.0, -2.0]), 0.5).tolist() == [2.0, 2.0]


def test_weights_by_advantage() -> None:
    advantages = jnp.array([0.0, jnp.log(2.0), 1e6])
    assert losses.exponential_weights(advantages, 3.0).tolist() == pytest.approx([1.0, 8.0, 100.0])  # 2^3; the cap
    third = jnp.array([0.0, jnp.log(3.0)])
    assert losses.softmax_weights(third, 1.0).tolist() == pytest.approx([0.25, 0.75])  # 1 : 3
    assert losses.softmax_weights(third, 0.5).tolist() == pytest.approx([0.1, 0.9])  # 1 : 9
    assert float(losses.weighted_cloning(jnp.array([0.25, 0.75]), jnp.array([-4.0, -2.0]))) == 2.5


def test_ascent_in_units_of_q_and_distances() -> None:
    q = jnp.array([1.0, -3.0])  # mean -1, mean size 2
    assert float(losses.normalised_ascent(q, 2.5)) == pytest.approx(1.25, rel=1e-5)
    # the divisor has no gradient: -2.5 / (2 * 2) for each
    assert jax.grad(losses.normalised_ascent)(q, 2.5).tolist() == pytest.approx([-0.625, -0.625], rel=1e-5)
    assert losses.squared_distance(jnp.array([[1.0, 0.0], [0.5, 0.5]]), jnp.zeros((2, 2))).tolist() == [1.0, 0.5]


def test_masked_mean_of_nothing_is_zero() -> None:
    values = jnp.array([1.0, 2.0, 9.0])
    assert float(losses.masked_mean(values, jnp.array([1.0, 1.0, 0.0]))) == 1.5
    assert float(losses.masked_mean(values, jnp.zeros(3))) == 0.0


def _gap_of(random: jax.Array, policy: jax.Array, data: jax.Array) -> jax.Array:
    density = jnp.full((2, 2), 0.3)
    reference = jnp.array([-0.35, 0.15])
    args = (data, random, policy, policy + 0.2, density, -density)
    return jnp.sum(losses.conservative_gap(*args, action_dim=2, reference=reference))


SOME = jnp.array([[0.3, -0.7], [1.1, 0.4]])


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (_gap_of, (SOME, SOME * 0.5, SOME[:, 0])),
        (lambda q: jnp.sum(losses.squared_error(q, jnp.array([0.2, 1.0]))), (SOME,)),
        (lambda p, q: losses.entropy_regularised(p, q, 0.7), (SOME[0], SOME[1])),
        (lambda x: losses.temperature_loss(x, SOME[0], -2.0), (jnp.float32(0.3),)),
        (lambda x: losses.weighted_temperature_loss(x, SOME[0], -2.0), (jnp.float32(0.3),)),
        (losses.dual_weight, (jnp.float32(1.0),)),
        (lambda u: jnp.sum(losses.expectile(u, 0.8)), (SOME,)),
        (lambda p: losses.weighted_cloning(SOME[0], p), (SOME[1],)),
        (lambda a: jnp.sum(losses.squared_distance(a, SOME)), (SOME * 0.3,)),
        (lambda v: losses.masked_mean(v, jnp.array([1.0, 0.0])), (SOME[0],)),
    ],
)
def test_gradients_against_finite_differences(function: Any, arguments: tuple[jax.Array, ...]) -> None:
    check_grads(function, arguments, order=1, modes=["rev"], atol=2e-2, rtol=2e-2, eps=1e-2)
