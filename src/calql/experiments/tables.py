"""A table without a format, and its three forms: Markdown, LaTeX and a sortable card of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from calql.results import html
from calql.results.html import Row, TableCell

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "→": r"$\to$", "≠": r"$\neq$", "±": r"$\pm$", "−": "$-$", "·": r"$\cdot$", "′": "$'$",
}  # fmt: skip

PAGE_ROWS = 45  # of a LaTeX table: more do not fit a page
WRAPPED = 40  # characters that a LaTeX column takes without wrapping


@dataclass(frozen=True)
class Table:
    """Head, body, and a foot that stays below the body however it is sorted."""

    name: str  # of its files and anchors
    title: str
    heads: Sequence[str]
    body: Sequence[Row]
    foot: Sequence[Row] = field(default=())
    note: str = ""


def markdown(table: Table) -> str:
    lines = [[_markdown_text(head) for head in table.heads], ["---"] * len(table.heads)]
    lines += [[_two_lines(cell, _markdown_text, "<br>") for cell in row] for row in (*table.body, *table.foot)]
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    note = f"\n\n{_markdown_text(table.note)}" if table.note else ""
    return f"## {_markdown_text(table.title)}\n\n{rows}{note}\n"


def latex(table: Table) -> str:
    """Floating tables of plain LaTeX, one for each page: nothing to load, every special character escaped."""
    starts = range(0, len(table.body) or 1, PAGE_ROWS)
    return "\n".join(_latex_page(table, start, last=start == starts[-1]) for start in starts)


def _latex_page(table: Table, start: int, *, last: bool) -> str:
    columns = "".join(_latex_column(table, place) for place in range(len(table.heads)))
    parts = [
        _latex_rows([[TableCell(head) for head in table.heads]]),
        _latex_rows(table.body[start : start + PAGE_ROWS]),
    ]
    parts += [_latex_rows(table.foot)] if last else []
    caption = f"{table.title}, continued" if start else f"{table.title}. {table.note}".strip()
    return "\n".join(
        (
            r"\begin{table}", r"\centering", r"\scriptsize", rf"\begin{{tabular}}{{{columns}}}", r"\hline",
            "\n\\hline\n".join(part for part in parts if part), r"\hline", r"\end{tabular}",
            rf"\caption{{{latex_text(caption)}}}", rf"\label{{tab:{table.name}{start or ''}}}", r"\end{table}",
        )
    ) + "\n"  # fmt: skip


def _latex_column(table: Table, place: int) -> str:
    """Long texts are wrapped."""
    long = any(len(row[place].text) > WRAPPED for row in table.body)
    return "p{4cm}" if long else "c" if place else "l"


def card(table: Table) -> html.Card:
    """For the page: sortable, columns of words from the left."""
    words = [_is_words(table, place) for place in range(len(table.heads))]
    heads = [TableCell(name, css="words" if here else "") for name, here in zip(table.heads, words, strict=True)]
    body, foot = ([_html_row(row, words) for row in rows] for rows in (table.body, table.foot))
    return html.Card(html.Grid(heads, body, foot, sortable=True), table.title, table.note, table.name)


def _is_words(table: Table, place: int) -> bool:
    """A column without a number reads from the left."""
    return all(row[place].value is None for row in (*table.body, *table.foot))


def latex_text(text: str) -> str:
    return re.sub("|".join(map(re.escape, LATEX)), lambda found: LATEX[found[0]], text)


def _markdown_text(text: str) -> str:
    """Nothing of a text is markup."""
    return re.sub(r"([\\|*_`])", r"\\\1", text).replace("<", "&lt;").replace("\n", " ")


def _latex_rows(rows: Iterable[Row]) -> str:
    return "\n".join(" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in rows)


def _latex_cell(cell: TableCell) -> str:
    stacked = _two_lines(cell, latex_text, r"\\")
    return rf"\shortstack{{{stacked}}}" if cell.below else stacked


def _two_lines(cell: TableCell, write: Callable[[str], str], between: str) -> str:
    return between.join(write(text) for text in (cell.text, cell.below) if text)


def _html_row(row: Row, words: Sequence[bool]) -> Row:
    return [
        replace(
            cell,
            value=cell.value if isinstance(cell.value, str | None) else f"{cell.value:.6g}",
            css=f"{cell.css} words".strip() if here else cell.css,
        )
        for cell, here in zip(row, words, strict=True)
    ]
