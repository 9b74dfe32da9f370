"""What each table and figure of the paper is rendered as: a registry of small makers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calql.experiments.analysis.aggregates import aggregate_table, profiles, scores_of
from calql.experiments.analysis.choice import Choose, everything, fine_tuned, of_methods, of_variants
from calql.experiments.analysis.comparison import Entry
from calql.experiments.analysis.evaluations import Result
from calql.experiments.analysis.scoreboard import board
from calql.experiments.names import method_name, method_place
from calql.experiments.pages.idea import read_slices, slice_panels
from calql.experiments.pages.panels import (
    AVERAGE_Q,
    BOUND_RATE,
    BY_METHOD,
    BY_TASK,
    SCORE,
    Grouping,
    Quantity,
    online_curves,
    through_switch,
)
from calql.experiments.paper.figures import DIPS, TEMPERATURES, UNLEARNS, UPDATES_AND_ASCENT
from calql.experiments.paper.numbers import Number, PaperTable, locomotion_table, main_table
from calql.experiments.tables import Table
from calql.results.panels import BAND, Line, Panel, Sheet
from calql.system.errors import unknown


@dataclass(frozen=True)
class Material:
    """All that a maker may use."""

    results: Sequence[Result]  # finished cells
    entries: Sequence[Entry]  # every cell, with its verdict
    folder: Path  # of the tidy table
    paper: PaperTable | None


MakeSheet = Callable[[Material], Sheet | None]
MakeTable = Callable[[Material], Table | None]


@dataclass(frozen=True)
class Rendering:
    """A table or figure of the paper: what it compares with, and what is drawn."""

    sheets: Sequence[MakeSheet]
    tables: Sequence[MakeTable] = ()
    paper: Callable[[], PaperTable | None] = lambda: None  # where the paper prints numbers for these cells
    judged: Sequence[Number] = ("before", "after", "regret")  # which of them a verdict is on
    whole: bool = False  # cells of the paper that nobody asked for are listed too, as not run


def find_rendering(name: str) -> Rendering:
    if name not in RENDERINGS:
        raise unknown("table or figure", name, RENDERINGS)
    return RENDERINGS[name]


def curves(
    name: str, title: str, caption: str, *, choose: Choose = everything, by: Grouping = BY_TASK, early: bool = False
) -> MakeSheet:
    """Score over environment steps."""

    def make(material: Material) -> Sheet | None:
        chosen = [result for result in material.results if choose(result)]
        return _sheet(name, title, f"{caption} {BAND}", online_curves(chosen, by, early=early))

    return make


def switch(
    name: str,
    title: str,
    caption: str,
    quantities: Sequence[Quantity],
    *,
    choose: Choose = everything,
    columns: int = 3,
) -> MakeSheet:
    """Quantities over both phases."""

    def make(material: Material) -> Sheet | None:
        chosen = [result for result in material.results if choose(result)]
        return _sheet(name, title, f"{caption} {BAND}", through_switch(chosen, quantities), columns)

    return make


def idea(name: str, title: str, caption: str) -> MakeSheet:
    """Q over actions, from the slices that lie beside the tidy table."""

    def make(material: Material) -> Sheet | None:
        return _sheet(name, title, caption, slice_panels(read_slices(material.folder)), columns=2)

    return make


def performance_profile(number: Number) -> MakeSheet:
    """How many seeds and tasks are above each score."""

    def make(material: Material) -> Sheet | None:
        scores = scores_of(material.results, number)
        most = max((float(values.max()) for tasks in scores.values() for values in tasks.values()), default=1.0)
        thresholds = np.linspace(0.0, max(most, 1.0), 41)
        shared, found = profiles(scores, thresholds)
        what = "score after fine-tuning" if number == "after" else "mean score while fine-tuning (1 - regret)"
        lines = [
            Line(method_name(method), method_place(method), thresholds, each.share, each.low, each.high)
            for method, each in found.items()
        ]
        panel = Panel("", lines, what, "share of runs above it", x_range=(0.0, max(most, 1.0)), y_range=(-0.03, 1.03))
        caption = f"Over {', '.join(shared)}: the tasks that every method finished. Band: 95% stratified bootstrap."
        return _sheet(f"profile-{number}", "Performance profile", caption, [panel] if lines else [])

    return make


def against_paper(number: Number) -> MakeSheet:
    """Our number over the paper's, a point for each cell that has both."""

    def make(material: Material) -> Sheet | None:
        groups: dict[str, list[Entry]] = {}
        for entry in material.entries:
            if number in entry.ours and number in entry.paper:
                groups.setdefault(entry.method, []).append(entry)
        lines = [_points(method, group, number) for method, group in groups.items()]
        what = "regret" if number == "regret" else f"score {number} fine-tuning"
        panel = Panel("", lines, f"{what}, the paper", f"{what}, ours", diagonal=True)
        caption = (
            "A point for each cell, with its 95% interval; on the dashed line ours is the paper's. At reduced scale a "
            "point off the line is to be expected."
        )
        return _sheet(f"against-paper-{number}", "Ours against the paper's", caption, [panel] if lines else [])

    return make


