"""Return-to-go: the official function's test vectors, and what must hold for any trajectory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calql.data import return_to_go

DISCOUNT = 0.99


@pytest.mark.parametrize(
    ("rewards", "terminals", "expected", "options"),
    [
        ([-5, -5, 5], [0, 0, 1], [-5.0495, -0.05, 5], {"sparse_failure_reward": -5.0}),  # antmaze, reached
        ([-5, -5, -5, -5], [0, 0, 0, 0], [-500] * 4, {"sparse_failure_reward": -5.0}),  # antmaze, failed
        (
            [-5, -5, 5, 5, -5, 5],  # adroit: raw [-1, -1, 0, 0, -1, 0], terminal at every success
            [0, 0, 1, 1, 0, 1],
            [-5.0495, -0.05, 5, 5, -0.05, 5],
            {"sparse_failure_reward": -5.0},
        ),
        ([0, 1, 2], [0, 0, 0], [197.01, 199, 200], {"infinite_tail": True}),  # kitchen online
        ([0, 1, 2], [0, 0, 1], [2.9502, 2.98, 2], {"infinite_tail": True}),  # kitchen offline
    ],
)
def test_golden_vectors(rewards: list[float], terminals: list[int], expected: list[float], options: dict) -> None:
    returns = return_to_go(rewards, terminals, DISCOUNT, **options)
    assert returns.dtype == np.float32
    np.testing.assert_allclose(returns, expected, rtol=1e-6, atol=1e-5)


def test_failed_is_an_exact_test() -> None:
    almost = np.full(3, -5.0, np.float32)
    almost[1] = np.nextafter(np.float32(-5.0), np.float32(0.0))
    returns = return_to_go(almost, [0, 0, 0], DISCOUNT, sparse_failure_reward=-5.0)
    assert returns[0] > -20.0


def test_a_wrong_discount_or_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="discount"):
        return_to_go([1.0], [0], 1.5)
    with pytest.raises(ValueError, match="below 1"):
        return_to_go([1.0], [0], 1.0, infinite_tail=True)
    with pytest.raises(ValueError, match="one trajectory"):
        return_to_go([1.0, 2.0], [0], 0.9)


trajectories = st.integers(1, 50).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-10, 10, width=32), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n),
    )
)


@given(trajectories, st.floats(0, 0.999))
def test_recursion(trajectory: tuple[list[float], list[bool]], discount: float) -> None:
    rewards, terminals = trajectory
    returns = return_to_go(rewards, terminals, discount).astype(np.float64)
    following = np.append(returns[1:], 0.0)
    expected = np.asarray(rewards) + discount * (1.0 - np.asarray(terminals)) * following
    np.testing.assert_allclose(returns, expected, rtol=1e-5, atol=1e-3)


@given(trajectories, st.floats(0, 0.99), st.booleans())
def test_bounds(trajectory: tuple[list[float], list[bool]], discount: float, infinite_tail: bool) -> None:
    rewards, terminals = trajectory
    returns = return_to_go(rewards, terminals, discount, infinite_tail=infinite_tail)
    most = max(abs(r) for r in rewards) / (1.0 - discount)
    assert np.abs(returns).max() <= most * (1 + 1e-5) + 1e-5


@given(trajectories)
def test_nothing_after_a_terminal_counts(trajectory: tuple[list[float], list[bool]]) -> None:
    rewards, terminals = trajectory
    returns = return_to_go(rewards, terminals, DISCOUNT)
    for end in np.flatnonzero(terminals):
        assert returns[end] == np.float32(rewards[end])


@given(st.integers(1, 30), st.integers(0, 29))
def test_sparse_rule_needs_every_step_to_fail(steps: int, success: int) -> None:
    failed = np.full(steps, -5.0)
    assert (return_to_go(failed, np.zeros(steps), DISCOUNT, sparse_failure_reward=-5.0) == -500.0).all()
    failed[success % steps] = 5.0
    returns = return_to_go(failed, np.zeros(steps), DISCOUNT, sparse_failure_reward=-5.0)
    assert (returns > -500.0).all()
    np.testing.assert_array_equal(returns, return_to_go(failed, np.zeros(steps), DISCOUNT))
