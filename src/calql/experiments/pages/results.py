"""All results on one page: every task of the paper, claims as checks, and curves through the switch for each domain.

Written as fragments of Markdown and as pictures, which `docs/results.md` puts together; made from one tidy table alone.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calql.experiments import difficulty, tables
from calql.experiments.analysis.claims import NOT_RUN, Finding, find_claims
from calql.experiments.analysis.comparison import Key
from calql.experiments.analysis.evaluations import Result, read_results
from calql.experiments.analysis.facts import Facts, facts_of
from calql.experiments.analysis.verdicts import Verdict, judge
from calql.experiments.difficulty import Difficulty
from calql.experiments.names import method_name, method_place
from calql.experiments.pages.results_figures import beside_authors, best_cell, domain_sheets
from calql.experiments.paper.claims import PAIR
from calql.experiments.paper.figures import AUTHORS, TASKS
from calql.experiments.paper.numbers import Number, Published, printed
from calql.experiments.tables import Table
from calql.results import figures
from calql.results.html import TableCell
from calql.results.metrics import write_atomically
from calql.results.statistics import Estimate, Floats

OLDER = "older.csv"  # how a commit or the place of rows begins, and the correction that these were made before
GLUE = "\u00a0"  # a space at which no line is broken
MARK = "†"  # behind what was made before a correction
JUDGED: tuple[Number, ...] = ("after", "regret")


@dataclass(frozen=True)
class Shown:
    """One line of the table of all tasks: what was run, if anything, beside the paper's."""

    task: str
    method: str
    cell: Facts | None
    paper: Published | None
    verdict: Verdict
    begun: bool = False  # there are rows, but none of fine-tuning yet


def read_older(places: Sequence[Path]) -> dict[str, str]:
    """What is older than a correction, from a file of that name beside the results."""
    found: dict[str, str] = {}
    for path in (place / OLDER for place in places if (place / OLDER).is_file()):
        with path.open(newline="", encoding="utf-8") as file:
            found |= {row["of"]: row["before"] for row in csv.DictReader(file)}
    return found


def read_difficulties(places: Sequence[Path]) -> list[Difficulty]:
    """What `calql data difficulty` measured, wherever it lies below the places; tasks in their order."""
    files = [path for place in places if place.is_dir() for path in sorted(place.rglob(difficulty.FILE))]
    found = [each for path in files for each in difficulty.read(path) if each.task in TASKS]
    return sorted(found, key=lambda each: TASKS.index(each.task))


def write_page(
    table: Path, out: Path, older: Mapping[str, str] = {}, measured: Sequence[Difficulty] = ()
) -> list[Path]:
    """Every fragment and picture; gives back what was written."""
    results = read_results(table)
    cells = cells_of(results, older)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for made in page_tables(results, cells, measured):
        written.append(out / f"{made.name}.md")
        write_atomically(written[-1], body(made))
    return written + [figures.save_svg(sheet, out) for sheet in (*domain_sheets(cells), *beside_authors(cells))]


def page_tables(results: Sequence[Result], cells: Sequence[Facts], measured: Sequence[Difficulty]) -> list[Table]:
    """By the names of their fragments."""
    begun = {result.key for result in results}
    shown = [_shown(task, method, cells, begun) for task in TASKS for method in PAIR]
    found = find_claims(cells, TASKS)
    made = [all_tasks(shown), at_switch(shown), claims(found), other_methods(cells), sources(cells)]
    return [*made, difficulty.table(measured)]


def cells_of(results: Sequence[Result], older: Mapping[str, str]) -> list[Facts]:
    made = ((result, _made_before(result, older)) for result in results)
    return [cell for result, before in made if (cell := facts_of(result, before)) is not None]


def _made_before(result: Result, older: Mapping[str, str]) -> str:
    told = result.provenance["commit"], result.provenance["rows"]
    return next((words for start, words in older.items() if any(text.startswith(start) for text in told)), "")


def _shown(task: str, method: str, cells: Sequence[Facts], begun: Collection[Key]) -> Shown:
    """The best cell of a method on a task as it is, without a variant."""
    cell, paper = best_cell(task, method, cells), printed(task, method)
    ours = {} if cell is None else {n: e for n in JUDGED if (e := cell.estimate(n)) is not None}
    theirs = {} if paper is None else {n: v for n in ("before", *JUDGED) if (v := getattr(paper, n)) is not None}
    result = None if cell is None else cell.result
    verdict = judge(result, None, ours, theirs, JUDGED, "" if cell is None else cell.older)
    return Shown(task, method, cell, paper, verdict, begun=(task, method, "") in begun)


