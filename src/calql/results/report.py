"""The report: one self-contained page about one run, or about several compared, and its plots as PNG."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from calql.results import content, html, plots
from calql.results.content import Picture
from calql.results.diagnosis import Finding, diagnose
from calql.results.divergence import stories
from calql.results.headline import comparison, headline, resolution
from calql.results.metrics import write_atomically
from calql.results.runs import Run, labels, read_runs
from calql.results.style import png
from calql.results.summary import Summary, summarise
from calql.system import run_files
from calql.system.errors import UserError


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
    Plot(
        "weights", "What logged actions count for", plots.weights,
        "The policy clones logged actions, each with a weight that grows with its advantage. Weights near 1 are plain "
        "cloning; a largest weight that stands at its cap means that a few actions decide the policy.",
    ),
    Plot(
        "cloning", "How near the policy stays to the data", plots.cloning,
        "Logged actions under the policy: their log-likelihood, or how far the policy's own lie from them. Online a "
        "policy may leave the data for something better; together with a falling score it has lost its way.",
    ),
)  # fmt: skip


def write_report(run_folders: Sequence[Path | str], out: Path | str | None = None) -> Path:
    """Write the page and its PNGs, and give back where the page is.

    One run or one sweep: `report.html`, `plots/` and `summary.json` in its folder; several: `report.html` here, its
    plots in `report-plots/` beside it. `out` names another file (or a folder) for the page.
    """
    runs = [run for folder in run_folders for run in read_runs(folder)]
    if not runs:
        raise UserError("no run to report on", mend="name at least one run folder")
    alone = len(run_folders) == 1
    page = _where(runs[0].folder if alone else Path(), out)
    plots_folder = runs[0].folder / run_files.PLOTS if alone else page.parent / f"{page.stem}-plots"
    for folder in (page.parent, plots_folder):
        folder.mkdir(parents=True, exist_ok=True)
    if alone:
        write_atomically(runs[0].folder / run_files.SUMMARY, json.dumps(_summary(runs), indent=2) + "\n")
    write_atomically(page, _page(runs, plots_folder))
    return page


def _summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Of the one run in a folder, or of the arms in it by their names."""
    if not runs[0].arm:
        return summarise(runs[0]).as_dict()
    return {"arms": {run.arm: summarise(run).as_dict() for run in runs}}


def _where(usual: Path, out: Path | str | None) -> Path:
    if out is None:
        return usual / run_files.REPORT
    place = Path(out)
    if place.is_dir():
        return place / run_files.REPORT
    if place.suffix.lower() not in (".html", ".htm"):
        raise UserError("a report is an HTML page", where=str(place), mend="give --out a name that ends in .html")
    return place


def _page(runs: Sequence[Run], plots_folder: Path) -> str:
    names, summaries = labels(runs), [summarise(run) for run in runs]
    tasks = list(dict.fromkeys(run.task for run in runs))
    each, several = list(zip(names, runs, strict=True)), len(runs) > 1
    told = [(name, story) for name, run in each for story in stories(run.config, run.rows)]
    lead, notes = _opening(names, runs, summaries)
    return html.render(
        "report.html.j2",
        title=f"{len(runs)} runs on {', '.join(tasks)}" if several else f"{names[0]} on {tasks[0]}",
        subtitle=_subtitle(runs),
        several=several,
        lead=lead,
        notes=notes,
        tiles=[] if several else content.tiles(summaries[0]),
        results=content.results(names, summaries, _colours(runs)),
        seeds=content.seeds(names, summaries),
        findings=_findings(names, runs, summaries),
        stories=content.stories_of_divergence(told, name_runs=several),
        figures=[_figures(task, runs, plots_folder, several=len(tasks) > 1) for task in tasks],
        speed=content.speed(names, runs),
        differences=content.differences(names, runs),
        settings=[content.settings(name, run) for name, run in each],
    )


def _findings(names: Sequence[str], runs: Sequence[Run], summaries: Sequence[Summary]) -> list[tuple[str, Finding]]:
    return [
        (name, finding)
        for name, run, summary in zip(names, runs, summaries, strict=True)
        for finding in diagnose(run, summary)
    ]


def _opening(names: Sequence[str], runs: Sequence[Run], summaries: Sequence[Summary]) -> tuple[str, Sequence[str]]:
    """The first sentences, and the notes below them."""
    if len(runs) == 1:
        notes = [resolution(runs[0])] if runs[0].rows else []
        notes += [f"{text[:1].upper()}{text[1:]}." for text in runs[0].config.get("fits", [])]
        return headline(runs[0], summaries[0]), notes
    if len({run.task for run in runs}) > 1:
        return f"{len(runs)} runs on different tasks: scores compare only within a task.", []
    each = [f"{name}: {headline(run, s)}" for name, run, s in zip(names, runs, summaries, strict=True)]
    return comparison(names, summaries), each


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


def _figures(task: str, runs: Sequence[Run], folder: Path, *, several: bool) -> tuple[str, list[Picture]]:
    """The figures of one task under their heading, and as files."""
    chosen = [run for run in runs if run.task == task]
    prefix = re.sub(r"[^\w.-]+", "-", task) + "-" if several else ""
    pictures = []
    for plot in PLOTS:
        image = png(partial(plot.draw, chosen))
        if image is not None:
            write_atomically(folder / f"{prefix}{plot.name}.png", image)
            pictures.append(Picture(plot.title, base64.b64encode(image).decode(), plot.reading))
    return task if several else "Curves", pictures
