"""calql report RUN..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from calql.cli.parse import parse
from calql.results import logs_alone, logs_tables, read_runs, result_table, summarise
from calql.system.errors import shown


@dataclass(frozen=True)
class ReportOptions:
    """Write one self-contained page about a run, or about several compared."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Run folders."""
    out: str | None = None
    """The page to write (default: report.html in the run folder; for several runs, here)."""


def run(command: str, words: Sequence[str]) -> int:
    from calql.results.report import write_report

    options = parse(ReportOptions, words, command=command)
    folders = [Path(name) for name in options.runs]
    console = Console()
    runs = [run for folder in folders for run in read_runs(folder)]
    for each in (run for run in runs if logs_alone.assessed(run.rows)):
        console.print(logs_tables.logs_table(each.rows))
    played = [summarise(run) for run in runs if not logs_alone.assessed(run.rows)]
    if played:
        console.print(result_table(played))
    written = write_report(folders, None if options.out is None else Path(options.out))
    console.print(shown(f"report: {written}"), soft_wrap=True, markup=False)
    return 0
