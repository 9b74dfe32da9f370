"""Random numbers of updates: the same, in whatever form they are drawn."""

from __future__ import annotations

import jax
import numpy as np

from calql.networks import draws


def test_masks_are_drawn_in_a_row_and_are_the_same() -> None:
    key, shape = jax.random.key(3), (4, 5, 7)
    drawn = draws.kept("keep", key, 0.6, shape)
    np.testing.assert_array_equal(drawn, jax.random.bernoulli(key, 0.6, shape))
    assert drawn.shape == shape
