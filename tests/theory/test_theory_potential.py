"""The elliptical-potential lemma (Lemma I.6) on random vectors, and that its condition matters."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_mdps import quickly, seeds


def potential(vectors: np.ndarray, ridge: float) -> float:
    """sum_k ||x_k|| in the inverse of ridge I + sum of earlier x x'."""
    covariance = ridge * np.eye(vectors.shape[1])
    total = 0.0
    for x in vectors:
        total += float(np.sqrt(x @ np.linalg.solve(covariance, x)))
        covariance += np.outer(x, x)
    return total


def bound(count: int, dimension: int, size: float, ridge: float) -> float:
    return float(np.sqrt(2 * dimension * count * np.log1p(count * size**2 / (ridge * dimension))))


@quickly
@given(seeds, st.integers(1, 6), st.integers(1, 60), st.floats(0.1, 10.0), st.floats(1.0, 5.0))
def test_potential_stays_under_the_lemma(seed: int, dimension: int, count: int, size: float, spare: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, dimension)) * rng.exponential(size=dimension)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = size * vectors / np.maximum(norms, 1e-12) * rng.random((count, 1)) ** 0.2
    ridge = spare * size**2
    assert potential(vectors, ridge) <= bound(count, dimension, size, ridge) * (1 + 1e-9)


def test_one_vector_by_hand() -> None:
    assert np.isclose(potential(np.array([[1.0]]), 1.0), 1.0)
    assert np.isclose(bound(1, 1, 1.0, 1.0), np.sqrt(2 * np.log(2)))


def test_the_lemma_needs_a_large_ridge() -> None:
    """With the ridge below the squared size one vector already breaks it, so the test above can fail."""
    assert potential(np.array([[1.0]]), 0.01) > bound(1, 1, 1.0, 0.01)
