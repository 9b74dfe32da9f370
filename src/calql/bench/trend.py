"""Whether a quantity grows: first, last and largest of its samples, and a slope with its spread after a warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

WARM_UP = 1 / 3  # of the time from the switch on: programs are compiled, heaps and buffers take their size
STRETCHES = 12  # whose medians the line goes through: a checkpoint's peak in one of them is no growth
CONFIDENCE = 0.95


def summary(seconds: Sequence[float], values: Sequence[float], warm: float) -> dict[str, Any]:
    """Of the samples from second `warm` on. The slope is None where they are too few for one."""
    times, found = np.asarray(seconds, float), np.asarray(values, float)
    kept = times >= warm
    if not kept.any():
        return {"first": None, "last": None, "largest": None, "slope_per_hour": None, "spread_per_hour": None}
    slope, spread = slope_per_hour(times[kept].tolist(), found[kept].tolist())
    return {
        "first": float(found[kept][0]),
        "last": float(found[kept][-1]),
        "largest": float(found[kept].max()),
        "slope_per_hour": slope,
        "spread_per_hour": spread,
    }


def slope_per_hour(times: Sequence[float], values: Sequence[float]) -> tuple[float | None, float | None]:
    """Least squares through the medians of stretches of equal numbers of samples, and half its 95% interval.

    Samples that follow each other are not independent, and peaks are far from normal: both would make the interval of
    a line through all of them too narrow. Where growth comes in steps, the interval is wide, as it should be.
    """
    count = min(STRETCHES, len(values))
    if count < 3 or times[0] == times[-1]:
        return None, None
    hours = [float(np.median(part)) / 3600.0 for part in np.array_split(np.asarray(times, float), count)]
    medians = [float(np.median(part)) for part in np.array_split(np.asarray(values, float), count)]
    if min(medians) == max(medians):  # nothing to explain, which the formula makes 0 / 0
        return 0.0, 0.0
    line = stats.linregress(hours, medians)
    return float(line.slope), float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 2) * line.stderr)


def warm_from(seconds: Sequence[float], online: Sequence[bool]) -> float:
    """When the warm-up is over: a third of the way from the switch (or the start, where there was none) to the end."""
    if not seconds:
        return 0.0
    begun = next((at for at, is_online in zip(seconds, online, strict=True) if is_online), seconds[0])
    return begun + WARM_UP * (seconds[-1] - begun)
