"""Time per update against what it grows with: seeds, batch, critics, update ratio, logged transitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from calql.bench.updates import Shapes, measure_updates
from calql.errors import unknown

AXES: Mapping[str, tuple[int, ...]] = {
    "seeds": (1, 2, 4, 8, 16, 32),
    "batch_size": (64, 256, 1024),
    "critics": (2, 5, 10),
    "critic_steps": (1, 5, 20),
    "transitions": (10_000, 100_000, 1_000_000, 10_000_000),
}
MEANING = {
    "seeds": "seeds at once",
    "batch_size": "rows of a batch",
    "critics": "critics in the ensemble",
    "critic_steps": "critic updates to one of the policy (update ratio)",
    "transitions": "logged transitions on the device",
}


def measure_growth(
    name: str,
    options: Any,
    shapes: Shapes,
    axes: Sequence[str] = tuple(AXES),
    *,
    most: Mapping[str, int] | None = None,
    seconds: float = 2.0,
) -> list[dict[str, Any]]:
    """One axis at a time, the others as given; an axis that the method has no option for is left out."""
    for axis in axes:
        if axis not in AXES:
            raise unknown("axis", axis, AXES, where="calql bench --growth")
    rows = []
    for axis in axes:
        for value in AXES[axis]:
            if value > (most or {}).get(axis, value):
                continue
            changed = _with(options, shapes, axis, value)
            if changed is not None:
                rows.append({"axis": axis, "value": value, **measure_updates(name, *changed, seconds=seconds)})
    return rows


def _with(options: Any, shapes: Shapes, axis: str, value: int) -> tuple[Any, Shapes] | None:
    if axis in {field.name for field in dataclasses.fields(shapes)}:
        return options, dataclasses.replace(shapes, **{axis: value})
    if axis in {field.name for field in dataclasses.fields(options)}:
        return dataclasses.replace(options, **{axis: value}), shapes
    return None


def draw_growth(rows: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """One panel an axis: milliseconds per update of all seeds, both scales logarithmic."""
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    figure = Figure(figsize=(3.0 * len(axes), 3.0))
    panels = figure.subplots(1, len(axes), sharey=True, squeeze=False)
    for panel, axis in zip(panels[0], axes, strict=True):
        points = [(row["value"], 1e3 / row["updates_per_s"]) for row in rows if row["axis"] == axis]
        panel.loglog(*zip(*points, strict=True), marker="o", color="tab:blue")
        panel.set_xlabel(MEANING[axis], fontsize=8)
        panel.grid(which="both", alpha=0.2)
    panels[0][0].set_ylabel("ms per gradient step, all seeds")
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
