"""Curves over seeds whose evaluations fall at slightly different steps: put on one grid, then averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calql.results.metrics import Row
from calql.results.runs import Floats, Run

Column = Callable[[Row], float | None]


@dataclass(frozen=True)
class Curve:
    """One quantity over one phase: each seed at its own steps, and the mean and spread on a common grid."""

    seeds: list[tuple[Floats, Floats]]  # x, y of each seed
    x: Floats
    mean: Floats
    std: Floats  # zero for a single seed


def column(name: str) -> Column:
    """A metric by name; None where a row lacks it."""

    def value(row: Row) -> float | None:
        found = row.get(name)
        return None if found is None else float(found)

    return value


def mean_of(names: Sequence[str]) -> Column:
    """The mean of several metrics of a row, over those that are there."""

    def value(row: Row) -> float | None:
        found = [float(row[name]) for name in names if row.get(name) is not None]
        return float(np.mean(found)) if found else None

    return value


def phase_curve(run: Run, what: Column, phase: str) -> Curve | None:
    """A quantity over one phase: gradient steps offline; online, environment steps from the switch on."""
    lines = [line for seed in run.seeds if (line := _line(run.of_seed(seed), what, phase)) is not None]
    return align(lines) if lines else None


def align(lines: Sequence[tuple[Floats, Floats]]) -> Curve:
    """Mean over seeds on a grid of the mean steps of the k-th evaluations, within what every seed has reached."""
    count = min(x.size for x, _ in lines)
    grid = np.mean([x[:count] for x, _ in lines], axis=0)
    reached = (max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines))
    grid = np.unique(np.clip(grid, *reached)) if reached[0] <= reached[1] else grid[:0]
    values = np.array([np.interp(grid, x, y) for x, y in lines])
    spread = values.std(axis=0, ddof=1) if len(lines) > 1 else np.zeros_like(grid)
    return Curve(list(lines), grid, values.mean(axis=0), spread)


def _line(rows: Sequence[Row], what: Column, phase: str) -> tuple[Floats, Floats] | None:
    """x and y of one seed; the online line starts from the evaluation at the switch."""
    online = phase == "online"
    if online and not any(row["phase"] == "online" for row in rows):
        return None
    chosen = [row for row in rows if row["phase"] == phase or (online and row.get("switch"))]
    steps = "env_steps" if online else "update"
    points = [(float(row[steps]), y) for row in chosen if (y := what(row)) is not None]
    if not points:
        return None
    line = np.array(points, np.float64)
    return line[:, 0], line[:, 1]
