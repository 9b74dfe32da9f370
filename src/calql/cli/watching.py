"""What a command shows of a run: what is being done, and tables at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from calql.results import Progress, Silent
from calql.results.live import Live
from calql.runs.life import Watching
from calql.runs.stops import Stops


@contextmanager
def watched(
    doing: str,
    stops: Stops,
    *,
    quiet: bool,
    live: Live | None = None,
    tensorboard: bool = False,
    wandb: bool = False,
) -> Iterator[Watching]:
    """A display that says at once what is being done, and leaves the terminal as it was whatever happens."""
    display = Silent() if quiet else Progress()
    begun = None if live is None else live.begun
    watching = Watching(display, tensorboard, wandb, stops=stops, begun=begun)
    say(watching, doing)
    try:
        yield watching
    finally:
        display.close()


def say(watching: Watching, doing: str) -> None:
    """What takes a while now, where somebody watches."""
    if isinstance(watching.display, Progress):
        watching.display.preparing(doing)


def print_table(table: Table, console: Console) -> None:
    """The caption by itself: a table as wide as the terminal would cut the last letter off its lines."""
    caption, table.caption = table.caption, None
    console.print(table)
    if caption is not None:
        console.print(caption, style="dim")
