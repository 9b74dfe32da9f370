"""calql tasks, calql methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calql.cli.parse import parse
from calql.cli.printing import print_trimmed
from calql.domains.base import Task
from calql.system.errors import shown
from calql.system.registry import Registry

WIDTH = 120  # where there is no terminal
NAMES = 26  # letters of the longest name of a task, and one
NAME = Annotated[str | None, tyro.conf.Positional]
ABOUT = (
    "offline: gradient steps on the data; online and episode: environment steps.",
    "Get data that are not here before a run: 'calql data download TASK' fetches the public original,",
    "'calql data build TASK' makes them by their recipe; *: from recordings or policies in --sources FOLDER.",
)


@dataclass(frozen=True)
class Listing:
    """List what there is, or one of it."""

    name: NAME = None
    """The one to show (default: all)."""


class TasksOptions(Listing):
    """List the tasks with their sizes and where their data are, or one of them."""


class MethodsOptions(Listing):
    """List the methods, or one of them."""


def run(command: str, words: Sequence[str]) -> int:
    kind: type[Listing] = TasksOptions if command == "tasks" else MethodsOptions
    name = parse(kind, words, command=command).name
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    (_print_tasks if command == "tasks" else _print_methods)(console, name)
    if name is not None:
        console.print(f"\nits options: calql train --{command.removesuffix('s')} {name} --help-all", markup=False)
    return 0


def print_left_out(things: Registry[Any], console: Console) -> None:
    """What another package brings and a list does not show, in a line each, because it cannot be loaded."""
    for error in things.broken.values():
        console.print(shown(error.what), style="dim", markup=False, soft_wrap=True)


def _print_tasks(console: Console, name: str | None) -> None:
    """Two lines a task, also at 80 columns: its sizes and its data, and under them what it is."""
    from calql.domains.registry import DOMAINS, all_tasks, get_task

    tasks = all_tasks().values() if name is None else [get_task(name)]
    head = Text(_row("task", "offline", "online", "episode", "data"), style="bold")
    console.print(head, *(line for task in tasks for line in _lines(task)), sep="\n")
    if name is None:
        console.print(Text(), Text(" ".join(ABOUT)), sep="\n")
        print_left_out(DOMAINS, console)


def _lines(task: Task) -> tuple[Text, Text]:
    from calql.runs.request import DEFAULT_TASK

    sizes = _count(task.protocol.offline_updates), _count(task.protocol.online_steps), str(task.episode_limit)
    default = " (the default)" if task.name == DEFAULT_TASK else ""
    return Text(_row(task.name, *sizes, _data(task.name))), Text(f"  {task.summary}{default}", style="dim")


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


def _print_methods(console: Console, name: str | None) -> None:
    from calql.methods import METHODS, method_entry

    table = Table("method", "what", box=None, header_style="bold")
    for each, entry in (METHODS.loadable() if name is None else {name: method_entry(name)}).items():
        table.add_row(each, entry.summary)
    print_trimmed(table, console)
    if name is None:
        print_left_out(METHODS, console)
