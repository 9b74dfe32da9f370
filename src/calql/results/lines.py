"""Curves of a run as lines on a timeline: both phases joined at the switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from calql.results.curves import Column, Curve, phase_curve
from calql.results.panels import Line
from calql.results.runs import Floats, RecordedRun
from calql.results.timeline import Timeline, offline_end

Phases = Sequence[tuple[str, Curve]]
NOTHING = np.empty(0)


def like(label: str, place: int, kind: str = "line") -> Line:
    """How a line is called and drawn, before it has points."""
    return Line(label, place, NOTHING, NOTHING, kind=kind)  # type: ignore[arg-type]


def mean_line(run: RecordedRun, what: Column, timeline: Timeline, look: Line) -> list[Line]:
    """The mean over seeds, with its interval where it is a plain curve; none where the run has no such numbers."""
    curves = _phases(run, what)
    if not curves:
        return []
    parts = ([getattr(curve, part) for _, curve in curves] for part in ("mean", "low", "high"))
    y, low, high = map(np.concatenate, parts)
    several = look.kind == "line" and any(len(curve.seeds) > 1 for _, curve in curves)
    look = replace(look, low=low, high=high) if several else look
    steps = [(phase, curve.x) for phase, curve in curves]
    return [replace(look, x=_placed(run, timeline, steps), y=y, offline=offline_end(run))]


def seed_lines(run: RecordedRun, what: Column, timeline: Timeline, look: Callable[[int, int], Line]) -> list[Line]:
    """A line a seed; `look` is told the place of the seed and its name."""
    curves, lines = _phases(run, what), []
    for place, seed in enumerate(run.seeds):
        mine = [(phase, *curve.seeds[seed]) for phase, curve in curves if seed in curve.seeds]
        if mine:
            x = _placed(run, timeline, [(phase, steps) for phase, steps, _ in mine])
            y = np.concatenate([values for _, _, values in mine])
            lines.append(replace(look(place, seed), x=x, y=y, seed=seed, offline=offline_end(run)))
    return lines


def _phases(run: RecordedRun, what: Column) -> Phases:
    found = [(phase, phase_curve(run, what, phase)) for phase in ("offline", "online")]
    return [(phase, curve) for phase, curve in found if curve is not None and curve.x.size]


def _placed(run: RecordedRun, timeline: Timeline, steps: Sequence[tuple[str, Floats]]) -> Floats:
    return np.concatenate([timeline.place(run, phase, each) for phase, each in steps])
