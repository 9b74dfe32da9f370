"""calql report RUN..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from calql.cli.parse import parse
from calql.errors import shown
from calql.results import result_table, summarise


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
    console.print(result_table([summarise(folder) for folder in folders]))
    written = write_report(folders, None if options.out is None else Path(options.out))
    console.print(shown(f"report: {written}"), soft_wrap=True, markup=False)
    return 0
