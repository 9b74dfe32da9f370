"""A figure without a drawing library: sheets of panels of lines. `figures` and `charts` draw the same sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calql.results.statistics import Floats
from calql.results.timeline import Timeline

# a curve; one to hold it against; one seed; one critic of several; marks; marks on a line; a cloud of marks
Kind = Literal["line", "dashed", "seed", "part", "points", "joined", "cloud"]
Range = tuple[float, float]
INK_PLACE = -1  # not a method, a run or a seed: drawn in the colour of text
BAND = "Thick: the mean over seeds; band: its 95% bootstrap interval."


@dataclass(frozen=True)
class Line:
    """One curve or cloud, with a band or bars around it."""

    label: str
    place: int  # among the colours
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    kind: Kind = "line"
    names: Sequence[str] = ()  # what each point is, where the mouse rests
    seed: int | None = None  # whose line it is, where it is one seed's
    offline: float = 0.0  # on a timeline: gradient steps of this run at the switch

    @property
    def name(self) -> str:
        """What it is called where the mouse rests."""
        own = "" if self.seed is None else f"seed {self.seed}"
        return self.label if not own or own == self.label else f"{self.label}, {own}"

    @property
    def groups(self) -> list[str]:
        """The names in the legend that it comes and goes with."""
        return list(dict.fromkeys([self.label, *([] if self.seed is None else [f"seed {self.seed}"])]))


@dataclass(frozen=True)
class Panel:
    """Lines on one pair of axes."""

    title: str
    lines: Sequence[Line]
    x_label: str
    y_label: str
    timeline: Timeline | None = None  # both phases on one axis; x is then a place on it
    x_range: Range | None = None
    y_range: Range | None = None
    diagonal: bool = False
    whole: bool = False  # x counts things, of which there are no halves

    @property
    def x_limits(self) -> Range | None:
        return self.x_range if self.timeline is None else self.timeline.limits


@dataclass(frozen=True)
class Sheet:
    """A figure: panels that share a legend."""

    name: str  # of its files
    title: str
    caption: str
    panels: Sequence[Panel]
    columns: int = 3


def shown_in_legend(panels: Sequence[Panel]) -> list[Line]:
    """One line for each label, methods in their order, then what they are held against; the strongest stands for it."""
    lines: dict[str, Line] = {}
    for line in (line for panel in panels for line in panel.lines):
        if line.label not in lines or (lines[line.label].kind in FAINT and line.kind not in FAINT):
            lines[line.label] = line
    return sorted(lines.values(), key=lambda line: (line.place == INK_PLACE, line.place))


FAINT: tuple[Kind, ...] = ("seed", "part", "cloud")


def unit_range(lines: Sequence[Line]) -> Range:
    """0 to 1, and as far beyond as the values go."""
    values = np.concatenate([line.y for line in lines] or [np.empty(0)])
    low, high = min(values.min(initial=0.0), 0.0), max(values.max(initial=1.0), 1.0)
    return float(low - 0.04 * (high - low)), float(high + 0.04 * (high - low))