def all_tasks(shown: Sequence[Shown]) -> Table:
    """One line a task; below ours the paper's."""
    heads = ["task", "updates + steps, seeds"]
    heads += [f"{method_name(method)} {what}" for method in PAIR for what in ("before → after", "regret", "verdict")]
    by_task: dict[str, list[Shown]] = {}
    for each in shown:
        by_task.setdefault(each.task, []).append(each)
    body = [[TableCell(task), _lengths(pair), *_beside(pair[0]), *_beside(pair[1])] for task, pair in by_task.items()]
    note = (
        "Scores out of 100, after and regret with the 95% bootstrap interval of the mean over seeds. Below updates + "
        "steps their share of the paper's. The verdict is on after and regret. "
        f"{MARK}: made before a correction, which decides nothing."
    )
    return Table("tasks", "All tasks", heads, body, note=note)


def _lengths(pair: Sequence[Shown]) -> TableCell:
    """What was run, once where both methods have the same; below it, how much that is of the paper's."""
    ran = [_run(each) for each in pair]
    shares = [_shares(each.cell) for each in pair if each.cell is not None]
    seeds = [f"{len(each.cell.result.run.seeds)} seeds" for each in pair if each.cell is not None]
    return TableCell(_whole(ran), ", ".join(_whole(told) for told in (shares, seeds) if told))


def _run(each: Shown) -> str:
    if each.cell is None:
        return "begun, still offline" if each.begun else "not run"
    return _length(each.cell)


def _whole(told: Sequence[str]) -> str:
    """What several say, once each, in parts that are not broken into lines."""
    return " / ".join(dict.fromkeys(text.replace(" ", GLUE) for text in told))


def _beside(each: Shown) -> list[TableCell]:
    """Scores, regret and verdict; below them the paper's."""
    paper, cell = each.paper, each.cell
    theirs = "" if paper is None else f"paper {_hundred(paper.before)} → {_hundred(paper.after)}".replace(" ", GLUE)
    regret = "" if paper is None or paper.regret is None else f"paper{GLUE}{paper.regret:.2f}"
    if cell is None:
        return [TableCell("-" if theirs else "", theirs), TableCell("-" if regret else "", regret), TableCell("")]
    before = cell.estimate("before")
    scores = f"{_hundred(before.value) if before else ''} → {_estimate(cell.estimate('after'), hundredths=True)}"
    cost = _estimate(cell.estimate("regret"), hundredths=False)
    mark = f"{each.verdict.mark.words}{MARK}" if cell.older else str(each.verdict)
    return [
        TableCell(scores.strip().replace(" ", GLUE), theirs),
        TableCell(cost.replace(" ", GLUE), regret),
        TableCell(mark),
    ]


def at_switch(shown: Sequence[Shown]) -> Table:
    heads = ["task", "", "unlearning depth", "recovery", "average Q", "return-to-go", "bound rate", "minutes"]
    note = (
        "Depth: the worst online score less the score at the switch. Average Q, the return-to-go of the same logged "
        "pairs and the bound rate are at the switch, ± standard deviation over seeds. Minutes: of wall-clock time for "
        "all seeds of the cell, where they were noted."
    )
    body = [_switch_line(each, each.cell) for each in shown if each.cell is not None]
    return Table("switch", "At the switch", heads, body, note=note)


def _switch_line(each: Shown, cell: Facts) -> list[TableCell]:
    depth, q, minutes = cell.estimate("unlearning_depth"), cell.average_q, cell.result.minutes
    return [
        TableCell(each.task),
        TableCell(method_name(each.method) + (MARK if cell.older else "")),
        TableCell(_estimate(depth, hundredths=False)),
        TableCell(cell.recovery()),
        TableCell("" if q is None else f"{q.mean():.0f} ± {_spread(q):.0f}"),
        TableCell("" if cell.return_to_go is None else f"{cell.return_to_go.mean():.0f}"),
        TableCell("" if cell.bound_rate is None else f"{cell.bound_rate.mean():.2f} ± {_spread(cell.bound_rate):.2f}"),
        TableCell("" if minutes is None else f"{minutes:.0f}"),
    ]


