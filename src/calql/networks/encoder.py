"""Images to features: a small convolutional encoder, and the random shift that keeps it from overfitting."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks.initialisers import Initialiser, linear
from calql.networks.mlp import Norm, Precision
from calql.networks.products import asked_of_xla, dtype_of, product_of_inputs

PADDING = 4  # pixels of random shift, to each side


class ImageEncoder(eqx.Module):
    """Strided 3x3 convolutions, then a linear layer with layer norm and tanh: bounded features of one image.

    Every leaf is an array, so that jit, vmap and scan take it as it is.
    """

    kernels: tuple[jax.Array, ...]  # [height, width, in, out]
    biases: tuple[jax.Array, ...]  # [out]
    projection: eqx.nn.Linear
    norm: Norm
    strides: tuple[int, ...] = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],  # height, width, channels
        features: int = 128,
        channels: Sequence[int] = (32, 32, 32, 32),
        strides: Sequence[int] = (2, 2, 2, 1),
        *,
        key: jax.Array,
        initialiser: Initialiser = "orthogonal",
        precision: Precision = "float32",
    ) -> None:
        keys = jax.random.split(key, len(channels) + 1)
        widths = [shape[2], *channels]
        draw = jax.nn.initializers.he_normal()
        self.kernels = tuple(
            draw(k, (3, 3, a, b), jnp.float32) for k, a, b in zip(keys[:-1], widths[:-1], widths[1:], strict=True)
        )
        self.biases = tuple(jnp.zeros(width) for width in channels)
        self.strides, self.precision = tuple(strides), precision
        height, width = shape[:2]
        for stride in strides:  # "SAME" padding: each layer divides the size, rounded up
            height, width = -(-height // stride), -(-width // stride)
        self.projection = linear(height * width * widths[-1], features, keys[-1], initialiser, 1.0)
        self.norm = Norm(features)

    def __call__(self, image: jax.Array) -> jax.Array:
        """Features [feature] of one image [row, column, channel] of 8-bit colours."""
        dtype = dtype_of(self.precision)
        x = image.astype(jnp.float32) / 255.0 - 0.5
        for layer, (kernel, bias, stride) in enumerate(zip(self.kernels, self.biases, self.strides, strict=True)):
            x = convolve(x, kernel, stride, self.precision, inputs=layer == 0)
            x = jax.nn.relu(x + bias.astype(dtype))
        return jnp.tanh(self.norm(self._project(x.reshape(-1).astype(jnp.float32))))

    def _project(self, x: jax.Array) -> jax.Array:
        """In float32 where that is the precision, else in TF32, which has all digits of what comes in bfloat16."""
        asked = asked_of_xla("float32" if self.precision == "float32" else "tf32")
        assert self.projection.bias is not None
        return jnp.matmul(self.projection.weight, x, precision=asked) + self.projection.bias


def convolve(
    image: jax.Array, kernel: jax.Array, stride: int, precision: Precision = "float32", *, inputs: bool = False
) -> jax.Array:
    """Of an image [row, column, channel] with a kernel [height, width, channel, out], padded as "SAME".

    A product of patches and kernel. Each seed has a kernel of its own: as a convolution that would be one of
    many small groups, which libraries do several times more slowly. Colours that come from outside (`inputs`) are not
    rounded, whatever the precision.
    """
    patches, weights = _patches(image, kernel.shape[:2], stride), kernel.reshape(-1, kernel.shape[-1])
    if inputs and precision == "bfloat16":
        return product_of_inputs(patches, weights.T, precision)
    dtype, asked = dtype_of(precision), asked_of_xla("float32" if inputs else precision)
    return jnp.matmul(patches.astype(dtype), weights.astype(dtype), precision=asked)


def _patches(image: jax.Array, size: tuple[int, ...], stride: int) -> jax.Array:
    """[row, column, height * width * channel]: what the kernel lies on, at each of its places."""
    height, width = size
    rows, columns = (-(-size // stride) for size in image.shape[:2])
    beyond = (
        max((rows - 1) * stride + height - image.shape[0], 0),
        max((columns - 1) * stride + width - image.shape[1], 0),
    )
    padded = jnp.pad(image, (*((total // 2, total - total // 2) for total in beyond), (0, 0)))
    patches = [
        padded[top : top + (rows - 1) * stride + 1 : stride, left : left + (columns - 1) * stride + 1 : stride]
        for top in range(height)
        for left in range(width)
    ]
    return jnp.concatenate(patches, axis=-1)


def random_shift(images: jax.Array, key: jax.Array, padding: int = PADDING) -> jax.Array:
    """Each image [batch, row, column, channel] moved by up to `padding` pixels, its edge repeated.

    The shift of image-based reinforcement learning (DrQ): a critic must give moved images one value.
    """

    def shift(image: jax.Array, offset: jax.Array) -> jax.Array:
        padded = jnp.pad(image, ((padding, padding), (padding, padding), (0, 0)), mode="edge")
        return jax.lax.dynamic_slice(padded, (offset[0], offset[1], 0), image.shape)

    offsets = jax.random.randint(key, (images.shape[0], 2), 0, 2 * padding + 1)
    return jax.vmap(shift)(images, offsets)
