"""From the tidy table to files for people: tables.md, tables.tex, figures as PNG and SVG, and one page, report.html.

Nothing else is read but the slices of fig-idea, which lie beside the table. The page loads nothing: plotly's script is
part of it, and its content policy forbids requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from calql.reproduce import figures, interactive, tables
from calql.reproduce.cells import CellStatus
from calql.reproduce.comparison import Entry, compare
from calql.reproduce.evaluations import Result, read_results
from calql.reproduce.experiments import find_experiment
from calql.reproduce.panels import Sheet
from calql.reproduce.paper import method_name
from calql.reproduce.renderings import Material, Rendering, find_rendering
from calql.reproduce.scoreboard import listing
from calql.reproduce.tables import Cell, Table
from calql.reproduce.verdicts import Mark
from calql.results import html
from calql.results.metrics import write_atomically

REPORT = "report.html"


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
    page = html.page(title, f"calql reproduce {experiment}", _parts(made, list(_where_cells_stand(results, status))))
    write_atomically(out / REPORT, page)
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


def _parts(made: Made, sources: Sequence[Table]) -> list[str]:
    nothing = '<div class="card">No cell has finished yet, so there is nothing to draw.</div>'
    return [
        f"<style>{_resource('report.css')}</style>",
        html.lead(made.counts),
        *(["<h2>Ours and the paper's</h2>"] if made.boards else []),
        *map(tables.html, made.boards),
        "<h2>Figures</h2>",
        interactive.script() if made.sheets else nothing,
        *map(_figure, made.sheets),
        "<h2>Every cell</h2>",
        tables.html(made.cells),
        *(["<h2>Where it comes from</h2>"] if sources else []),
        *map(tables.html, sources),
    ]


def _figure(sheet: Sheet) -> str:
    files = f"Files: {sheet.name}.png, {sheet.name}.svg. A click on a name hides it, two show it alone."
    return (
        f'<figure class="card"><h3>{escape(sheet.title)}</h3>{interactive.figure(sheet)}'
        f"<figcaption>{escape(sheet.caption)} {escape(files)}</figcaption></figure>"
    )


def _counts(entries: Sequence[Entry]) -> str:
    """How many cells have which mark, in one sentence."""
    counts = Counter(entry.verdict.mark for entry in entries)
    said = ", ".join(f"{mark.words}: {counts[mark]}" for mark in Mark if counts[mark])
    return f"Of {len(entries)} cells, {said}."


def _where_cells_stand(results: Sequence[Result], status: Sequence[CellStatus]) -> Iterable[Table]:
    """The state of every cell of this run, and of those with results the code, machine and data behind them."""
    stands = [
        [
            Cell(each.task), Cell(method_name(each.method)), Cell(each.variant),
            Cell(each.state, css=f"mark {each.state}"),
            Cell(f"{each.seconds / 60:.1f}" if each.seconds else "", value=each.seconds or None),
            Cell("; ".join(text for text in (each.reason, each.shortened) if text), css="text"),
        ]
        for each in status
    ]  # fmt: skip
    if stands:
        yield Table("states", "Cells", ["task", "method", "variant", "state", "minutes", "remarks"], stands)
    sources = [[Cell(each.cell), *(Cell(text, css="text") for text in each.provenance.values())] for each in results]
    if sources:
        heads = ["cell", *(name.replace("_", " ") for name in results[0].provenance)]
        yield Table("provenance", "Code, machine and data", heads, sources)


def _resource(name: str) -> str:
    return resources.files("calql.reproduce").joinpath(name).read_text(encoding="utf-8")
