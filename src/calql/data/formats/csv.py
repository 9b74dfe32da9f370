"""Tables as text: a line of names, then one line a step."""

from __future__ import annotations

import csv as lines
from pathlib import Path
from typing import Any

from calql.data.arrow_tables import arrays_of
from calql.data.assemble import assemble
from calql.data.columns import OnProblem, stop
from calql.data.dataset import Dataset
from calql.data.flat import flat_recording, wanted
from calql.data.formats.base import Format, begins
from calql.data.reading import AS_IT_IS, Reading
from calql.system.archives import AGAIN, require_room
from calql.system.errors import UserError
from calql.system.extras import Extra

pa = Extra("pyarrow", "a table of text")
csv = Extra("pyarrow.csv", "a table of text")

LOOK = 2**16  # bytes in which the first line must end
SEPARATORS = (",", "\t", ";")
JSON = ("{", "[")  # how its text begins: commas and all, it is no table
LARGEST = 4  # bytes in memory for each in the file: "0," becomes eight


def read_csv(path: Path, reading: Reading = AS_IT_IS, on_problem: OnProblem = stop) -> Dataset:
    """Numbers as they are written, separated as the first line is."""
    separator, names = _header(path)
    require_room(LARGEST * path.stat().st_size, path)
    chosen = wanted(names, reading, str(path))
    table = _table(path, separator, chosen)
    return assemble(flat_recording(arrays_of(table, str(path)), reading, str(path)), reading, str(path), on_problem)


def _table(path: Path, separator: str, chosen: list[str]) -> Any:
    try:
        with path.open("rb") as file:  # as a file, so that its name says nothing about compression
            return csv.read_csv(
                file,
                parse_options=csv.ParseOptions(delimiter=separator),
                convert_options=csv.ConvertOptions(include_columns=chosen, strings_can_be_null=True),
            )
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        text = str(error).partition("\n")[0][:200]
        raise UserError(f"is not a whole table of text ({text})", where=str(path), mend=AGAIN) from None


def _header(path: Path) -> tuple[str, list[str]]:
    found = _first_line(begins(path, LOOK))
    if found is None:
        raise UserError("does not begin with a line of column names", where=str(path), mend="separate them with commas")
    twice = sorted({name for name in found[1] if found[1].count(name) > 1})
    if twice:
        raise UserError(f"two columns are called '{twice[0]}'", where=str(path), mend="rename one of them")
    return found


def _first_line(content: bytes) -> tuple[str, list[str]] | None:
    """The separator and the names, where there are several and a second line has as many."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(content) - 4:  # not just a letter cut in two at the end
            return None
        text = content[: error.start].decode("utf-8-sig")
    rows = text.splitlines()
    if not rows or rows[0][:1] in JSON or not all(c.isprintable() or c == "\t" for c in rows[0]):
        return None
    for separator in SEPARATORS:
        names = next(lines.reader([rows[0]], delimiter=separator))
        if len(names) > 1 and any(names) and not any(_is_number(name) for name in names):  # one may have no name
            return separator, names
    return None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


FORMAT = Format(
    summary="table of text (CSV, TSV)",
    sniff=lambda path: _first_line(begins(path, LOOK)) is not None,
    read=read_csv,
    suffixes=(".csv", ".tsv"),
    general=True,
)
