"""Critics: independent members, many actions per state, targets that follow; what a network sees of an observation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from calql.networks import Critics, Identity, Pixels, Spec, Standardise, Value, make_encoder, move_towards, q_values

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def critics() -> Critics:
    return Critics(Identity(), 3, 2, (8,), count=3, key=KEY)


def test_members_differ_and_many_actions_are_each(critics: Critics) -> None:
    states, actions = jax.random.normal(KEY, (4, 3)), jax.random.normal(KEY, (4, 5, 2))
    many = q_values(critics, critics.encode(states), actions)
    assert many.shape == (3, 4, 5)
    for index in range(5):
        each = q_values(critics, critics.encode(states), actions[:, index])
        np.testing.assert_allclose(many[:, :, index], each, atol=1e-6)
    assert not np.allclose(many[0], many[1])


def test_a_shared_head_is_one_layer_for_all() -> None:
    shared = Critics(Identity(), 3, 2, (8,), count=3, key=KEY, shared_head=True)
    rows = jax.random.normal(KEY, (4, 5))
    expected = []
    weight, bias = shared.members.output.weight, shared.members.output.bias
    assert weight.shape == (1, 8)
    for index in range(3):
        layer = jax.tree.map(lambda leaf, index=index: leaf[index], shared.members.hidden[0])
        expected.append(jax.nn.relu(rows @ layer.weight.T + layer.bias) @ weight.T + bias)
    found = q_values(shared, rows[:, :3], rows[:, 3:])
    np.testing.assert_allclose(found, np.stack(expected)[..., 0], atol=1e-6)
    gradient = jax.grad(lambda critics: q_values(critics, rows[:, :3], rows[:, 3:]).sum())(shared)
    features = sum(
        jax.nn.relu(rows @ w.T + b)
        for w, b in zip(shared.members.hidden[0].weight, shared.members.hidden[0].bias, strict=True)
    )
    np.testing.assert_allclose(gradient.members.output.weight[0], features.sum(0), rtol=1e-5)  # over all critics


def test_targets_take_a_share_of_the_new_network(critics: Critics) -> None:
    moved = jax.tree.map(lambda leaf: leaf + 1.0, critics)
    target = move_towards(critics, moved, jnp.float32(0.25))
    for old, new in zip(jax.tree.leaves(critics), jax.tree.leaves(target), strict=True):
        np.testing.assert_allclose(new, old + 0.25, atol=1e-6)


def test_value_is_one_number_per_state() -> None:
    value = Value(Identity(), 3, (8,), key=KEY)
    assert value(jnp.ones((4, 3))).shape == (4,)
    assert value(jnp.ones(3)).shape == ()


def test_standardised_observations() -> None:
    encoder, features = make_encoder(Spec((2,), 1, mean=(1.0, -2.0), std=(2.0, 0.0)), KEY, standardise=True)
    assert features == 2
    assert isinstance(encoder, Standardise)
    assert not jax.tree.leaves(encoder)  # nothing to train
    # (3 - 1) / (2 + 0.001); a feature that never changes stays 0
    np.testing.assert_allclose(encoder(jnp.array([3.0, -2.0])), [2.0 / 2.001, 0.0], rtol=1e-5)
    assert isinstance(make_encoder(Spec((2,), 1), KEY, standardise=True)[0], Identity)


@pytest.mark.slow
def test_images_go_through_the_encoder_whatever_stands_before_them() -> None:
    encoder, features = make_encoder(Spec((8, 8, 3), 1, image=True), KEY)
    assert isinstance(encoder, Pixels)
    images = jax.random.randint(KEY, (2, 3, 8, 8, 3), 0, 256).astype(jnp.uint8)
    every = encoder(images)
    assert every.shape == (2, 3, features)
    np.testing.assert_allclose(every[1, 2], encoder(images[1, 2]), atol=1e-5)
