"""Actions in the units of the policy: [-1, 1], whatever the environment's bounds are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calql.data.dataset import Dataset
from calql.system.errors import UserError

FAR = 2.0  # in units of [-1, 1]: half a range beyond the bound
NARROW = 0.05  # share of the range, below which the units look wrong
ROUNDING = 1e-6
LIMIT = 0.99999  # the authors' code; inverse tanh 6.1


def normalise_actions(
    dataset: Dataset, low: ArrayLike, high: ArrayLike, *, limit: float = LIMIT
) -> tuple[Dataset, list[str]]:
    """Map the bounds to [-1, 1] and clip to +-limit, where a tanh policy has finite log-probabilities.

    Actions a little outside the bounds, as people record them, are clipped and counted in a warning.
    Where most are far outside, data and environment use different units, and that is refused.
    """
    mapped = to_unit_range(dataset, low, high)
    _refuse_far(mapped, low, high, dataset.source)
    warnings = [*_outside(mapped, limit, dataset), *_narrow(mapped)]
    return replace(dataset, actions=np.clip(mapped, -limit, limit).astype(np.float32)), warnings


def to_unit_range(dataset: Dataset, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
    """The affine map alone: low to -1, high to 1; exact where the bounds are -1 and 1."""
    shape = dataset.actions.shape[1:]
    bottom, top = (np.broadcast_to(np.asarray(b, np.float64), shape) for b in _bounds(low, high, dataset))
    if not (np.isfinite(bottom).all() and np.isfinite(top).all() and (bottom < top).all()):
        raise UserError(
            f"action bounds {_short(bottom)} to {_short(top)} are not finite ranges",
            where=dataset.source,
            mend="give the environment a Box action space with low < high, both finite",
        )
    return (dataset.actions.astype(np.float64) - (top + bottom) / 2.0) / ((top - bottom) / 2.0)


def _bounds(low: ArrayLike, high: ArrayLike, dataset: Dataset) -> tuple[ArrayLike, ArrayLike]:
    shape = dataset.actions.shape[1:]
    for bound in (low, high):
        if np.shape(bound) not in ((), shape):
            raise UserError(
                f"actions have {shape[0]} numbers and the environment's bounds {np.shape(bound)}",
                where=dataset.source,
                mend="data and environment must have the same action space",
            )
    return low, high


def _refuse_far(mapped: NDArray[np.float64], low: ArrayLike, high: ArrayLike, source: str) -> None:
    far = np.any(np.abs(mapped) > FAR, axis=1)
    if far.mean() > 0.5:
        raise UserError(
            f"{far.sum()} of {len(far)} actions lie far outside the bounds {_short(low)} to {_short(high)}",
            where=source,
            mend="data and environment seem to use different units: rescale the recorded actions",
        )


def _outside(mapped: NDArray[np.float64], limit: float, dataset: Dataset) -> list[str]:
    outside = np.any(np.abs(mapped) > 1.0 + ROUNDING, axis=1)
    if not outside.any():
        return []
    episodes = len(np.unique(np.searchsorted(dataset.episode_ends, np.flatnonzero(outside))))
    return [
        f"{outside.sum()} of {len(outside)} actions lie outside the bounds, by a factor of up to "
        f"{np.abs(mapped).max():.2f}, in {episodes} of {len(dataset.episode_ends)} episodes; clipped to +-{limit}"
    ]


def _narrow(mapped: NDArray[np.float64]) -> list[str]:
    used = float(np.abs(mapped).max())
    if used >= NARROW:
        return []
    return [
        f"all actions lie within {100 * used:.1f} % of the middle of the bounds: if they were recorded in "
        "[-1, 1] already, give those bounds"
    ]


def _short(bound: ArrayLike) -> str:
    values = np.unique(np.asarray(bound, np.float64))
    return f"{values[0]:g}" if len(values) == 1 else f"[{values[0]:g} .. {values[-1]:g}]"
