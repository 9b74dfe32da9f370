"""The x axis of every curve: gradient steps up to the switch, environment steps after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calql.results.runs import Floats, RecordedRun

OFFLINE_SHARE = 0.4  # of the width, where there are both phases
ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)  # steps between ticks, times a power of ten
NEAR = 0.2  # of the offline part: a tick closer to the switch than that would touch the first online label


@dataclass(frozen=True)
class Timeline:
    """Both phases on one axis with the switch at 0, each in its own unit and with a fixed share of the width."""

    offline: float  # most gradient steps before the switch
    online: float  # most environment steps after it: planned, or what was done if that is more
    same_start: bool  # every run with an offline phase has the same: ticks count from its start

    @staticmethod
    def of(runs: Sequence[RecordedRun]) -> Timeline:
        offline = [offline_end(run) for run in runs]
        return Timeline(
            max(offline, default=0.0),
            max((_online_end(run) for run in runs), default=0.0),
            len({end for end in offline if end > 0}) <= 1,
        )

    @property
    def both(self) -> bool:
        """Whether there is a switch to be seen."""
        return bool(self.offline and self.online)

    @property
    def width(self) -> float:
        """Of the offline part; the online part, where there is one, is 1 wide."""
        return OFFLINE_SHARE / (1 - OFFLINE_SHARE) if self.both else float(self.offline > 0)

    @property
    def limits(self) -> tuple[float, float]:
        return -self.width - 0.01, (1.0 if self.online else 0.0) + 0.02

    @property
    def label(self) -> str:
        names = [("gradient steps offline", self.offline), ("environment steps online", self.online)]
        return " | ".join(name for name, there in names if there)

    def place(self, run: RecordedRun, phase: str, steps: Floats) -> Floats:
        """Steps of a phase as positions on the axis."""
        if phase == "online":
            return steps / max(self.online, 1.0)
        return (steps - offline_end(run)) / max(self.offline, 1.0) * self.width

    def ticks(self, *, narrow: bool) -> tuple[list[float], list[str]]:
        """Round steps of both phases as positions and texts; fewer where there is little room."""
        places: list[float] = []
        texts: list[str] = []
        if self.offline:
            for tick in round_steps(self.offline, (2 if narrow else 3) if self.both else 5):
                place = tick / self.offline - 1.0 if self.same_start else -tick / self.offline
                if self.both and place > -NEAR:
                    continue
                places.append(place * self.width)
                texts.append(short(tick) if self.same_start else f"−{short(tick)}")
        if self.online:
            for tick in round_steps(self.online, 3 if narrow else 5):
                places.append(tick / self.online)
                texts.append(short(tick))
        return places, texts


def offline_end(run: RecordedRun) -> float:
    """Gradient steps at the switch: as it happened, else as planned."""
    happened = [float(row["update"]) for row in run.rows if row.get("switch")]
    last = max((float(row["update"]) for row in run.rows if row["phase"] != "online"), default=0.0)
    return max(happened) if happened else max(float(run.offline_updates), last)


def _online_end(run: RecordedRun) -> float:
    """The last evaluation waits for the end of a trajectory, and so falls past the plan."""
    done = max((float(row["env_steps"]) for row in run.rows if row["phase"] == "online"), default=0.0)
    return max(float(run.online_steps), done)


def round_steps(most: float, count: int) -> list[float]:
    """Round numbers from 0 on, at most `count` steps of them."""
    rough = most / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((each * power for each in ROUND if each * power >= rough * (1 - 1e-9)), 10 * power)
    return [step * place for place in range(int(most / step * (1 + 1e-9)) + 1)]


def short(steps: float) -> str:
    """12k, 1.5M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if steps >= size:
            return f"{np.round(steps / size, 2):g}{unit}"
    return f"{steps:g}"
