"""calql tasks, calql methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from calql.system.errors import UserError, shown
from calql.system.registry import Registry

WIDTH = 120  # where there is no terminal
NAMES = 26  # letters of the longest name of a task, and one
ABOUT = (
    "offline: gradient steps on the data; online and episode: environment steps.",
    "Get data that are not here before a run: 'calql data download TASK' fetches the public original,",
    "'calql data build TASK' makes them by their recipe; *: from recordings or policies in --sources FOLDER.",
)


def run(command: str, words: Sequence[str]) -> int:
    if words:
        raise UserError(f"'{words[0]}' is one word too many", where=f"calql {command}", mend="it takes no options")
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    (_print_tasks if command == "tasks" else _print_methods)(console)
    return 0


def print_left_out(things: Registry[Any], console: Console) -> None:
    """What another package brings and a list does not show, in a line each, because it cannot be loaded."""
    for error in things.broken.values():
        console.print(shown(error.what), style="dim", markup=False, soft_wrap=True)


def _print_tasks(console: Console) -> None:
    """Two lines a task, also at 80 columns: its sizes and its data, and under them what it is."""
    from calql.domains.registry import DOMAINS, all_tasks
    from calql.runs.request import DEFAULT_TASK

    lines = [Text(_row("task", "offline", "online", "episode", "data"), style="bold")]
    for task in all_tasks().values():
        sizes = _count(task.protocol.offline_updates), _count(task.protocol.online_steps), str(task.episode_limit)
        lines.append(Text(_row(task.name, *sizes, _data(task.name))))
        default = " (the default)" if task.name == DEFAULT_TASK else ""
        lines.append(Text(f"  {task.summary}{default}", style="dim"))
    console.print(*lines, Text(), Text(" ".join(ABOUT)), sep="\n")
    print_left_out(DOMAINS, console)


def _row(name: str, offline: str, online: str, episode: str, data: str) -> str:
    return f"{name:<{NAMES}} {offline:>7} {online:>7} {episode:>7}  {data}"


def _data(name: str) -> str:
    """Whether its data are here, are made in seconds, or have to be built or downloaded first."""
    from calql.data.store import is_built
    from calql.domains.originals import has_original, originals
    from calql.domains.registry import DOMAINS, all_recipes, get_task

    if has_original(name) or is_built(name):
        return "here"
    if DOMAINS[get_task(name).domain].quick_data:
        return "made in seconds"
    recipe, known = all_recipes().get(name), originals().get(name)
    ways = ["download"] if known is not None and known.ready else []
    if recipe is not None:
        ways.append("build*" if recipe.needs else "build")
    return " or ".join(ways) or "its own"


def _count(number: int) -> str:
    """1,000,000 as 1M, 8,000 as 8K."""
    for size, letter in ((1_000_000, "M"), (1_000, "K")):
        if number >= size and number % (size // 10) == 0:
            return f"{number / size:g}{letter}"
    return f"{number:,}"


def _print_methods(console: Console) -> None:
    from calql.methods import METHODS

    table = Table("method", "what", box=None, header_style="bold")
    for name, entry in METHODS.loadable().items():
        table.add_row(name, entry.summary)
    console.print(table)
    print_left_out(METHODS, console)
