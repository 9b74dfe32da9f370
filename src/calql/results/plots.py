"""What a report of runs shows, as sheets: of one run a colour for each seed, of several a colour for each run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from calql.methods.vocabulary import (
    AVERAGE_Q,
    AVERAGE_RETURN_TO_GO,
    BEHAVIOUR_VALUE,
    BOUND_RATE,
    FQE_VALUE,
    by_part,
    of_panel,
)
from calql.methods.vocabulary import Panel as Family
from calql.results.calibration import calibration_panels
from calql.results.curves import Column, column, mean_of
from calql.results.lines import like, mean_line, seed_lines
from calql.results.panels import INK_PLACE, Kind, Line, Panel, Sheet, unit_range
from calql.results.runs import RecordedRun, labels
from calql.results.timeline import Timeline

MEAN, REFERENCE, LOGGED = "mean over seeds", "return-to-go of the data", "logged behaviour"


@dataclass(frozen=True)
class Runs:
    """Runs of one task, with their names; the place of a run is its colour. Alone, each seed has its own."""

    runs: Sequence[RecordedRun]
    names: Sequence[str]
    timeline: Timeline

    @staticmethod
    def of(runs: Sequence[RecordedRun]) -> Runs:
        return Runs(runs, labels(runs), Timeline.of(runs))

    @property
    def alone(self) -> bool:
        return len(self.runs) == 1

    def panel(self, title: str, what: Column) -> Panel:
        """A quantity over both phases: each seed, and the mean over seeds with its interval."""
        seeds = [line for place in range(len(self.runs)) for line in self._seeds(place, what)]
        means = [] if self.alone and len(seeds) == 1 else self.means(what)
        return Panel(title, [*seeds, *means], self.timeline.label, "", self.timeline)

    def means(self, what: Column, kind: Kind = "line") -> list[Line]:
        looks = [like(name, place, kind) for place, name in enumerate(self.names)]
        looks = [like(MEAN, INK_PLACE, kind)] if self.alone else looks
        pairs = zip(self.runs, looks, strict=True)
        return [line for run, look in pairs for line in mean_line(run, what, self.timeline, look)]

    def _seeds(self, place: int, what: Column) -> list[Line]:
        run, name = self.runs[place], self.names[place]
        several: Kind = "seed" if len(run.seeds) > 1 else "line"
        if self.alone:
            return seed_lines(run, what, self.timeline, lambda at, seed: like(f"seed {seed}", at, several))
        if len(run.seeds) == 1:
            return []  # its mean is it
        return seed_lines(run, what, self.timeline, lambda at, seed: like(name, place, "seed"))

    def references(self, of: str, metric: str, name: str) -> list[Line]:
        """What the data came to, against which the values of runs are held: one line for those where it is the same."""
        found: list[tuple[Line, list[str]]] = []
        for place, run in enumerate(self.runs):
            has_values = any(row.get(of) is not None for row in run.rows)
            look = like(name, place, "dashed")
            for line in mean_line(run, column(metric), self.timeline, look) if has_values else ():
                same = next((names for other, names in found if _same_end(other, line)), None)
                if same is None:
                    found.append((line, [self.names[place]]))
                else:
                    same.append(self.names[place])
        if len(found) == 1:
            return [replace(found[0][0], place=INK_PLACE)]
        return [replace(line, label=f"{name}: {', '.join(names)}") for line, names in found]


def _same_end(one: Line, other: Line) -> bool:
    return math.isclose(one.y[-1], other.y[-1], rel_tol=1e-6)


def score(runs: Runs) -> Sequence[Panel]:
    """Normalised score over the whole run."""
    panel = runs.panel("Normalised score", column("score"))
    return [replace(panel, y_range=unit_range(panel.lines))]


def values(runs: Runs) -> Sequence[Panel]:
    """Of runs without an environment: what the policy would earn by fitted Q evaluation, beside what was logged."""
    panel = runs.panel("Value by fitted Q evaluation", column(FQE_VALUE))
    references = runs.references(FQE_VALUE, BEHAVIOUR_VALUE, LOGGED)
    return [replace(panel, lines=[*panel.lines, *references])] if panel.lines else []


def price(runs: Runs) -> Sequence[Panel]:
    """Regret so far, and how long an evaluation episode takes."""
    regret = runs.panel("Regret so far: mean of 1 − score", column("regret"))
    return [regret, runs.panel("Episode length", column("episode_length"))]


def q_values(runs: Runs) -> Sequence[Panel]:
    """Average Q on logged data against the average return-to-go of the same data."""
    panel = runs.panel("Average Q on logged data", column(AVERAGE_Q))
    references = runs.references(AVERAGE_Q, AVERAGE_RETURN_TO_GO, REFERENCE)
    return [replace(panel, lines=[*panel.lines, *references])] if panel.lines else []


def calibration(runs: Runs) -> Sequence[Panel]:
    """Q against return-to-go, state by state; of a run by itself over all seeds."""
    several = [(name, place) for place, name in enumerate(runs.names)]
    return calibration_panels(runs.runs, [(MEAN, INK_PLACE)] if runs.alone else several)


def bound_rate(runs: Runs) -> Sequence[Panel]:
    """Share of the policy's actions whose Q is below the reference value, for each source of actions."""
    names = {name for run in runs.runs for row in run.rows for name in row}
    return [_bound_rate(title, runs, critics) for title, critics in by_part(BOUND_RATE, names).items()]


