"""Copies of modules are equal to what they were made of, and die with their last use."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from calql.networks.copies import pickled, with_fields


class Wrapped(eqx.Module):
    inner: Any
    scale: float = eqx.field(static=True)


def module() -> Wrapped:
    return jax.tree.map(np.array, Wrapped((eqx.nn.Linear(2, 3, key=jax.random.key(0)), None), 2.0))


COPIES: dict[str, Callable[[Wrapped], Wrapped]] = {
    "by hand": with_fields,
    "by pickle": lambda module: pickle.loads(pickled(module)),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_equal_down_to_its_structure(way: str) -> None:
    made, copied = module(), COPIES[way](module())
    assert jax.tree.structure(copied) == jax.tree.structure(made)
    for left, right in zip(jax.tree.leaves(copied), jax.tree.leaves(made), strict=True):
        np.testing.assert_array_equal(left, right)
    with pytest.raises(AttributeError):
        copied.scale = 3.0  # type: ignore[misc]


def test_fields_of_a_copy_are_its_own() -> None:
    made = module()
    assert with_fields(made, scale=3.0).scale == 3.0
    assert made.scale == 2.0


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_dies_with_its_last_use(way: str) -> None:
    copied = COPIES[way](module())
    outer, inner, weight = weakref.ref(copied), weakref.ref(copied.inner[0]), weakref.ref(copied.inner[0].weight)
    del copied
    assert (outer(), inner(), weight()) == (None, None, None)


def test_why_there_is_a_way_of_our_own() -> None:
    """Equinox keeps what `copy.copy` makes. When this fails, `calql.networks.copies` is no longer needed."""
    copied = weakref.ref(copy.copy(module()))
    assert copied() is not None
