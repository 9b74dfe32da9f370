"""calql tasks, calql methods."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from calql.system.errors import UserError


def run(command: str, words: Sequence[str]) -> int:
    if words:
        raise UserError(f"'{words[0]}' is one word too many", where=f"calql {command}", mend="it takes no options")
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(_tasks() if command == "tasks" else _methods())
    return 0


def _tasks() -> Table:
    from calql.domains.registry import all_tasks

    table = Table(box=None, header_style="bold")
    table.add_column("task", no_wrap=True)
    for heading in ("offline updates", "online steps", "episode"):
        table.add_column(heading, justify="right")
    table.add_column("what")
    for task in all_tasks().values():
        protocol = task.protocol
        table.add_row(
            task.name,
            f"{protocol.offline_updates:,}",
            f"{protocol.online_steps:,}",
            str(task.episode_limit),
            task.summary,
        )
    return table


def _methods() -> Table:
    from calql.methods import METHODS

    table = Table("method", "what", box=None, header_style="bold")
    for name, entry in METHODS.items():
        table.add_row(name, entry.summary)
    return table