def _points(method: str, entries: Sequence[Entry], number: Number) -> Line:
    estimates = [entry.ours[number] for entry in entries]
    low, high = (
        np.array([each.value if bound is None else bound for each, bound in zip(estimates, bounds, strict=True)])
        for bounds in ([each.low for each in estimates], [each.high for each in estimates])
    )
    x, y = np.array([entry.paper[number] for entry in entries]), np.array([each.value for each in estimates])
    names = [f"{entry.task}: {entry.verdict.mark.words}" for entry in entries]
    return Line(method_name(method), method_place(method), x, y, low, high, "points", names)


def scoreboard(name: str, title: str, *numbers: Number) -> MakeTable:
    """One of the paper's tables."""

    def make(material: Material) -> Table | None:
        return None if material.paper is None else board(name, title, material.entries, material.paper, numbers)

    return make


def aggregates(number: Number) -> MakeTable:
    return lambda material: aggregate_table(scores_of(material.results, number), number)


def _sheet(name: str, title: str, caption: str, panels: Sequence[Panel], columns: int = 3) -> Sheet | None:
    return Sheet(name, title, caption, panels, columns) if any(panel.lines for panel in panels) else None


REGRET = "Regret: mean of 1 − score over the online evaluations"
RENDERINGS: Mapping[str, Rendering] = {
    "table-scores": Rendering(
        tables=[scoreboard("scores", "Score before → after, out of 100", "before", "after"), aggregates("after")],
        sheets=[against_paper("after"), performance_profile("after")],
        paper=main_table,
        judged=("before", "after"),
        whole=True,
    ),
    "table-regret": Rendering(
        tables=[scoreboard("regret", REGRET, "regret"), aggregates("regret")],
        sheets=[against_paper("regret"), performance_profile("regret")],
        paper=main_table,
        judged=("regret",),
        whole=True,
    ),
    "table-locomotion": Rendering(
        tables=[
            scoreboard("scores", "Score before → after", "before", "after"),
            scoreboard("regret", REGRET, "regret"),
            aggregates("after"),
        ],
        sheets=[against_paper("after"), performance_profile("after")],
        paper=locomotion_table,
        whole=True,
    ),
    "fig-analysis": Rendering(
        sheets=[
            curves("figure-2", "Fine-tuning of prior methods (Figure 2)", "From the switch on."),
            switch(
                "figure-3", "Score and average Q of CQL through the switch (Figure 3)",
                "Where Q lies far below what the data earn, it has to rise when fine-tuning begins, and the score "
                "falls while it does.",
                (SCORE, AVERAGE_Q), choose=of_methods(*UNLEARNS), columns=2,
            ),
        ],
        paper=main_table,
    ),
    "fig-curves": Rendering(
        sheets=[
            curves("figure-6", "Online fine-tuning after pre-training (Figure 6)", "Dashed: not pre-trained."),
            curves(
                "figure-12", "The initial dip of CQL (Figure 12)",
                "The first fifth of fine-tuning, or its first two evaluations where that holds fewer.",
                choose=of_methods(*DIPS), early=True,
            ),
        ],
        paper=main_table,
    ),
    "fig-utd": Rendering(
        sheets=[curves("figure-7", "Update ratio 20 and 1 (Figure 7)", "RLPD starts from scratch.")],
    ),
    "fig-data": Rendering(
        sheets=[
            switch(
                "figure-8", "Score, average Q and bound rate through the switch (Figure 8)",
                "The bound rate is the share of the policy's actions whose Q is below the reference value.",
                (SCORE, AVERAGE_Q, BOUND_RATE),
            )
        ],
    ),
    "fig-reference": Rendering(
        sheets=[curves("figure-9", "Reference values on kitchen (Figure 9)", "From the switch on.")],
    ),
    "fig-iql": Rendering(
        sheets=[
            curves(
                "figure-10", "Online temperatures of IQL (Figure 10)", "From the switch on.",
                choose=of_variants(*TEMPERATURES),
            ),
            curves(
                "figure-11", "More updates, and a more aggressive policy (Figure 11)", "From the switch on.",
                choose=of_variants(*UPDATES_AND_ASCENT),
            ),
        ],
    ),
    "fig-mixing": Rendering(
        sheets=[
            curves(
                "figure-13", "Mixing ratio on door-binary (Figure 13)", "-1: drawn from all data alike.", by=BY_METHOD
            )
        ],
    ),
    "fig-idea": Rendering(
        sheets=[
            idea(
                "figure-4", "A slice of Q over actions (Figure 4)",
                "At a logged state, over the first component of the action; means over seeds. The true return is that "
                "of taking the action and then following the policy. A peak of Q where it is low draws the policy away "
                "from what the data know.",
            ),
            switch(
                "switch", "Score and average Q through the switch", "Of the cells that were fine-tuned.",
                (SCORE, AVERAGE_Q), choose=fine_tuned, columns=2,
            ),
        ],
    ),
}  # fmt: skip
