"""The x axis of every curve: gradient steps up to the switch, environment steps after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from calql.results.runs import Floats, Run

OFFLINE_SHARE = 0.4  # of the width, where there are both phases


@dataclass(frozen=True)
class Timeline:
    """Both phases on one axis with the switch at 0, each in its own unit and with a fixed share of the width."""

    offline: float  # most gradient steps before the switch
    online: float  # most environment steps after it
    same_start: bool  # every run with an offline phase has the same: ticks count from its start

    @staticmethod
    def of(runs: Sequence[Run]) -> Timeline:
        offline = [_offline_end(run) for run in runs]
        return Timeline(
            max(offline, default=0.0),
            max((float(run.online_steps) for run in runs), default=0.0),
            len({end for end in offline if end > 0}) <= 1,
        )

    @property
    def width(self) -> float:
        """Of the offline part; the online part, where there is one, is 1 wide."""
        return OFFLINE_SHARE / (1 - OFFLINE_SHARE) if self.online and self.offline else float(self.offline > 0)

    def place(self, run: Run, phase: str, steps: Floats) -> Floats:
        """Steps of a phase as positions on the axis."""
        if phase == "online":
            return steps / max(self.online, 1.0)
        return (steps - _offline_end(run)) / max(self.offline, 1.0) * self.width

    def draw(self, axes: Axes, *, label: bool = True) -> None:
        """Limits, ticks in the unit of each phase, and the switch."""
        right = 1.0 if self.online else 0.0
        axes.set_xlim(-self.width - 0.01, max(right, 0.0) + 0.02)
        places, texts = self.ticks(narrow=_panel_count(axes) > 1)
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda _, index: texts[index] if index is not None else ""))
        if self.offline and self.online:
            axes.axvline(0.0, color="#5b6472", linewidth=1.1, linestyle=(0, (4, 3)), zorder=1.5)
            axes.axvspan(-self.width - 0.01, 0.0, color="#f4f6f9", zorder=0)
        if label:
            self._label(axes)

    def ticks(self, *, narrow: bool) -> tuple[list[float], list[str]]:
        """Round steps of both phases as positions and texts; fewer where there is little room."""
        both = bool(self.offline and self.online)
        places: list[float] = []
        texts: list[str] = []
        if self.offline:
            for tick in _round_steps(self.offline, (2 if narrow else 3) if both else 5):
                place = tick / self.offline - 1.0 if self.same_start else -tick / self.offline
                if both and place > -0.15:
                    continue  # too near the first label of the online part
                places.append(place * self.width)
                texts.append(short(tick) if self.same_start else f"−{short(tick)}")
        if self.online:
            for tick in _round_steps(self.online, 3 if narrow else 5):
                places.append(tick / self.online)
                texts.append(short(tick))
        return places, texts

    def _label(self, axes: Axes) -> None:
        low, high = axes.get_xlim()
        words = (
            ("updates", "env steps")
            if _panel_count(axes) > 2
            else ("gradient steps offline", "environment steps online")
        )
        for start, end, text in ((low, 0.0, words[0]), (0.0, high, words[1])):
            if (start < 0 and self.offline) or (start == 0 and self.online):
                middle = ((start + end) / 2 - low) / (high - low)
                axes.annotate(
                    text, (middle, 0), xytext=(0, -21), xycoords="axes fraction", textcoords="offset points",
                    ha="center", va="top", color="#5b6472", fontsize=9,
                )  # fmt: skip


def _panel_count(axes: Axes) -> int:
    """Panels side by side in the figure: the more, the less room for text."""
    place = axes.get_subplotspec()
    return 1 if place is None else int(place.get_gridspec().ncols)


def _offline_end(run: Run) -> float:
    """Gradient steps at the switch: as it happened, else as planned."""
    happened = [float(row["update"]) for row in run.rows if row.get("switch")]
    last = max((float(row["update"]) for row in run.rows if row["phase"] != "online"), default=0.0)
    return max(happened) if happened else max(float(run.offline_updates), last)


def _round_steps(most: float, count: int) -> list[float]:
    ticks = MaxNLocator(nbins=count, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, most)
    return [float(tick) for tick in ticks if 0.0 <= tick <= most * (1 + 1e-9)]


def short(steps: float) -> str:
    """12k, 1.5M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if steps >= size:
            return f"{np.round(steps / size, 2):g}{unit}"
    return f"{steps:g}"
