"""Perceptrons: shapes, initial values, layer norm, dropout, precision."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.networks import MLP, Precision, Style, drop_out
from calql.networks.mlp import Norm

KEY = jax.random.key(0)


def test_rows_at_once_are_rows_one_by_one() -> None:
    network = MLP(3, 2, (8, 8), key=KEY, layer_norm=True)
    x = jax.random.normal(KEY, (4, 5, 3))
    every = network(x)
    assert every.shape == (4, 5, 2)
    np.testing.assert_allclose(every[1, 2], network(x[1, 2]), atol=1e-6)


def test_kernels_start_orthogonal_and_biases_at_zero() -> None:
    network = MLP(8, 1, (8,), key=KEY)
    kernel = network.hidden[0].weight
    np.testing.assert_allclose(kernel @ kernel.T, 2.0 * np.eye(8), atol=1e-5)  # gain sqrt(2)
    assert float(jnp.linalg.norm(network.output.weight)) == pytest.approx(0.01, rel=1e-4)
    assert network.hidden[0].bias is not None
    assert float(jnp.abs(network.hidden[0].bias).max()) == 0.0


def test_layer_norm_and_its_gradient_are_those_of_the_library() -> None:
    x, weights = 3.0 + jax.random.normal(KEY, (6, 16)), jax.random.normal(jax.random.key(1), (6, 16))
    scale, shift = jax.random.normal(jax.random.key(2), (2, 16))
    mine = eqx.tree_at(lambda norm: (norm.scale, norm.shift), Norm(16), (scale, shift))
    theirs = eqx.tree_at(lambda norm: (norm.weight, norm.bias), eqx.nn.LayerNorm(16, eps=1e-6), (scale, shift))
    np.testing.assert_allclose(mine(x), jax.vmap(theirs)(x), atol=1e-5)
    ours = jax.grad(lambda x, norm: jnp.sum(weights * norm(x)), (0, 1))(x, mine)
    other = jax.grad(lambda x, norm: jnp.sum(weights * jax.vmap(norm)(x)), (0, 1), allow_int=True)(x, theirs)
    for found, expected in zip(
        (ours[0], ours[1].scale, ours[1].shift), (other[0], other[1].weight, other[1].bias), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    many = jax.grad(lambda x: jnp.sum(weights * mine(x)[1]))(jnp.stack([x, x]))  # with more axes before the last
    np.testing.assert_allclose(many[1], ours[0], atol=1e-5)
    assert not np.any(many[0])


def test_layer_norm_makes_hidden_units_blind_to_the_scale_of_the_input() -> None:
    network = MLP(3, 1, (16,), key=KEY, layer_norm=True)
    x = jnp.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(network(10.0 * x), network(1000.0 * x), rtol=1e-3)


def test_half_precision_ends_in_float32() -> None:
    network = MLP(3, 1, (8,), key=KEY, style=Style(precision="bfloat16"))
    assert network(jnp.ones(3)).dtype == jnp.float32


def test_dropout_keeps_the_mean() -> None:
    dropped = drop_out(jnp.ones(20_000), 0.25, KEY)
    assert np.unique(np.asarray(dropped)).tolist() == pytest.approx([0.0, 1.0 / 0.75])
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-6), ("bfloat16", 0.02)])
def test_gradients_are_those_of_the_formula(precision: Precision, tolerance: float) -> None:
    network = MLP(3, 2, (8, 8), key=KEY, style=Style(precision=precision))
    x, weights = jax.random.normal(KEY, (4, 5, 3)), jax.random.normal(jax.random.key(1), (4, 5, 2))

    def formula(network: MLP, x: jax.Array) -> jax.Array:
        for layer in network.hidden:
            x = jax.nn.relu(jnp.einsum("...i,oi->...o", x, layer.weight) + layer.bias)
        return jnp.einsum("...i,oi->...o", x, network.output.weight) + network.output.bias

    ours, exact = (
        jax.grad(lambda n, x, f=f: jnp.sum(weights * f(n, x)), (0, 1))(network, x)  # type: ignore[misc]
        for f in (lambda n, x: n(x), formula)
    )
    for mine, theirs in zip(jax.tree.leaves(ours), jax.tree.leaves(exact), strict=True):
        assert mine.dtype == theirs.dtype
        assert float(jnp.linalg.norm(mine - theirs)) <= tolerance * float(jnp.linalg.norm(theirs))


@pytest.mark.slow
def test_biases_apart_from_products_are_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    network = MLP(3 + 2, 1, (8, 8, 8), key=KEY)
    features, actions = jax.random.normal(KEY, (4, 3)), jax.random.normal(jax.random.key(1), (4, 5, 2))

    def q_and_gradient() -> list[jax.Array]:
        q, gradient = jax.value_and_grad(lambda n: jnp.sum(n.of_pairs(features, actions) ** 2))(network)
        return [q, *jax.tree.leaves(gradient)]

    joined = q_and_gradient()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for apart, together in zip(q_and_gradient(), joined, strict=True):
        np.testing.assert_allclose(apart, together, rtol=1e-5, atol=1e-6)
