"""Observations of several named parts, taken apart on the device: an encoder for each camera, vectors beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks.encoder import random_shift
from calql.system.layout import WIDTH, Layout

Parts = Mapping[str, jax.Array]
Encoder = Callable[[jax.Array], jax.Array]


class Several(eqx.Module):
    """Features of all cameras, then the vectors; each camera has its own encoder, as they differ in size and view.

    It takes packed rows [..., byte], or the parts by name where somebody has them so.
    """

    cameras: dict[str, Encoder]
    vectors: Encoder  # of all numbers together
    layout: Layout = eqx.field(static=True)

    def __call__(self, observations: jax.Array | Parts) -> jax.Array:
        parts = observations if isinstance(observations, Mapping) else apart(self.layout, observations)
        found = [self.cameras[piece.name](parts[piece.name]) for piece in self.layout.cameras]
        if self.layout.vectors:
            numbers = [_flat(parts[piece.name], len(piece.shape)) for piece in self.layout.vectors]
            found.append(self.vectors(jnp.concatenate(numbers, axis=-1)))
        return jnp.concatenate(found, axis=-1)


def apart(layout: Layout, rows: jax.Array) -> dict[str, jax.Array]:
    """The parts [..., *shape] of packed rows [..., byte], by name."""
    found, start, leading = {}, 0, rows.shape[:-1]
    for piece in layout.pieces:
        stop = start + piece.size * (1 if piece.image else WIDTH)
        taken = rows[..., start:stop]
        if not piece.image:
            taken = jax.lax.bitcast_convert_type(taken.reshape(*leading, piece.size, WIDTH), jnp.float32)
        found[piece.name], start = taken.reshape(*leading, *piece.shape), stop
    return found


def shifted(layout: Layout, rows: jax.Array, key: jax.Array) -> jax.Array:
    """Packed rows [row, byte] with every camera moved by a few pixels, each by its own; vectors as they are."""
    found, start = [], 0
    for number, piece in enumerate(layout.cameras):
        pictures = rows[:, start : start + piece.size].reshape(-1, *piece.shape)
        found.append(random_shift(pictures, jax.random.fold_in(key, number)).reshape(len(rows), -1))
        start += piece.size
    return jnp.concatenate([*found, rows[:, start:]], axis=-1)


def layout_in(networks: Any) -> Layout | None:
    """What the observations of some networks are packed from; None where they are one array."""
    found = jax.tree.leaves(networks, is_leaf=lambda node: isinstance(node, Several))
    return next((node.layout for node in found if isinstance(node, Several)), None)


def _flat(part: jax.Array, axes: int) -> jax.Array:
    return part.reshape(*part.shape[: part.ndim - axes], -1).astype(jnp.float32)
