"""What a network sees of an observation: a vector as it is, an image through an encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Spec:
    """Shapes that networks are built for."""

    observation_shape: tuple[int, ...]
    action_dim: int
    image: bool = False


class Identity(eqx.Module):
    """Vectors pass as they are."""

    def __call__(self, observation: jax.Array) -> jax.Array:
        return observation.astype(jnp.float32)


def make_encoder(spec: Spec, key: jax.Array) -> tuple[Callable[[jax.Array], jax.Array], int]:
    """The encoder for observations of this shape, and how many features it gives."""
    if spec.image:
        raise NotImplementedError("image encoders")
    return Identity(), int(spec.observation_shape[0])
