"""Actions into [-1, 1]: exact where they are there already, clipped and counted a little outside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import recording

from calql.data import Dataset, from_d4rl_arrays, normalise_actions
from calql.system.errors import UserError


def with_actions(actions: np.ndarray) -> Dataset:
    rows = len(actions)
    arrays = recording([0] * rows, [0] * (rows - 1) + [1], stored=True)
    return replace(from_d4rl_arrays(arrays, "made"), actions=np.asarray(actions, np.float32))


def test_unit_bounds_change_nothing() -> None:
    actions = np.random.default_rng(0).uniform(-0.99, 0.99, (100, 3)).astype(np.float32)
    mapped, warnings = normalise_actions(with_actions(actions), -1.0, 1.0)
    np.testing.assert_array_equal(mapped.actions, actions)
    assert warnings == []


def test_affine_map_per_dimension() -> None:
    dataset = with_actions(np.array([[0.0, -2.0], [5.0, 0.0], [10.0, 2.0]]))
    mapped, warnings = normalise_actions(dataset, [0, -2], [10, 2])
    np.testing.assert_allclose(mapped.actions, [[-0.99999] * 2, [0, 0], [0.99999] * 2], atol=1e-7)
    assert mapped.actions.dtype == np.float32
    assert warnings == []


def test_a_little_outside_is_clipped_and_counted() -> None:
    dataset = with_actions(np.array([[0.1, 0.2], [1.37, -1.2], [0.3, -1.01], [0.0, 0.0]]))
    mapped, warnings = normalise_actions(dataset, -1, 1)
    assert np.abs(mapped.actions).max() == np.float32(0.99999)
    (warning,) = warnings
    assert warning == (
        "2 of 4 actions lie outside the bounds, by a factor of up to 1.37, in 1 of 1 episodes; clipped to +-0.99999"
    )


def test_other_units_are_refused() -> None:
    degrees = np.random.default_rng(0).uniform(-90, 90, (50, 2))
    with pytest.raises(UserError, match=r"of 50 actions lie far outside the bounds -1 to 1; .*different units"):
        normalise_actions(with_actions(degrees), -1, 1)


def test_actions_that_hardly_use_the_range_are_reported() -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    _, warnings = normalise_actions(with_actions(actions), -100, 100)
    assert len(warnings) == 1
    assert "within 1.0 % of the middle" in warnings[0]


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (-np.inf, 1.0, "bounds -inf to 1 are not finite ranges"),
        ([-1.0, 1.0], [1.0, 1.0], "are not finite ranges"),
        ([-1.0] * 3, [1.0] * 3, r"actions have 2 numbers and the environment's bounds \(3,\)"),
    ],
)
def test_impossible_bounds(low: object, high: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        normalise_actions(with_actions(np.zeros((3, 2))), low, high)  # type: ignore[arg-type]


@given(st.floats(-5, 5), st.floats(0.1, 10), st.integers(0, 2**31))
def test_order_and_range_hold(low: float, width: float, seed: int) -> None:
    actions = np.sort(np.random.default_rng(seed).uniform(low, low + width, (20, 1)), axis=0)
    mapped, warnings = normalise_actions(with_actions(actions), low, low + width)
    assert (np.diff(mapped.actions[:, 0]) >= 0).all()
    assert np.abs(mapped.actions).max() <= np.float32(0.99999)
    assert not any("outside" in warning for warning in warnings)
    expected = 2 * (actions - low) / width - 1
    np.testing.assert_allclose(mapped.actions, np.clip(expected, -0.99999, 0.99999), atol=1e-4)
