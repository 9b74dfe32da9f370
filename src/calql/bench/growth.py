"""Time per update against what it grows with: seeds, batch, critics and their width, update ratio, data, devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from matplotlib.figure import Figure

from calql.bench.updates import Shapes, measure_updates
from calql.results import style
from calql.system.errors import unknown

AXES: Mapping[str, tuple[int, ...]] = {
    "seeds": (1, 2, 4, 8, 16, 32),
    "batch_size": (64, 256, 1024),
    "critic_widths": (128, 256, 512),
    "critics": (2, 5, 10),
    "critic_steps": (1, 5, 20),
    "transitions": (10_000, 100_000, 1_000_000, 10_000_000),
    "devices": (1, 2, 4, 8),
}
MEANING = {
    "seeds": "seeds at once",
    "batch_size": "rows of a batch",
    "critic_widths": "units of each layer of a critic",
    "critics": "critics in the ensemble",
    "critic_steps": "critic updates per policy update",
    "transitions": "logged transitions on the device",
    "devices": "devices, as many seeds on each",
}
TICKS = tuple(step * 10.0**power for power in range(-3, 5) for step in (1, 2, 5))  # ms


def measure_growth(
    name: str,
    options: Any,
    shapes: Shapes,
    axes: Sequence[str] = tuple(AXES),
    *,
    most: Mapping[str, int] | None = None,
    seconds: float = 2.0,
    tell: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """One axis at a time, the others as given; an axis that the method has no option for is left out.

    Devices each have the seeds that are given; more of them than are there are left out, and so is the axis where there
    is one. The point that axes share is measured once.
    """
    for axis in axes:
        if axis not in AXES:
            raise unknown("axis", axis, AXES, where="calql bench --growth")
    there = jax.local_device_count()
    most = {"devices": there if there > 1 else 0, **(most or {})}
    rows = []
    measured: dict[tuple[Any, Shapes], dict[str, Any]] = {}
    for axis in axes:
        for value in AXES[axis]:
            if value > most.get(axis, value):
                continue
            changed = _with(options, shapes, axis, value)
            if changed is None:
                continue
            if changed not in measured:
                measured[changed] = measure_updates(name, *changed, seconds=seconds)
            row = {"axis": axis, "value": value, **measured[changed]}
            tell(f"{axis} {value}: {row['updates_per_s']:,.0f} updates/s, compiled in {row['compile_s']:.0f} s")
            rows.append(row)
    return rows


def _with(options: Any, shapes: Shapes, axis: str, value: int) -> tuple[Any, Shapes] | None:
    if axis == "devices":
        return options, dataclasses.replace(shapes, devices=value, seeds=shapes.seeds * value)
    if axis in {field.name for field in dataclasses.fields(shapes)}:
        return options, dataclasses.replace(shapes, **{axis: value})
    if axis in {field.name for field in dataclasses.fields(options)}:
        now = getattr(options, axis)
        return dataclasses.replace(options, **{axis: (value,) * len(now) if isinstance(now, tuple) else value}), shapes
    return None


def draw_growth(rows: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """One panel an axis: milliseconds per gradient step of all seeds, beside growth in proportion."""
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    with style.styled():
        figure = Figure(figsize=(2.6 * len(axes), 2.9), constrained_layout=True)
        panels = figure.subplots(1, len(axes), sharey=True, squeeze=False)[0]
        for panel, axis in zip(panels, axes, strict=True):
            values, times = zip(
                *((row["value"], 1e3 / row["updates_per_s"]) for row in rows if row["axis"] == axis), strict=True
            )
            panel.loglog(values, times, marker="o", markersize=4, color=style.colour(0))
            panel.loglog(values, [times[0] * v / values[0] for v in values], ":", color=style.FAINT, linewidth=1)
            panel.set_xticks(values, [_short(value) for value in values])
            panel.set_xlabel(MEANING[axis], fontsize=8)
        low = min(1e3 / row["updates_per_s"] for row in rows)
        high = max(1e3 / row["updates_per_s"] for row in rows)
        ticks = [tick for tick in TICKS if low / 2 <= tick <= high * 2]
        panels[0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        panels[0].set_ylim(low / 1.3, high * 1.3)
        for panel in panels:
            panel.minorticks_off()
        panels[0].set_ylabel("ms per gradient step, all seeds")
        figure.suptitle(title, fontsize=9)
        figure.savefig(path, dpi=120)


def _short(value: int) -> str:
    """10000 as 10K."""
    for unit, name in ((1_000_000, "M"), (1_000, "K")):
        if value >= unit and value % unit == 0:
            return f"{value // unit}{name}"
    return str(value)
