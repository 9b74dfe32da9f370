"""Q against return-to-go on logged states, at the switch and at the end; on the diagonal, Q is calibrated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calql.results.panels import Line, Panel, Range
from calql.results.runs import Calibration, Floats, RecordedRun
from calql.system.run_files import CALIBRATED

CLOUD, BINS = 600, 12  # states that are shown by themselves, and bins of equal size over all of them


def calibration_panels(runs: Sequence[RecordedRun], looks: Sequence[tuple[str, int]]) -> list[Panel]:
    """A panel a checkpoint, all on one scale; each run with its name and the place of its colour."""
    checkpoints = [checkpoint for checkpoint in CALIBRATED if any(checkpoint in run.calibration for run in runs)]
    if not checkpoints:
        return []
    x_range = _returns([each for run in runs for each in run.calibration.values()])
    lines = {checkpoint: _at(checkpoint, runs, looks) for checkpoint in checkpoints}
    y_range = _values([line for each in lines.values() for line in each])
    return [
        Panel(
            f"At the {checkpoint}, on {_states(checkpoint, runs)} states", lines[checkpoint],
            "return-to-go of the logged behaviour", "Q of the learner", x_range=x_range, y_range=y_range, diagonal=True,
        )
        for checkpoint in checkpoints
    ]  # fmt: skip


def _at(checkpoint: str, runs: Sequence[RecordedRun], looks: Sequence[tuple[str, int]]) -> list[Line]:
    return [
        line
        for run, (name, place) in zip(runs, looks, strict=True)
        if checkpoint in run.calibration
        for line in _of_run(run.calibration[checkpoint], name, place)
    ]


def _of_run(found: Calibration, name: str, place: int) -> list[Line]:
    """States as a cloud (mean over seeds), and the mean and the middle 80% of all seeds in bins of equal size."""
    returns, q = found.return_to_go, found.q
    shown = np.linspace(0, returns.size - 1, min(returns.size, CLOUD)).astype(int)
    edges = np.unique(np.quantile(returns, np.linspace(0, 1, BINS + 1)))
    which = np.clip(np.searchsorted(edges, returns, side="right") - 1, 0, max(edges.size - 2, 0))
    bins = [which == place for place in np.unique(which)]
    low, high = np.array([np.quantile(q[:, inside], (0.1, 0.9)) for inside in bins]).T
    centres, means = (np.array([float(values[..., inside].mean()) for inside in bins]) for values in (returns, q))
    cloud = Line(name, place, returns[shown], q.mean(axis=0)[shown], kind="cloud")
    return [cloud, Line(name, place, centres, means, low, high, "joined")]


def _states(checkpoint: str, runs: Sequence[RecordedRun]) -> str:
    kinds = {run.calibration[checkpoint].held_out for run in runs if checkpoint in run.calibration}
    return " and ".join(name for name, held_out in (("held-out", True), ("training", False)) if held_out in kinds)


def _returns(found: Sequence[Calibration]) -> Range:
    return _wider(np.concatenate([each.return_to_go for each in found]))


def _values(lines: Sequence[Line]) -> Range:
    parts = [part for line in lines for part in (line.y, line.low, line.high) if part is not None]
    return _wider(np.concatenate(parts))


def _wider(values: Floats) -> Range:
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) or max(abs(high) * 0.1, 0.5)
    return low - margin, high + margin