def claims(found: Sequence[Finding]) -> Table:
    heads = ["the paper claims", "task", "rows say", "numbers"]
    body = [
        [
            TableCell(each.claim),
            TableCell(each.task),
            TableCell(each.answer.value + (MARK if each.older else "")),
            TableCell(each.why),
        ]
        for each in _gathered(found)
    ]
    note = f"Rules: src/calql/experiments/analysis/claims.py. {MARK}: from rows made before a correction."
    return Table("claims", "Claims as checks", heads, body, note=note)


def _gathered(found: Sequence[Finding]) -> list[Finding]:
    """Claim by claim; the tasks on which nothing was run together at its end."""
    lines: list[Finding] = []
    for claim in dict.fromkeys(each.claim for each in found):
        here = [each for each in found if each.claim == claim]
        waiting = [each for each in here if each.why == NOT_RUN]
        lines += [each for each in here if each.why != NOT_RUN]
        if waiting:
            lines.append(replace(waiting[0], task=", ".join(each.task for each in waiting)))
    return lines


def other_methods(cells: Sequence[Facts]) -> Table:
    """Cells of other methods and of variants, where there are any; the paper's beside them."""
    heads = ["task", "method", "updates + steps", "before", "after", "regret", "paper", "its regret"]
    best: dict[tuple[str, str, str], Facts] = {}
    for cell in cells:
        task, method, variant = key = cell.result.key
        wanted = task in TASKS and (method not in PAIR or variant) and variant != AUTHORS
        if wanted and (key not in best or cell.rank > best[key].rank):
            best[key] = cell
    order = sorted(best, key=lambda key: (TASKS.index(key[0]), method_place(key[1]), key))
    return Table("methods", "Other methods", heads, [_other_line(best[key]) for key in order])


def _other_line(cell: Facts) -> list[TableCell]:
    task, method, variant = cell.result.key
    paper = printed(task, method)
    known = paper is not None and not variant
    theirs = f"{_hundred(paper.before)} → {_hundred(paper.after)}".strip() if known and paper else ""
    return [
        TableCell(task),
        TableCell(f"{method_name(method)} {variant}".strip() + (MARK if cell.older else "")),
        TableCell(_length(cell)),
        *(TableCell(_estimate(cell.estimate(name), hundredths=name != "regret")) for name in ("before", *JUDGED)),
        TableCell("" if theirs == "→" else theirs),
        TableCell(f"{paper.regret:.2f}" if known and paper and paper.regret is not None else ""),
    ]


def sources(cells: Sequence[Facts]) -> Table:
    """Command, rows and commit of every cell that a table or figure of the page may show."""
    heads = ["task", "method", "rows", "commit", "made before", "command"]
    body = []
    for cell in cells:
        if cell.result.task in TASKS:
            task, method, variant = cell.result.key
            told = cell.result.provenance
            named = f"{method_name(method)} {variant}".strip()
            texts = (task, named, told["rows"], told["commit"][:7], cell.older, told["command"])
            body.append([TableCell(text) for text in texts])
    return Table("sources", "Commands and rows", heads, body)


def body(table: Table) -> str:
    """A table of Markdown without its title, which the page has."""
    return tables.markdown(table).split("\n", 2)[2]


def _length(cell: Facts) -> str:
    run = cell.result.run
    told = f"{_short(run.offline_updates)} + {_short(run.online_steps)}"
    return told if cell.cut_at is None else f"{told} (cut)"


def _shares(cell: Facts) -> str:
    """Of the paper's updates and steps."""
    run = cell.result.run
    pairs = (run.offline_updates, cell.result.paper_offline), (run.online_steps, cell.result.paper_online)
    return ", ".join(
        f"{ours / paper:.0%}" if ours >= 0.1 * paper else f"{ours / paper:.1%}" for ours, paper in pairs if paper
    )


def _short(steps: int) -> str:
    return f"{steps / 1e6:.3g}M" if steps >= 1_000_000 else f"{steps / 1e3:.3g}K"


def _hundred(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f}"


def _estimate(found: Estimate | None, *, hundredths: bool) -> str:
    if found is None:
        return ""
    times, digits = (100.0, 0) if hundredths else (1.0, 2)
    value, *ends = (f"{times * each:.{digits}f}" for each in (found.value, found.low, found.high) if each is not None)
    return f"{value} [{ends[0]}, {ends[1]}]" if ends else value


def _spread(values: Floats) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
