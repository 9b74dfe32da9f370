"""Spaces in words: shape, type and bounds of a box, how many choices a discrete one has, as JSON holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

ActionSpace = spaces.Box | spaces.Discrete


def in_words(box: ActionSpace) -> dict[str, Any]:
    """One number for a bound that all have, null where there is none: the bounds of an image take no page."""
    if isinstance(box, spaces.Discrete):
        return {"choices": int(box.n), "start": int(box.start)}
    return {
        "shape": list(box.shape),
        "dtype": str(box.dtype),
        "low": _bound(box.low),
        "high": _bound(box.high),
    }


def from_words(found: Mapping[str, Any]) -> spaces.Box:
    """The box again; what is wrong in `found` is a KeyError, TypeError or ValueError."""
    shape, dtype = tuple(int(length) for length in found["shape"]), np.dtype(found["dtype"])
    low, high = (_array(found[side], shape, dtype, none) for side, none in (("low", -np.inf), ("high", np.inf)))
    return spaces.Box(low, high, dtype=dtype.type)


def action_space(found: Mapping[str, Any]) -> ActionSpace:
    """The box or the discrete space of actions again."""
    if "choices" in found:
        return spaces.Discrete(int(found["choices"]), start=int(found["start"]))
    return from_words(found)


def _bound(values: NDArray[Any]) -> Any:
    numbers = [value if np.isfinite(value) else None for value in values.reshape(-1).tolist()]
    if len(set(numbers)) == 1:
        return numbers[0]
    return np.array(numbers, object).reshape(values.shape).tolist()


def _array(bound: Any, shape: tuple[int, ...], dtype: np.dtype[Any], none: float) -> NDArray[Any]:
    numbers = np.array(bound, object)
    filled = np.array([none if value is None else value for value in numbers.reshape(-1)])
    return np.broadcast_to(filled.reshape(numbers.shape), shape).astype(dtype)
