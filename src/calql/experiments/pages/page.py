"""From the tidy table to files for people: tables.md, tables.tex, figures as PNG and SVG, and one page, report.html.

Nothing else is read but the slices of fig-idea, which lie beside the table. The page loads nothing: the script that
draws is part of it, and its content policy forbids requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calql.experiments import tables
from calql.experiments.analysis.comparison import Entry, compare
from calql.experiments.analysis.evaluations import Result, read_results
from calql.experiments.analysis.scoreboard import listing
from calql.experiments.analysis.verdicts import Mark
from calql.experiments.cells import CellStatus
from calql.experiments.names import method_name
from calql.experiments.pages.renderings import Material, Rendering, find_rendering
from calql.experiments.paper.matrices import find_experiment
from calql.experiments.tables import Table
from calql.results import charts, figures, html, interactive
from calql.results.html import TableCell
from calql.results.metrics import write_atomically
from calql.results.panels import Sheet
from calql.system.run_files import REPORT

TEMPLATES = Path(__file__).parent / "templates"


def render(experiment: str, table: Path, out: Path, *, status: Sequence[CellStatus]) -> Path:
    """Everything made of an experiment's tidy table, in a folder; gives back where the page is."""
    rendering = find_rendering(experiment)
    results = read_results(table)
    made = _make(rendering, _material(rendering, results, status, table.parent))
    out.mkdir(parents=True, exist_ok=True)
    title = find_experiment(experiment).title
    write_atomically(out / "tables.md", _markdown(title, made))
    write_atomically(out / "tables.tex", "\n".join(map(tables.latex, made.tables)))
    for sheet in made.sheets:
        figures.save(sheet, out)
    sources = list(_where_cells_stand(results, status))
    write_atomically(out / REPORT, _page(title, f"calql reproduce {experiment}", made, sources))
    return out / REPORT


@dataclass(frozen=True)
class Made:
    """What an experiment comes to, before it is written."""

    counts: str  # of the verdicts, in a sentence
    boards: Sequence[Table]  # the paper's tables
    cells: Table  # every cell in a line
    sheets: Sequence[Sheet]

    @property
    def tables(self) -> list[Table]:
        return [*self.boards, self.cells]


def _make(rendering: Rendering, material: Material) -> Made:
    hundredths = material.paper is not None and material.paper.hundredths
    return Made(
        counts=_counts(material.entries),
        boards=[table for make in rendering.tables if (table := make(material)) is not None],
        cells=listing(material.entries, hundredths=hundredths),
        sheets=[sheet for make in rendering.sheets if (sheet := make(material)) is not None],
    )


def _material(rendering: Rendering, results: Sequence[Result], status: Sequence[CellStatus], folder: Path) -> Material:
    paper = rendering.paper()
    entries = compare(results, status, paper, rendering.judged, whole=rendering.whole)
    places = {(entry.task, entry.method, entry.variant): place for place, entry in enumerate(entries)}
    finished = sorted((result for result in results if result.finished), key=lambda result: places[result.key])
    return Material(finished, entries, folder, paper)


def _markdown(title: str, made: Made) -> str:
    return "\n".join([f"# {title}\n", f"{made.counts}\n", *map(tables.markdown, made.tables)])


def _page(title: str, subtitle: str, made: Made, sources: Sequence[Table]) -> str:
    return html.render(
        "experiment.html.j2",
        folder=TEMPLATES,
        title=title,
        subtitle=subtitle,
        lead=made.counts,
        boards=[tables.card(board) for board in made.boards],
        script=interactive.script(),
        figures=_figures(made.sheets),
        cells=tables.card(made.cells),
        sources=[tables.card(source) for source in sources],
    )


def _figures(sheets: Sequence[Sheet]) -> list[charts.Drawn]:
    most = charts.points_a_line(sheets)
    return [charts.drawn(replace(sheet, caption=f"{sheet.caption} {_files(sheet)}"), most=most) for sheet in sheets]


def _files(sheet: Sheet) -> str:
    return f"Files: {sheet.name}.png, {sheet.name}.svg. Press a name to hide it, twice to see it alone."


def _counts(entries: Sequence[Entry]) -> str:
    """How many cells have which mark, in one sentence."""
    counts = Counter(entry.verdict.mark for entry in entries)
    said = ", ".join(f"{mark.words}: {counts[mark]}" for mark in Mark if counts[mark])
    return f"Of {len(entries)} cells, {said}."


def _where_cells_stand(results: Sequence[Result], status: Sequence[CellStatus]) -> Iterable[Table]:
    """The state of every cell of this run, and of those with results the code, machine and data behind them."""
    stands = [
        [
            TableCell(each.task), TableCell(method_name(each.method)), TableCell(each.variant),
            TableCell(each.state, css=f"mark {each.state}"),
            TableCell(f"{each.seconds / 60:.1f}" if each.seconds else "", value=each.seconds or None),
            TableCell("; ".join(text for text in (each.reason, each.shortened) if text), css="text"),
        ]
        for each in status
    ]  # fmt: skip
    if stands:
        yield Table("states", "Cells", ["task", "method", "variant", "state", "minutes", "remarks"], stands)
    sources = [
        [TableCell(each.cell), *(TableCell(text, css="text") for text in each.provenance.values())] for each in results
    ]
    if sources:
        heads = ["cell", *(name.replace("_", " ") for name in results[0].provenance)]
        yield Table("provenance", "Code, machine and data", heads, sources)
