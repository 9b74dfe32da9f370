"""What is seen while a run goes on: a live display on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from calql.methods.vocabulary import FQE_VALUE
from calql.results.arms import ARM, Member, member_of, named
from calql.results.metrics import Row
from calql.system.errors import shown

HEARTBEAT_S = 15.0
BARS = "▁▂▃▄▅▆▇█"
SHOWN = 30  # evaluations of a sparkline


class Display(Protocol):
    """What the engine tells whoever watches."""

    def start(self, total_updates: int, total_env_steps: int, label: str) -> None:
        """Gradient steps of the offline phase, environment steps of the online phase, and what runs."""
        ...

    def phase(self, name: str) -> None:
        """ "offline" or "online" begins."""
        ...

    def advance(self, updates: int, env_steps: int, updates_per_s: float, env_steps_per_s: float) -> None:
        """Gradient and environment steps done so far (not since the last call; means over seeds), and rates."""
        ...

    def evaluation(self, rows: Sequence[Row]) -> None:
        """One evaluation, a row per seed."""
        ...

    def message(self, text: str) -> None:
        """A line that stays."""
        ...

    def close(self) -> None:
        """The end; also after an error."""
        ...


class Silent:
    """Shows nothing."""

    def start(self, total_updates: int, total_env_steps: int, label: str) -> None: ...

    def phase(self, name: str) -> None: ...

    def advance(self, updates: int, env_steps: int, updates_per_s: float, env_steps_per_s: float) -> None: ...

    def evaluation(self, rows: Sequence[Row]) -> None: ...

    def message(self, text: str) -> None: ...

    def close(self) -> None: ...


class Progress:
    """The display of `calql train`: live on a terminal, else one line per evaluation and a heartbeat."""

    def __init__(self, console: Console | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console()
        self._clock = clock
        self._live: Live | None = None
        self._label, self._phase = "", "offline"
        self._totals = {"offline": 0, "online": 0}
        self._updates, self._env_steps = 0, 0
        self._rates = (0.0, 0.0)  # updates/s while updating, env steps/s while collecting
        self._pace_from: tuple[int, float] | None = None  # steps and time at the start of this phase
        self._last: dict[Member, float] = {}  # latest score of each seed
        self._measure = "score"  # or, without an environment, the value by fitted Q evaluation
        self._heard: set[Member] = set()  # seeds evaluated since the last line about scores
        self._history: dict[str, list[float]] = {}  # of each arm ("" without), one mean per line about scores
        self._started = self._spoke = clock()

    @property
    def seen(self) -> bool:
        """Whether anybody looks: a terminal or a notebook."""
        return self._console.is_terminal or self._console.is_jupyter

    @property
    def _draws(self) -> bool:
        """Whether what was drawn can be drawn over; a notebook needs ipywidgets for it."""
        widgets = self._console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        return self._console.is_terminal or widgets

    def preparing(self, text: str) -> None:
        """What is being done before a run begins, so that nobody looks at a blank screen."""
        self._console.print(shown(f"{text} ..."), style="dim", markup=False, highlight=False, soft_wrap=True)

    def start(self, total_updates: int, total_env_steps: int, label: str) -> None:
        self._totals = {"offline": total_updates, "online": total_env_steps}
        self._label = shown(label)
        self._started = self._spoke = self._clock()
        if self._draws:
            self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._view)
            self._live.start(refresh=True)
        else:
            self._line(label)

    def phase(self, name: str) -> None:
        self._phase, self._pace_from = name, None
        self._refresh()

    def advance(self, updates: int, env_steps: int, updates_per_s: float, env_steps_per_s: float) -> None:
        self._updates, self._env_steps = updates, env_steps
        self._rates = (updates_per_s, env_steps_per_s)
        if self._pace_from is None:
            self._pace_from = (self._done(self._phase), self._clock())
        if self._live is None and self._clock() - self._spoke >= HEARTBEAT_S:
            self._line(self._where())

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Online, seeds are evaluated one by one as their trajectories end: a line waits for all of them."""
        for row in rows:
            self._measure = "value" if row.get("score") is None and FQE_VALUE in row else "score"
            number = row.get(FQE_VALUE if self._measure == "value" else "score")
            self._last[member_of(row)] = float("nan") if number is None else float(number)
            self._heard.add(member_of(row))
        if self._heard < self._last.keys():
            return
        self._heard.clear()
        for arm, scores in self._by_arm().items() if self._measure == "score" else ():
            self._history.setdefault(arm, []).append(float(np.mean(scores)))
        if self._live is None:
            switch = "  (switch)" if any(row.get("switch") for row in rows) else ""
            self._line(f"{self._where()}  {self._score()}{switch}")
        self._refresh()

    def message(self, text: str) -> None:
        self._console.print(shown(text), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """What was drawn stays, unless nothing had happened yet: no empty bars above an error."""
        if self._live is not None:
            self._live.transient = not (self._updates or self._env_steps or self._last)
            self._live.stop()
            self._live = None

    def _line(self, text: str) -> None:
        self._spoke = self._clock()
        self._console.print(shown(text), markup=False, highlight=False, soft_wrap=True)

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.refresh()

    def _done(self, phase: str) -> int:
        if phase == "online":
            return min(self._env_steps, self._totals["online"])
        return min(self._updates, self._totals["offline"])

    def _left(self) -> float | None:
        """Seconds to the end of the phase at its pace so far, evaluations included; None before there is one."""
        if self._pace_from is None:
            return None
        steps, since = self._pace_from
        done = self._done(self._phase)
        return (self._totals[self._phase] - done) * (self._clock() - since) / (done - steps) if done > steps else None

    def _rate(self) -> str:
        texts = [
            f"{rate:,.0f} {unit}/s"
            for rate, unit in zip(self._rates, ("updates", "env steps"), strict=True)
            if rate > 0
        ]
        return ", ".join(texts) + (" per seed" if texts else "")

    def _where(self) -> str:
        """Phase, how far, rate and time left on one line."""
        unit = "env steps" if self._phase == "online" else "updates"
        left = self._left()
        parts = [
            f"{self._phase:<7}",
            f"{self._done(self._phase):>9,}/{self._totals[self._phase]:,} {unit}",
            self._rate(),
            "" if left is None else f"{clock_text(left)} left",
        ]
        return "  ".join(part for part in parts if part)

    def _by_arm(self) -> dict[str, list[float]]:
        """The latest scores of the seeds of each arm; of a run without arms, under no name."""
        found: dict[str, list[float]] = {}
        for member, score in self._last.items():
            found.setdefault(named(member).get(ARM, ""), []).append(score)
        return found

    def _score(self) -> str:
        texts = [f"{arm} {_spread(scores)}".strip() for arm, scores in self._by_arm().items()]
        return f"{self._measure} " + ", ".join(texts) if texts else "no score yet"

    def _view(self) -> RenderableType:
        """Fits 80 columns: a row a phase, one for the pace, one for the score of each arm."""
        elapsed = f"  {clock_text(self._clock() - self._started)}"
        table = Table.grid(padding=(0, 2))
        for phase, unit in (("offline", "updates"), ("online", "env steps")):
            if self._totals[phase]:
                table.add_row(*self._row(phase, unit))
        begun = self._updates or self._env_steps
        pace = self._rate() if begun else "compiling the program, which takes some seconds the first time"
        return Group(
            Text.assemble((self._label, "bold"), (elapsed, "dim")), table, Text(pace, style="dim"), *self._scores()
        )

    def _row(self, phase: str, unit: str) -> list[RenderableType]:
        """Of one phase: how far it is, and the time left where it is the one that goes on."""
        total, done, here = self._totals[phase], self._done(phase), phase == self._phase
        left = self._left() if here and done < total else None
        return [
            Text(phase, style="bold cyan" if here else "dim", no_wrap=True),
            ProgressBar(total=total, completed=done, width=20),
            Text(f"{done:,}/{total:,} {unit}", style="" if here else "dim", no_wrap=True),
            Text("" if left is None else f"{clock_text(left)} left", no_wrap=True),
        ]

    def _scores(self) -> list[RenderableType]:
        """The score of each arm, a line each, and how it came to it."""
        if not self._last:
            return [Text("no score yet", style="dim")]
        table = Table.grid(padding=(0, 2))
        for arm, scores in self._by_arm().items():
            bars = sparkline(self._history.get(arm, [])[-SHOWN:])
            table.add_row(
                Text(f"score {arm}".strip()), Text(_spread(scores), style="bold green"), Text(bars, style="green")
            )
        return [table]


def _spread(scores: Sequence[float]) -> str:
    spread = f" ({min(scores):.2f} to {max(scores):.2f})" if len(scores) > 1 else ""
    return f"{np.mean(scores):.2f}{spread}"


def sparkline(values: Sequence[float], low: float = 0.0, high: float = 1.0) -> str:
    """Values as a row of bars, from `low` to `high`."""
    top = len(BARS) - 1
    shares = ((value - low) / (high - low) for value in values if np.isfinite(value))
    return "".join(BARS[min(max(round(share * top), 0), top)] for share in shares)


def clock_text(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
