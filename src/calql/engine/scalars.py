"""The numbers of a single seed in one array, so that a GPU changes them in one kernel.

A program for one seed would change each in a kernel of its own, a quarter of all its kernels; for several seeds XLA
joins them by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Arrays = list[jax.Array]


class Together(NamedTuple):
    """Which leaves lie in one array, and their types."""

    places: tuple[int, ...]
    kinds: tuple[Any, ...]


def together(leaves: Arrays) -> Together:
    """Those that are one number a seed, of four bytes."""
    found = [(place, leaf.dtype) for place, leaf in enumerate(leaves) if leaf.ndim == 1 and leaf.dtype.itemsize == 4]
    return Together(tuple(place for place, _ in found), tuple(kind for _, kind in found))


def joined(leaves: Arrays, scalars: Together) -> Arrays:
    """The leaves that are alone, then the bits of those that are together as one array [seed, number]."""
    alone = [leaf for place, leaf in enumerate(leaves) if place not in scalars.places]
    bits = [jax.lax.bitcast_convert_type(leaves[place], jnp.uint32) for place in scalars.places]
    return alone + ([jnp.stack(bits, axis=-1)] if bits else [])


def apart(packed: Arrays, scalars: Together) -> Arrays:
    """The leaves again, in their order."""
    if not scalars.places:
        return packed
    *alone, bits = packed
    found = {
        place: jax.lax.bitcast_convert_type(bits[:, column], kind)
        for column, (place, kind) in enumerate(zip(*scalars, strict=True))
    }
    rest = iter(alone)
    return [found[place] if place in found else next(rest) for place in range(len(alone) + len(found))]


def written_together(after: Arrays, before: Arrays, due: jax.Array, scalars: Together) -> Arrays:
    """The same leaves: where nothing was due they are those of before.

    Said so, XLA writes all numbers that were together in one kernel. A mere slice of them is one each, half as many as
    an update has.
    """
    chosen = {place: jnp.where(due > 0, after[place], before[place]) for place in scalars.places}
    return [chosen.get(place, leaf) for place, leaf in enumerate(after)]