def _bound_rate(title: str, runs: Runs, critics: Sequence[str]) -> Panel:
    """The mean over critics; beside other runs or of one seed also each critic."""
    panel = runs.panel(title, mean_of(critics))
    parts = [line for name in critics for line in runs.means(column(name), "part")] if len(critics) > 1 else []
    return replace(panel, lines=[*parts, *panel.lines], y_range=(-0.03, 1.03))


def of_family(family: Family, runs: Runs) -> Sequence[Panel]:
    """A panel for every metric of the vocabulary that belongs to a figure."""
    return [runs.panel(meaning.title, column(name)) for name, meaning in of_panel(family).items()]


class Plot(NamedTuple):
    """A figure of the report."""

    name: str  # of its PNG
    title: str
    make: Callable[[Runs], Sequence[Panel]]
    reading: str  # how to read it


PLOTS = (
    Plot(
        "score", "Score over training", score,
        "Left of the dashed line the policy learns from the data alone, right of it also from its own experience. A "
        "valley right after the line is unlearning: the method pays with what it had learned before it gets better.",
    ),
    Plot(
        "values", "Value from the logs alone", values,
        "What the policy would earn from the starts of held-out episodes, estimated from the logs by fitted Q "
        "evaluation; dotted: what these episodes earned as they were logged. Nobody has played: where the policy does "
        "what nobody logged, the estimate may be far too high.",
    ),
    Plot(
        "q-values", "Are the values calibrated?", q_values,
        "Average Q on logged states and actions against what the logged behaviour earned from there on (dotted). Far "
        "below it, values are too pessimistic: actions tried online then look better than they are, and the policy "
        "runs after them. Somewhat above it is right for a policy better than the data; far above is overestimation.",
    ),
    Plot(
        "price", "The price of fine-tuning", price,
        "Regret so far is the mean of 1 − score over the online evaluations up to that point: it stays low only if "
        "the score is high from the start. Shorter episodes usually mean that the goal is reached faster.",
    ),
    Plot(
        "calibration", "Calibration, state by state", calibration,
        "Each point is a logged state and action: its return-to-go across, its Q (mean over seeds) upwards; circles "
        "are means in bins of equal size, bars the middle 80%. On or a little above the diagonal is calibrated; "
        "below it, Q underrates what the logged behaviour is known to earn.",
    ),
    Plot(
        "bound-rate", "How often the reference value binds", bound_rate,
        "Share of the policy's actions with Q below the reference value, at the state and at the next one; faint: "
        "each critic. With calibration these are not pushed down further; without it the rate only shows how often "
        "they would have been. Near 0, calibration changes nothing; near 1, the reference decides everything.",
    ),
    Plot(
        "regulariser", "The conservative regulariser", partial(of_family, "regulariser"),
        "The gap is how much higher Q is on actions of the policy and random ones than on logged ones (a soft "
        "maximum); α′ is its weight in the loss, fixed or, with a target gap, adapted to hold it.",
    ),
    Plot(
        "learning", "Learning signals", partial(of_family, "learning"),
        "A TD loss that grows without end means diverging critics. Entropy should settle near its target (minus the "
        "number of action dimensions by default); the temperature α is what holds it there.",
    ),
    Plot(
        "weights", "What logged actions count for", partial(of_family, "weights"),
        "The policy clones logged actions, each with a weight that grows with its advantage. Weights near 1 are plain "
        "cloning; a largest weight that stands at its cap means that a few actions decide the policy.",
    ),
    Plot(
        "cloning", "How near the policy stays to the data", partial(of_family, "cloning"),
        "Logged actions under the policy: their log-likelihood, or how far the policy's own lie from them. Online a "
        "policy may leave the data for something better; together with a falling score it has lost its way.",
    ),
)  # fmt: skip


def sheets(runs: Sequence[RecordedRun]) -> list[Sheet]:
    """Every figure that these runs of one task have numbers for."""
    shown = Runs.of(runs)
    made = ((plot, [panel for panel in plot.make(shown) if panel.lines]) for plot in PLOTS)
    return [Sheet(plot.name, plot.title, plot.reading, panels, min(len(panels), 3)) for plot, panels in made if panels]
