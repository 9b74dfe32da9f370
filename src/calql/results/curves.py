"""Curves over seeds whose evaluations fall at slightly different steps: averaged evaluation by evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calql.results.metrics import Row
from calql.results.runs import Floats, RecordedRun
from calql.results.statistics import band

Column = Callable[[Row], float | None]


@dataclass(frozen=True)
class Curve:
    """One quantity over one phase: each seed at its own steps, and the mean over seeds with its interval."""

    seeds: dict[int, tuple[Floats, Floats]]  # x, y of each seed
    x: Floats
    mean: Floats
    low: Floats  # 95% bootstrap interval of the mean; the mean itself for a single seed
    high: Floats


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


def phase_curve(run: RecordedRun, what: Column, phase: str) -> Curve | None:
    """A quantity over one phase: gradient steps offline; online, environment steps from the switch on."""
    lines = {seed: line for seed in run.seeds if (line := _line(run.of_seed(seed), what, phase)) is not None}
    return align(lines) if lines else None


def align(lines: Mapping[int, tuple[Floats, Floats]]) -> Curve:
    """The mean over seeds of their k-th evaluations, at the mean of their steps, as far as every seed has come.

    Seeds evaluate a few steps apart. Where they are more than that apart (one lacks an evaluation), their values are
    interpolated to common steps instead.
    """
    count = min(x.size for x, _ in lines.values())
    steps, values = (np.array([line[part][:count] for line in lines.values()]) for part in (0, 1))
    grid = steps.mean(axis=0)
    if np.any(steps.max(axis=0)[:-1] >= steps.min(axis=0)[1:]):
        reached = (max(x[0] for x, _ in lines.values()), min(x[-1] for x, _ in lines.values()))
        grid = np.unique(np.clip(grid, *reached)) if reached[0] <= reached[1] else grid[:0]
        values = np.array([np.interp(grid, x, y) for x, y in lines.values()])
    mean = values.mean(axis=0)
    return Curve(dict(lines), grid, mean, *(band(values) or (mean, mean)))


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
