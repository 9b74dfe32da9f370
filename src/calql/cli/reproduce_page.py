"""calql reproduce page: all results on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calql.cli.parse import parse
from calql.system.options import Checked

NAME = "page"
TABLE = "table.csv"


@dataclass(frozen=True)
class PageOptions(Checked):
    """Gather runs and tables into one tidy table, and write from it what each cell says, the paper's claims as checks
    and curves through the switch.

    Runs may be sweeps, and may still be going on.
    """

    sources: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Run folders, tables of calql reproduce, or folders that hold some."""
    out: str = "runs/page"
    """The folder of the fragments of Markdown and the pictures."""
    table: str | None = None
    """Where the tidy table goes (default: table.csv in that folder)."""


def page(words: Sequence[str]) -> int:
    options = parse(PageOptions, words, command=f"reproduce {NAME}")
    from calql.experiments.analysis.gather import gather
    from calql.experiments.pages.results import read_difficulties, read_older, write_page

    places, out = [Path(source) for source in options.sources], Path(options.out)
    table = gather(places, Path(options.table) if options.table else out / TABLE)
    for path in (table, *write_page(table, out, read_older(places), read_difficulties(places))):
        print(path)
    return 0
