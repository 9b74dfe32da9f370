"""Policies: densities that integrate to one, samples that follow them, actions in the box."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.networks import (
    BoundedGaussianPolicy,
    DeterministicPolicy,
    Gaussian,
    Identity,
    TanhGaussianPolicy,
    clipped_sample,
    log_prob,
    mode,
    normal_log_prob,
    sample,
)

KEY = jax.random.key(0)


def test_squashed_density_integrates_to_one() -> None:
    gaussian = Gaussian(jnp.array([0.3]), jnp.array([-0.5]))
    grid = jnp.linspace(-0.9999, 0.9999, 20_001)[:, None]
    density = jnp.exp(log_prob(gaussian, grid))
    assert float(jnp.trapezoid(density, grid[:, 0])) == pytest.approx(1.0, abs=2e-3)


def test_log_probability_of_a_sample_is_that_of_its_action() -> None:
    gaussian = Gaussian(jnp.array([[0.3, -0.2]]), jnp.array([[-0.5, 0.1]]))
    actions, log_probs = sample(gaussian, KEY, (64,))
    assert actions.shape == (1, 64, 2)
    again = log_prob(Gaussian(gaussian.mean[:, None], gaussian.log_std[:, None]), actions)
    np.testing.assert_allclose(log_probs, again, atol=1e-2)


def test_densities_at_the_edge_are_finite() -> None:
    gaussian = Gaussian(jnp.zeros(2), jnp.zeros(2))
    for edge in (jnp.array([1.0, -1.0]), jnp.array([0.99999, -0.99999])):
        assert bool(jnp.isfinite(log_prob(gaussian, edge)))


def test_tanh_gaussian_starts_with_std_exp_minus_one() -> None:
    policy = TanhGaussianPolicy(Identity(), 3, 2, (8,), key=KEY)
    gaussian = policy(jax.random.normal(KEY, (5, 3)))
    np.testing.assert_allclose(jnp.exp(gaussian.log_std), 0.368, atol=0.02)
    np.testing.assert_allclose(mode(gaussian), 0.0, atol=0.05)
    vector = TanhGaussianPolicy(Identity(), 3, 2, (8,), key=KEY, state_dependent_std=False, log_std_offset=0.0)
    assert vector(jnp.ones((5, 3))).log_std.shape == (5, 2)


def test_bounded_gaussian_is_not_squashed_and_cut_to_the_box() -> None:
    policy = BoundedGaussianPolicy(Identity(), 3, 2, (8,), key=KEY)
    gaussian = policy(100.0 * jnp.ones((4, 3)))
    assert float(jnp.abs(gaussian.mean).max()) <= 1.0
    assert float(jnp.abs(clipped_sample(gaussian, KEY)).max()) <= 1.0
    fixed = BoundedGaussianPolicy(Identity(), 3, 2, (8,), key=KEY, fixed_std=0.03)
    assert fixed.log_std is None
    np.testing.assert_allclose(jnp.exp(fixed(jnp.ones((4, 3))).log_std), 0.03, rtol=1e-5)
    # at its mean, a Gaussian of std 0.03 in two dimensions: -2 ln 0.03 - ln 2 pi
    at_mean = normal_log_prob(fixed(jnp.ones((4, 3))), fixed(jnp.ones((4, 3))).mean)
    np.testing.assert_allclose(at_mean, 7.013116 - 1.837877, rtol=1e-4)


def test_dropout_needs_a_key() -> None:
    policy = BoundedGaussianPolicy(Identity(), 3, 2, (32,), key=KEY, dropout=0.5)
    x = jnp.ones((4, 3))
    np.testing.assert_array_equal(policy(x).mean, policy(x).mean)
    assert not np.allclose(policy(x).mean, policy(x, KEY).mean)


def test_deterministic_policy_is_in_the_box() -> None:
    policy = DeterministicPolicy(Identity(), 3, 2, (8,), key=KEY)
    assert policy(1e3 * jnp.ones((4, 3))).shape == (4, 2)
    assert float(jnp.abs(policy(1e3 * jnp.ones((4, 3)))).max()) <= 1.0
