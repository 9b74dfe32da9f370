"""calql train --explain: every option with its value and where that comes from."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from calql.cli.help import in_words
from calql.runs.origins import DEFAULT, Resolved


def print_origins(resolved: Resolved, about: str, *notes: str) -> None:
    """A table, with what is not by default first."""
    console = Console(highlight=False)
    console.print(about, markup=False)
    for note in notes:
        console.print(note, markup=False)
    console.print(_table(resolved))


def _table(resolved: Resolved) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("option", no_wrap=True)
    table.add_column("value", overflow="fold", max_width=20)
    table.add_column("origin", overflow="fold")
    usual = [name for name, origin in resolved.origins.items() if origin == DEFAULT]
    values = resolved.values
    for name in [*(name for name in resolved.origins if name not in usual), *usual]:
        style = "dim" if name in usual else ""
        table.add_row(name.replace("_", "-"), in_words(values[name]), resolved.origins[name], style=style)
    return table
