"""What a network sees of an observation: a vector as it is or standardised, an image through an encoder, or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from calql.networks.encoder import ImageEncoder
from calql.networks.mlp import Precision
from calql.networks.parts import Encoder, Several
from calql.system.layout import Layout
from calql.system.walk import moments

SPREAD_FLOOR = 1e-3  # TD3+BC's


@dataclass(frozen=True)
class Spec:
    """What networks are built for: shapes, and where vectors lie in the data."""

    observation_shape: tuple[int, ...]
    action_dim: int
    image: bool = False
    mean: tuple[float, ...] = ()  # of logged observations that are vectors
    std: tuple[float, ...] = ()
    discrete: bool = False  # an action is one of `action_dim` choices, as a one-hot row
    layout: Layout | None = None  # the named parts of observations, packed or not

    @classmethod
    def of(
        cls, observations: np.ndarray, actions: np.ndarray, *, discrete: bool = False, layout: Layout | None = None
    ) -> Spec:
        """From logged columns [row, ...]: images by their type, vectors with their statistics."""
        shape, dim = observations.shape[1:], actions.shape[1]
        packed = layout is not None and layout.packed
        if observations.dtype == np.uint8 and not packed:
            return cls(shape, dim, image=True, discrete=discrete, layout=layout)
        part = (lambda rows: rows) if layout is None else layout.vectors_of
        centre, spread = (tuple(float(x) for x in column) for column in moments(observations, part))
        return cls(shape, dim, mean=centre, std=spread, discrete=discrete, layout=layout)


class Identity(eqx.Module):
    """Vectors pass as they are."""

    def __call__(self, observations: jax.Array) -> jax.Array:
        return observations.astype(jnp.float32)


class Standardise(eqx.Module):
    """Vectors in units of the spread that the logged data have. The statistics are constants, never trained."""

    mean: tuple[float, ...] = eqx.field(static=True)
    std: tuple[float, ...] = eqx.field(static=True)
    floor: float = eqx.field(static=True, default=SPREAD_FLOOR)  # added to the standard deviation

    def __call__(self, observations: jax.Array) -> jax.Array:
        return (observations.astype(jnp.float32) - jnp.asarray(self.mean)) / (jnp.asarray(self.std) + self.floor)


class Pixels(eqx.Module):
    """The image encoder applied to any number of leading axes: [..., row, column, channel] to [..., feature]."""

    encoder: ImageEncoder

    def __call__(self, images: jax.Array) -> jax.Array:
        leading = images.shape[:-3]
        features = jax.vmap(self.encoder)(images.reshape(-1, *images.shape[-3:]))
        return features.reshape(*leading, -1)


def make_encoder(
    spec: Spec,
    key: jax.Array,
    *,
    standardise: bool = False,
    floor: float = SPREAD_FLOOR,
    precision: Precision = "float32",
) -> tuple[Callable[[jax.Array], jax.Array], int]:
    """The encoder for observations of this shape, and how many features it gives."""
    if spec.image:
        return _camera(spec.observation_shape, key, precision)
    vectors = Standardise(spec.mean, spec.std, floor) if standardise and spec.mean else Identity()
    if spec.layout is None or not spec.layout.packed:
        return vectors, int(spec.observation_shape[0])
    cameras = {
        piece.name: _camera(piece.shape, jax.random.fold_in(key, number), precision)
        for number, piece in enumerate(spec.layout.cameras)
    }
    encoders: dict[str, Encoder] = {name: encoder for name, (encoder, _) in cameras.items()}
    features = sum(count for _, count in cameras.values()) + spec.layout.numbers
    return Several(encoders, vectors, spec.layout), features


def _camera(shape: tuple[int, ...], key: jax.Array, precision: Precision) -> tuple[Pixels, int]:
    height, width, channels = shape
    encoder = ImageEncoder((height, width, channels), key=key, precision=precision)
    return Pixels(encoder), encoder.projection.weight.shape[0]
