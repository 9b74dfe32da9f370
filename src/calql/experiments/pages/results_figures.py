"""Figures of the page of all results: curves through the switch by domain, and ours beside the authors' program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calql.experiments.analysis.checks import same_length
from calql.experiments.analysis.choice import arm
from calql.experiments.analysis.evaluations import Result
from calql.experiments.analysis.facts import Facts
from calql.experiments.names import method_name, method_place
from calql.experiments.pages.panels import AVERAGE_Q, BY_TASK, SCORE, through_switch
from calql.experiments.paper.claims import PAIR
from calql.experiments.paper.figures import AUTHORS, DOMAINS
from calql.experiments.paper.numbers import printed
from calql.results.panels import BAND, Line, Panel, Sheet


def best_cell(task: str, method: str, cells: Sequence[Facts]) -> Facts | None:
    here = [cell for cell in cells if cell.result.key == (task, method, "")]
    return max(here, key=lambda cell: (cell.rank, cell.result.cell), default=None)


def domain_sheets(cells: Sequence[Facts]) -> list[Sheet]:
    """For each domain the score through the switch, Cal-QL and CQL of one length; points: the paper's."""
    sheets = []
    for domain, tasks in DOMAINS.items():
        panels = [panel for task in tasks for panel in _task_panels(cells, task)]
        if panels:
            caption = f"{BAND} Points: the paper's score before and after, at its own length."
            sheets.append(Sheet(f"curves-{domain}", domain, caption, panels, columns=2))
    return sheets


def _task_panels(cells: Sequence[Facts], task: str) -> list[Panel]:
    """Score and average Q of one task; empty where nothing was run."""
    pair = same_length(cells, task, *map(arm, PAIR))
    here = pair or [cell for each in PAIR if (cell := best_cell(task, each, cells)) is not None]
    panels = through_switch([cell.result for cell in here], (SCORE, AVERAGE_Q))
    return [replace(panel, lines=[*panel.lines, *_papers(task, panel)]) for panel in panels]


def _papers(task: str, panel: Panel) -> list[Line]:
    """The paper's two scores of each method: at the switch, and at the right edge."""
    if panel.y_label != SCORE.title:
        return []
    lines = []
    for method in PAIR:
        paper = printed(task, method)
        if paper is not None and paper.before is not None and paper.after is not None:
            x, y = np.array([0.0, 1.0]), np.array([paper.before, paper.after])
            lines.append(Line(f"{method_name(method)}, paper", method_place(method), x, y, kind="points"))
    return lines


def beside_authors(cells: Sequence[Facts]) -> list[Sheet]:
    """Ours and the authors' own program on our data, for each task and method that both have."""
    theirs = [cell for cell in cells if cell.result.variant == AUTHORS]
    panels: list[Panel] = []
    for each in theirs:
        task, method, _ = each.result.key
        ours = [cell for cell in cells if cell.result.key == (task, method, "")]
        if ours:
            longest = max(
                ours, key=lambda cell: (cell.result.run.online_steps >= each.result.run.online_steps, cell.rank)
            )
            panels += _together(each.result, longest.result)
    if not panels:
        return []
    caption = f"The same data, environment and updates. {BAND}"
    return [Sheet("beside-authors", "Ours and the authors' program on our data", caption, panels, columns=2)]


def _together(theirs: Result, ours: Result) -> list[Panel]:
    """Ours as far as theirs went."""
    most = max(row["env_steps"] for row in theirs.run.rows)
    rows = [row for row in ours.run.rows if row["env_steps"] <= 1.1 * most]
    config = {**ours.run.config, "run": {**ours.run.config["run"], "online_steps": most}}
    cut = replace(ours, variant="", run=replace(ours.run, rows=rows, config=config))
    by = replace(BY_TASK, label=lambda result: AUTHORS if result.variant else "ours")
    title = f"{method_name(ours.method)} on {ours.task}"
    return [replace(panel, title=title) for panel in through_switch([cut, theirs], (SCORE, AVERAGE_Q), by)]
