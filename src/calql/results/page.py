"""The page of a report, from runs as they are read: the same for a finished run and for one that goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from calql.results import charts, content, films, html, interactive, logs_tables, maps
from calql.results.diagnosis import Finding, diagnose
from calql.results.divergence import stories
from calql.results.headline import comparison, headline, resolution
from calql.results.logs_alone import SAME_LOGS, WARNING, assessed
from calql.results.panels import BAND, Sheet
from calql.results.plots import sheets
from calql.results.runs import RecordedRun, labels
from calql.results.summary import Summary, summarise
from calql.system.errors import UserError, shown

FIRST = ("score", "values", "q-values")  # what is seen first: the dip, and the values behind it
READING = f"{BAND} Thin: each seed. Press a name to hide it, twice to see it alone."
Found = TypeVar("Found")


@dataclass(frozen=True)
class Figures:
    """The charts of one task: those that come first, side by side, and the others."""

    heading: str
    first: charts.Drawn | None
    seeds: Sequence[interactive.Key]
    rest: Sequence[charts.Drawn]


@dataclass(frozen=True)
class Material:
    """Everything that a page is made of; the sheets are also drawn as files."""

    runs: Sequence[RecordedRun]
    sheets: dict[str, list[Sheet]]  # by task

    @staticmethod
    def of(runs: Sequence[RecordedRun]) -> Material:
        tasks = dict.fromkeys(run.task for run in runs)
        return Material(runs, {task: sheets([run for run in runs if run.task == task]) for task in tasks})


def report_page(material: Material, page: Path | None, *, live: bool = False) -> str:
    """A whole page. `page` is where it will lie; one that is `live` asks who serves it for what has changed."""
    runs = material.runs
    names, summaries = labels(runs), [summarise(run) for run in runs]
    tasks, several = list(material.sheets), len(runs) > 1
    lead, notes = opening(names, runs, summaries)
    seen, moving, damaged = _pictures(names, runs, page)
    told = [(name, story) for name, run in zip(names, runs, strict=True) for story in stories(run.config, run.rows)]
    return html.render(
        "report.html.j2",
        title=title_of(names, runs, tasks),
        subtitle=subtitle_of(runs),
        several=several,
        lead=lead,
        notes=notes,
        tiles=[] if several else content.tiles(summaries[0]),
        **_results(names, runs, summaries),
        findings=[*damaged, *_findings(names, runs, summaries)],
        stories=content.stories_of_divergence(told, name_runs=several),
        figures=_figures(material),
        maps=seen,
        films=moving,
        speed=content.speed(names, runs),
        differences=content.differences(names, runs),
        settings=[content.settings(name, run) for name, run in zip(names, runs, strict=True)],
        script=interactive.script(),
        live=live,
    )


def _results(names: Sequence[str], runs: Sequence[RecordedRun], summaries: Sequence[Summary]) -> dict[str, Any]:
    """Scores; of runs that nobody could play, what their logs say."""
    if all(assessed(run.rows) for run in runs):
        return {"results": logs_tables.results(names, runs, _colours(runs)), "seeds": logs_tables.seeds(names, runs)}
    return {"results": content.results(names, summaries, _colours(runs)), "seeds": content.seeds(names, summaries)}


def _figures(material: Material) -> list[Figures]:
    everything = [sheet for each in material.sheets.values() for sheet in each]
    most, several = charts.points_a_line(everything), len(material.sheets) > 1
    found = []
    for place, (task, own) in enumerate(material.sheets.items()):
        prefix = f"task-{place}-" if several else ""
        first = [sheet for sheet in own if sheet.name in FIRST]
        rest = [charts.drawn(sheet, prefix=prefix, most=most) for sheet in own if sheet.name not in FIRST]
        chosen = charts.seed_keys([panel for sheet in own for panel in sheet.panels])
        found.append(Figures(task if several else "", _together(first, prefix, most), chosen, rest))
    return found


def _together(first: Sequence[Sheet], prefix: str, most: int) -> charts.Drawn | None:
    """Several sheets side by side, under one legend."""
    if not first:
        return None
    panels = [panel for sheet in first for panel in sheet.panels]
    title = "On the logs alone" if any(sheet.name == "values" for sheet in first) else "Through the switch"
    sheet = Sheet("first", title, " ".join([READING, *(each.caption for each in first)]), panels, 2)
    return charts.drawn(sheet, prefix=prefix, most=most)


Named = tuple[str, Finding]


def _pictures(
    names: Sequence[str], runs: Sequence[RecordedRun], page: Path | None
) -> tuple[list[maps.Drawn], list[films.Shown], list[Named]]:
    """Maps and films of every run folder once; a file that is damaged is a finding."""
    seen: list[maps.Drawn] = []
    moving: list[films.Shown] = []
    damaged: list[Named] = []
    budget = films.BUDGET
    folders = {run.folder: (name, run) for name, run in reversed(list(zip(names, runs, strict=True)))}
    for place, (folder, (name, run)) in enumerate(reversed(folders.items())):
        found = _read(maps.read_maps, folder, name, damaged)
        if found is not None:
            seen.append(maps.drawn(found, run, name=name if len(folders) > 1 else "", prefix=f"run-{place}-"))
        listed = _read(films.read_films, folder, name, damaged)
        if listed:
            own, budget = films.films_of(run, listed, page, budget)
            moving += own
    return seen, moving, damaged


def _read(read: Callable[[Path], Found], folder: Path, name: str, damaged: list[Named]) -> Found | None:
    try:
        return read(folder)
    except UserError as error:
        damaged.append((name, Finding("notice", "A file of the run cannot be used", f"{error}.")))
        return None


def title_of(names: Sequence[str], runs: Sequence[RecordedRun], tasks: Sequence[str]) -> str:
    where = ", ".join(tasks)
    if len(runs) == 1:
        return f"{names[0]} on {where}"
    if len(runs) <= 3 and len(tasks) == 1:
        return f"{' against '.join(names)} on {where}"
    return f"{len(runs)} runs on {where}"


def subtitle_of(runs: Sequence[RecordedRun]) -> str:
    plans = {(run.offline_updates, run.online_steps, len(run.seeds)) for run in runs}
    unfinished = sum(not run.finished for run in runs)
    state = "finished" if not unfinished else "not finished: numbers so far"
    if len(runs) > 1 and unfinished:
        state = f"{unfinished} of {len(runs)} unfinished"
    if len(plans) > 1:
        return f"Comparison of {len(runs)} runs · {state}"
    ((offline, online, seeds),) = plans
    plan = [f"{offline:,} gradient steps offline"] if offline else []
    plan += [f"{online:,} environment steps online"] if online else []
    arms = [f"{run.method}: {shown(run.arm)}" for run in runs if run.arm and run.arm not in run.method]
    return " · ".join([*plan, f"{seeds} seed{'s' * (seeds != 1)}{' each' * (len(runs) > 1)}", state, *arms])


def opening(
    names: Sequence[str], runs: Sequence[RecordedRun], summaries: Sequence[Summary]
) -> tuple[str, Sequence[str]]:
    """The first sentences, and the notes below the results."""
    if len(runs) == 1:
        notes = [resolution(runs[0])] if runs[0].rows else []
        notes += [f"{text[:1].upper()}{text[1:]}." for text in runs[0].config.get("fits", [])]
        return headline(runs[0], summaries[0]), notes
    each = [f"{name}: {headline(run, s)}" for name, run, s in zip(names, runs, summaries, strict=True)]
    if len({run.task for run in runs}) > 1:
        return f"{len(runs)} runs on different tasks: scores compare only within a task.", each
    if all(assessed(run.rows) for run in runs):
        return f"{len(runs)} runs valued from the logs alone; {SAME_LOGS}.", [*each, WARNING]
    return comparison(names, summaries), each


def _findings(names: Sequence[str], runs: Sequence[RecordedRun], summaries: Sequence[Summary]) -> list[Named]:
    return [
        (name, finding)
        for name, run, summary in zip(names, runs, summaries, strict=True)
        for finding in diagnose(run, summary)
    ]


def _colours(runs: Sequence[RecordedRun]) -> list[int]:
    """The colour of each run: its place among the runs of its task, as in the figures."""
    return [[other for other in runs if other.task == run.task].index(run) for run in runs]


def summary_of(runs: Sequence[RecordedRun]) -> dict[str, Any]:
    """For JSON: of the one run in a folder, or of the arms in it by their names."""
    if not runs[0].arm:
        return summarise(runs[0]).as_dict() | logs_tables.as_dict(runs[0])
    return {"arms": {run.arm: summarise(run).as_dict() | logs_tables.as_dict(run) for run in runs}}
