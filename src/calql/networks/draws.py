"""Every random number of an update comes from here, under a name, so that a recorded one can take its place.

An update that is to be compared with another program's is given that program's draws: see `recorded`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp

Shape = tuple[int, ...]
Source = Callable[[str, Shape], jax.Array]

_sources: list[Source] = []


def normal(name: str, key: jax.Array, shape: Shape) -> jax.Array:
    """Standard normal numbers."""
    return _drawn(name, shape, lambda: jax.random.normal(key, shape))


def uniform(name: str, key: jax.Array, shape: Shape) -> jax.Array:
    """Numbers from -1 to 1."""
    return _drawn(name, shape, lambda: jax.random.uniform(key, shape, minval=-1.0, maxval=1.0))


def gumbel(name: str, key: jax.Array, shape: Shape) -> jax.Array:
    """Standard Gumbel numbers: the largest of logits plus these is a draw of their softmax."""
    return _drawn(name, shape, lambda: jax.random.gumbel(key, shape))


def chosen(name: str, key: jax.Array, total: int, count: int, *, replace: bool) -> jax.Array:
    """`count` indices below `total`; with `replace`, one may come twice."""
    return _drawn(name, (count,), lambda: jax.random.choice(key, total, (count,), replace=replace))


def kept(name: str, key: jax.Array, share: float, shape: Shape) -> jax.Array:
    """True for that share of the entries.

    Drawn in a row: the same entries, and XLA need not work out the place of each in an array of several axes, which
    took it most of the time that masks need to compile.
    """
    row = (math.prod(shape),)
    return _drawn(name, shape, lambda: jax.random.bernoulli(key, share, row).reshape(shape)).astype(bool)


@contextmanager
def recorded(source: Source) -> Iterator[None]:
    """Within it, draws come from `source(name, shape)` and no longer from their keys.

    Under `jax.disable_jit`, so that loops ask for every draw of theirs, and in the order in which they take place.
    """
    _sources.append(source)
    try:
        yield
    finally:
        _sources.remove(source)


def _drawn(name: str, shape: Shape, draw: Callable[[], jax.Array]) -> jax.Array:
    if not _sources:
        return draw()
    values = jnp.asarray(_sources[-1](name, shape))
    assert values.shape == shape, f"the recorded draw {name} is {values.shape}, the update needs {shape}"
    return values
