"""The report: one self-contained page about one run, or about several compared, and its plots as PNG."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from calql.errors import UserError
from calql.results import html, plots
from calql.results.diagnosis import diagnose
from calql.results.divergence import stories
from calql.results.headline import comparison, headline, resolution
from calql.results.metrics import write_atomically
from calql.results.runs import Run, labels, read_run
from calql.results.style import png
from calql.results.summary import Summary, summarise


class Plot(NamedTuple):
    """A figure of the report."""

    name: str  # of its PNG
    title: str
    draw: Callable[[Sequence[Run]], Figure | None]
    reading: str  # how to read it


PLOTS = (
    Plot(
        "score", "Score over training", plots.score,
        "Thick: mean over seeds; band: one standard deviation; thin: each seed. Left of the dashed line the policy "
        "learns from the data alone, right of it also from its own experience. A valley right after the line is "
        "unlearning: the method pays with what it had learned before it gets better.",
    ),
    Plot(
        "price", "The price of fine-tuning", plots.price,
        "Regret so far is the mean of 1 − score over the online evaluations up to that point: it stays low only if "
        "the score is high from the start. Shorter episodes usually mean that the goal is reached faster.",
    ),
    Plot(
        "q-values", "Are the values calibrated?", plots.q_values,
        "Average Q on logged states and actions against what the logged behaviour earned from there on (dashed). "
        "Far below the dashed line, values are too pessimistic: actions tried online then look better than they are, "
        "and the policy runs after them. Somewhat above it is right for a policy better than the data; far above it "
        "is overestimation.",
    ),
    Plot(
        "calibration", "Calibration, state by state", plots.calibration,
        "Each point is a logged state and action: its return-to-go across, its Q (mean over seeds) upwards; circles "
        "are means in bins of equal size, bars the middle 80%. On or a little above the diagonal is calibrated; "
        "below it, Q underrates what the logged behaviour is known to earn.",
    ),
    Plot(
        "bound-rate", "How often the reference value binds", plots.bound_rate,
        "Share of the policy's actions with Q below the reference value, at the state and at the next one; faint: "
        "each critic. With calibration these are not pushed down further; without it the rate only shows how often "
        "they would have been. Near 0, Cal-QL and CQL are the same; near 1, the reference decides everything.",
    ),
    Plot(
        "regulariser", "The conservative regulariser", plots.regulariser,
        "The gap is how much higher Q is on actions of the policy and random ones than on logged ones (a soft "
        "maximum); α′ is its weight in the loss, fixed or, with a target gap, adapted to hold it.",
    ),
    Plot(
        "learning", "Learning signals", plots.learning,
        "A TD loss that grows without end means diverging critics. Entropy should settle near its target (minus the "
        "number of action dimensions by default); the temperature α is what holds it there.",
    ),
)  # fmt: skip


def write_report(run_folders: Sequence[Path | str], out: Path | str | None = None) -> Path:
    """Write the page and its PNGs, and give back where the page is.

    One run: `report.html`, `plots/` and `summary.json` in its folder; several: `report.html` here, its plots in
    `report-plots/` beside it. `out` names another file (or a folder) for the page.
    """
    runs = [read_run(folder) for folder in run_folders]
    if not runs:
        raise UserError("no run to report on", mend="name at least one run folder")
    page = _where(runs, out)
    plots_folder = runs[0].folder / "plots" if len(runs) == 1 else page.parent / f"{page.stem}-plots"
    for folder in (page.parent, plots_folder):
        folder.mkdir(parents=True, exist_ok=True)
    if len(runs) == 1:
        summary = json.dumps(summarise(runs[0]).as_dict(), indent=2)
        write_atomically(runs[0].folder / "summary.json", summary + "\n")
    write_atomically(page, _page(runs, plots_folder))
    return page


def _where(runs: Sequence[Run], out: Path | str | None) -> Path:
    if out is None:
        return (runs[0].folder if len(runs) == 1 else Path()) / "report.html"
    place = Path(out)
    if place.is_dir():
        return place / "report.html"
    if place.suffix.lower() not in (".html", ".htm"):
        raise UserError("a report is an HTML page", where=str(place), mend="give --out a name that ends in .html")
    return place


def _page(runs: Sequence[Run], plots_folder: Path) -> str:
    names, summaries = labels(runs), [summarise(run) for run in runs]
    tasks = list(dict.fromkeys(run.task for run in runs))
    found = [
        (name, finding)
        for name, run, summary in zip(names, runs, summaries, strict=True)
        for finding in diagnose(run, summary)
    ]
    parts = [_opening(names, runs, summaries)]
    if len(runs) == 1:
        parts.append(html.tiles(summaries[0]))
    parts += ["<h2>Results</h2>", html.results(names, summaries, _colours(runs))]
    parts += ["<h2>What looks suspicious</h2>", html.findings(found, name_runs=len(runs) > 1)]
    told = [(name, s) for name, run in zip(names, runs, strict=True) for s in stories(run.config, run.rows)]
    parts.append(html.stories_of_divergence(told, name_runs=len(runs) > 1))
    for task in tasks:
        parts += _figures(task, [run for run in runs if run.task == task], plots_folder, several=len(tasks) > 1)
    parts.append(html.speed(names, runs))
    if len(runs) > 1:
        parts += ["<h2>Where the runs differ</h2>", html.differences(names, runs)]
    parts.append("<h2>Settings</h2>")
    parts += [html.settings(name, run, open_=len(runs) == 1) for name, run in zip(names, runs, strict=True)]
    title = f"{names[0]} on {tasks[0]}" if len(runs) == 1 else f"{len(runs)} runs on {', '.join(tasks)}"
    return html.page(title, _subtitle(runs), parts)


def _opening(names: Sequence[str], runs: Sequence[Run], summaries: Sequence[Summary]) -> str:
    if len(runs) == 1:
        notes = [resolution(runs[0])] if runs[0].rows else []
        notes += [f"{text[:1].upper()}{text[1:]}." for text in runs[0].config.get("fits", [])]
        return html.lead(headline(runs[0], summaries[0]), notes)
    if len({run.task for run in runs}) > 1:
        return html.lead(f"{len(runs)} runs on different tasks: scores compare only within a task.")
    each = [f"{name}: {headline(run, s)}" for name, run, s in zip(names, runs, summaries, strict=True)]
    return html.lead(comparison(names, summaries), each)


def _subtitle(runs: Sequence[Run]) -> str:
    if len(runs) > 1:
        unfinished = sum(not run.finished for run in runs)
        return f"Comparison of {len(runs)} runs" + (f", {unfinished} of them unfinished" if unfinished else "")
    run = runs[0]
    plan = [f"{run.offline_updates:,} gradient steps offline"] if run.offline_updates else []
    plan += [f"{run.online_steps:,} environment steps online"] if run.online_steps else []
    state = "finished" if run.finished else "not finished: numbers so far"
    return " · ".join([*plan, f"{len(run.seeds)} seed{'s' * (len(run.seeds) != 1)}", state])


def _colours(runs: Sequence[Run]) -> list[int]:
    """The colour of each run: its place among the runs of its task, as in the figures."""
    return [[other for other in runs if other.task == run.task].index(run) for run in runs]


def _figures(task: str, runs: Sequence[Run], folder: Path, *, several: bool) -> list[str]:
    """The figures of one task, as cards of the page and as files."""
    parts = [f"<h2>{'Curves' if not several else escape(task)}</h2>"]
    prefix = re.sub(r"[^\w.-]+", "-", task) + "-" if several else ""
    for plot in PLOTS:
        image = png(partial(plot.draw, runs))
        if image is not None:
            write_atomically(folder / f"{prefix}{plot.name}.png", image)
            parts.append(html.figure(plot.title, image, plot.reading))
    return parts if len(parts) > 1 else [*parts, '<div class="card">No evaluation yet.</div>']
