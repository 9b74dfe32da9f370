"""Seeds that run away, noticed from the rows of a run: whatever the method, by what its metrics mean.

Every rule is about one evaluation interval, so that what starts in it is told with its row. The numbers are explained
in docs/decisions/011-divergence.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from calql.methods.vocabulary import Signal, meaning_of
from calql.results.arms import ARM, Member, member_of
from calql.results.metrics import Row

OUTSIDE = 0.1  # of the width of possible returns: how far beyond them a mean value may lie
LARGE_ERROR = 0.1  # of that width: a root mean squared TD error that no fitted critic has, unless it still falls
GROWTH = 3.0  # times the median of the phase so far, in a mean squared TD error
SMALL_ERROR = 0.01  # of the width: growth below this is no matter
GROWTH_ALONE = 10.0  # the same where the width is not known
HISTORY = 5  # rows of the phase that a median needs
NATS = 1000.0  # per action dimension: a likelihood this low is that of a policy that has left the data

Bounds = tuple[float, float]
Rule = Literal["value", "large error", "growing error", "likelihood"]
Judged = tuple[Rule, str]  # the rule that a metric breaks, and in what words


@dataclass(frozen=True)
class Alarm:
    """One seed that runs away: by which metric, when, and in what words."""

    seed: int
    signal: Signal
    rule: Rule
    metric: str
    value: float
    update: int
    env_steps: int
    text: str
    arm: str | None = None  # of a sweep

    @property
    def member(self) -> Member:
        return self.seed if self.arm is None else (self.arm, self.seed)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; without an arm where the run has none."""
        return {name: value for name, value in asdict(self).items() if name != ARM or value is not None}


def returns_of_range(low: float | None, high: float | None, discount: float | None) -> Bounds | None:
    """Least and largest discounted return of rewards in a range, for runs that noted no more than that range."""
    if low is None or high is None or discount is None or not 0.0 <= discount < 1.0:
        return None
    return min(low, 0.0) / (1.0 - discount), max(high, 0.0) / (1.0 - discount)


@dataclass
class Watch:
    """Looks at rows as they come and tells of each seed once when it starts to run away."""

    returns: Bounds | None = None
    action_dim: int = 1
    alarms: dict[Member, Alarm] = field(default_factory=dict)  # by seed
    _errors: dict[tuple[Member, str, str], list[float]] = field(default_factory=dict)  # by seed, phase and metric

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> Watch:
        """For the run that a config.json describes."""
        data, options = config.get("dataset") or {}, {**(config.get("run") or {}), **(config.get("options") or {})}
        given = data.get("possible_returns")
        rough = returns_of_range(data.get("reward_min"), data.get("reward_max"), options.get("discount"))
        low, high = given or rough or (0.0, 0.0)
        return cls((low, high) if high > low else None, int(data.get("action_dim") or 1))

    def note(self, rows: Iterable[Row]) -> list[Alarm]:
        """The alarms that these rows give rise to, of seeds that gave none before."""
        found = []
        for row in rows:
            alarm = self._alarm(row)
            if alarm is not None and alarm.member not in self.alarms:
                self.alarms[alarm.member] = alarm
                found.append(alarm)
        return found

    def _alarm(self, row: Row) -> Alarm | None:
        """The first reason for one, values first."""
        reasons = []
        for name, value in row.items():
            meaning = meaning_of(name)
            if meaning is None or meaning.signal is None or not isinstance(value, int | float):
                continue
            judged = self._judged(row, name, float(value), meaning.signal)
            if judged:
                reasons.append((meaning.signal, name, float(value), *judged))
        if not reasons:
            return None
        signal, name, value, rule, words = min(reasons, key=lambda reason: reason[0] != "value")
        where = f"environment step {row['env_steps']:,}" if row["phase"] == "online" else f"update {row['update']:,}"
        text = f"{name} is {value:.4g} at {where}: {words}"
        where_from = int(row["update"]), int(row["env_steps"])
        return Alarm(int(row["seed"]), signal, rule, name, value, *where_from, text, row.get(ARM))

    def _judged(self, row: Row, name: str, value: float, signal: Signal) -> Judged | None:
        if signal == "value":
            return self._of_value(value)
        if signal == "td error":
            return self._of_error(row, name, value)
        limit = NATS * self.action_dim
        return ("likelihood", f"below -{limit:,.0f}") if value < -limit else None

    def _of_value(self, value: float) -> Judged | None:
        if self.returns is None:
            return None
        (low, high), slack = self.returns, OUTSIDE * self.width
        outside = not low - slack <= value <= high + slack
        return ("value", f"no return is outside [{low:.4g}, {high:.4g}]") if outside else None

    def _of_error(self, row: Row, name: str, value: float) -> Judged | None:
        """By itself, and against what it was before in the same phase."""
        before = self._errors.setdefault((member_of(row), row["phase"], name), [])
        usual = float(np.median(before)) if len(before) >= HISTORY else math.inf
        falls = not before or value < before[-1]  # a phase begins with critics that are yet to be fitted
        before.append(value)
        size, width = math.sqrt(max(value, 0.0)), self.width
        if width and size > LARGE_ERROR * width and not falls:
            return (
                "large error",
                f"an error of {size:.4g} where possible returns span {width:.4g}, and not falling",
            )
        growth, least = (GROWTH, SMALL_ERROR * width) if width else (GROWTH_ALONE, 0.0)
        if value > growth * usual and size > least:
            grown = f"{value / usual:.1f} times its median before, {usual:.4g}" if usual else "it was 0 before"
            return "growing error", grown
        return None

    @property
    def width(self) -> float:
        """What possible returns span; 0 where that is not known."""
        return 0.0 if self.returns is None else self.returns[1] - self.returns[0]


BEFORE = 8  # rows that a report shows up to where a seed diverges or is noticed


@dataclass(frozen=True)
class Story:
    """What the numbers of one seed did until it diverged or was noticed to run away."""

    seed: int
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def stories(config: Mapping[str, Any], rows: Sequence[Row]) -> list[Story]:
    """Of every seed that diverged or runs away: its last rows up to then, in the metrics that tell of it."""
    watch = Watch.of_config(config)
    watch.note(rows)
    found = []
    for member in dict.fromkeys(member_of(row) for row in rows):
        mine = [row for row in rows if member_of(row) == member]
        until = [place for place, row in enumerate(mine) if _tells(row, watch.alarms.get(member))]
        if until:
            shown = mine[max(until[0] + 1 - BEFORE, 0) : until[0] + 1]
            names = [name for name in dict.fromkeys(n for row in shown for n in row) if _signals(name)]
            found.append(Story(int(mine[0]["seed"]), ("phase", "update", "env_steps", "score", *names), tuple(shown)))
    return found


def _tells(row: Row, alarm: Alarm | None) -> bool:
    """Whether this row is the one from which it is known."""
    return "diverged_update" in row or (alarm is not None and int(row["update"]) >= alarm.update)


def _signals(name: str) -> bool:
    meaning = meaning_of(name)
    return meaning is not None and (meaning.signal is not None or meaning.steers)
