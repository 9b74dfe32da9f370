"""The image encoder is a pytree of arrays that learns; the shift moves images and nothing else."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from calql.networks.encoder import ImageEncoder, convolve, random_shift
from calql.networks.mlp import Precision

SHAPE = (12, 12, 3)


def images(count: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(0, 256, (count, *SHAPE), np.uint8))


@jax.jit
def encode(encoder: ImageEncoder, pictures: jax.Array) -> jax.Array:
    return jax.vmap(encoder)(pictures)


def make(key: jax.Array, precision: Precision = "float32") -> ImageEncoder:
    return ImageEncoder(SHAPE, 16, (8, 8), (2, 2), key=key, initialiser="lecun", precision=precision)


@pytest.fixture(scope="module")
def encoders() -> ImageEncoder:
    """Three seeds, stacked."""
    return jax.jit(lambda key: jax.vmap(make)(jax.random.split(key, 3)))(jax.random.key(0))


@pytest.fixture(scope="module")
def encoder(encoders: ImageEncoder) -> ImageEncoder:
    return jax.tree.map(lambda leaf: leaf[0], encoders)


def test_all_leaves_are_arrays(encoder: ImageEncoder) -> None:
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(encoder))


def test_features_are_bounded_and_tell_images_apart(encoder: ImageEncoder) -> None:
    features = encode(encoder, images(5))
    assert features.shape == (5, 16)
    assert features.dtype == jnp.float32
    assert bool(jnp.all(jnp.abs(features) <= 1.0))
    assert float(jnp.std(features, axis=0).min()) > 1e-3


def test_every_parameter_gets_gradient(encoder: ImageEncoder) -> None:
    weights = jnp.asarray(np.random.default_rng(1).normal(size=16), jnp.float32)

    def loss(model: ImageEncoder) -> jax.Array:
        return jnp.mean((jax.vmap(model)(images(8)) @ weights - 1.0) ** 2)

    gradient = jax.jit(jax.grad(loss))(encoder)
    assert all(float(jnp.abs(leaf).max()) > 0 for leaf in jax.tree.leaves(gradient))


def test_seeds_vmap_and_agree_with_one_by_one(encoders: ImageEncoder) -> None:
    together = jax.jit(jax.vmap(encode, in_axes=(0, None)))(encoders, images(5))
    assert together.shape == (3, 5, 16)
    for index in range(3):
        one = jax.tree.map(lambda leaf, index=index: leaf[index], encoders)
        assert np.allclose(together[index], encode(one, images(5)), atol=1e-5)


def test_bfloat16_stays_close(encoder: ImageEncoder) -> None:
    coarse = jax.jit(lambda key: make(jax.random.split(key, 3)[0], "bfloat16"))(jax.random.key(0))
    fine, rough = encode(encoder, images(5)), encode(coarse, images(5))
    assert rough.dtype == jnp.float32
    assert 0.0 < float(np.abs(np.asarray(fine) - np.asarray(rough)).max()) < 0.1


def test_it_learns_where_a_bright_square_is(encoder: ImageEncoder) -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(0, 9, (128, 2))
    pictures = np.zeros((128, *SHAPE), np.uint8)
    for picture, (row, column) in zip(pictures, places, strict=True):
        picture[row : row + 4, column : column + 4] = 255
    wanted = jnp.asarray(places / 4.0 - 1.0, jnp.float32)
    model = (encoder, jnp.zeros((16, 2)))
    optimiser = optax.adam(3e-3)

    def loss(model: tuple[ImageEncoder, jax.Array]) -> jax.Array:
        return jnp.mean((jax.vmap(model[0])(jnp.asarray(pictures)) @ model[1] - wanted) ** 2)

    def step(carry, _):  # type: ignore[no-untyped-def]
        model, state = carry
        value, gradient = jax.value_and_grad(loss)(model)
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(model, updates), state), value

    _, losses = jax.jit(lambda m: jax.lax.scan(step, (m, optimiser.init(m)), None, length=120))(model)
    assert float(losses[-1]) < 0.1 * float(losses[0])


def test_a_shift_moves_whole_images_by_at_most_the_padding() -> None:
    picture = np.zeros((1, 9, 9, 1), np.uint8)
    picture[0, 4, 4] = 200
    many = jnp.repeat(jnp.asarray(picture), 400, axis=0)
    moved = np.asarray(random_shift(many, jax.random.key(0), padding=2))
    assert moved.dtype == np.uint8
    where = np.argwhere(moved[..., 0] == 200)
    assert len(where) == 400
    assert where[:, 1:].min() == 2
    assert where[:, 1:].max() == 6
    assert len(np.unique(where[:, 1:], axis=0)) == 25  # all shifts occur


def test_a_shift_repeats_the_edge_and_follows_its_key() -> None:
    shift = jax.jit(random_shift)
    flat = jnp.full((6, *SHAPE), 77, jnp.uint8)
    keys = [jax.random.key(seed) for seed in range(2)]
    assert np.all(np.asarray(shift(flat, keys[0])) == 77)
    first = np.asarray(shift(images(6), keys[0]))
    assert np.array_equal(first, np.asarray(shift(images(6), keys[0])))
    assert not np.array_equal(first, np.asarray(shift(images(6), keys[1])))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(12, 12), (7, 9)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_patches_times_kernel_is_the_convolution(size: tuple[int, int], stride: int) -> None:
    rng = np.random.default_rng(0)
    image = jnp.asarray(rng.normal(size=(*size, 4)), jnp.float32)
    kernel = jnp.asarray(rng.normal(size=(3, 3, 4, 5)), jnp.float32)

    def library(image: jax.Array, kernel: jax.Array) -> jax.Array:
        shapes = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(image[None], kernel, (stride, stride), "SAME", dimension_numbers=shapes)[0]

    ours, theirs = convolve(image, kernel, stride), library(image, kernel)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    weights = jnp.asarray(rng.normal(size=theirs.shape), jnp.float32)
    gradients = [
        jax.grad(lambda i, k, f=f: jnp.sum(weights * f(i, k)), (0, 1))(image, kernel)  # type: ignore[misc]
        for f in (lambda i, k: convolve(i, k, stride), library)
    ]
    for mine, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-4)
