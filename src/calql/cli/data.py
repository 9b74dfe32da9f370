"""calql data: list, inspect, view, convert, build, download, certify, difficulty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from calql.cli.data_difficulty import DifficultyOptions, difficulty
from calql.cli.data_view import ViewOptions, view
from calql.cli.listing import print_left_out
from calql.cli.parse import parse, subcommand
from calql.cli.printing import print_trimmed
from calql.cli.reading import ReadingOptions
from calql.data import Dataset, Reading, check, describe, load, render, write
from calql.data.inspect import sentence
from calql.system.errors import UserError, shown
from calql.system.options import Checked, Count, CountOrZero, Processes


def inspect(file: str, task: str | None = None, env: str | None = None, reading: Reading = Reading()) -> int:
    """Print what a file or folder (or minari:ID) holds, and what is wrong with it.

    Bad values are listed rather than refused; only a file that cannot be read at all is an error. With a task or an
    environment, it is also compared with that, as `calql train` does.
    """
    found: list[UserError] = []
    dataset = load(file, reading, on_problem=found.append)
    limit: int | None = None
    warnings: list[str] = []
    if (task or env) and not found:
        limit, warnings = _compared(dataset, task, env, found.append)
    told = [sentence(f"{problem.what}; {problem.mend}") for problem in found]
    seen = describe(dataset, told, limit)
    print_trimmed(render(replace(seen, warnings=(*seen.warnings, *map(sentence, warnings)))), Console(soft_wrap=True))
    return 0


def _compared(
    dataset: Dataset, task: str | None, env: str | None, on_problem: Callable[[UserError], None]
) -> tuple[int, list[str]]:
    """The time limit of the environment, and what the comparison with it warns about."""
    from calql.runs.request import Choice, resolve_task

    chosen, _, _ = resolve_task(Choice(task=task, env=env), data=dataset)
    made = chosen.make_env()
    try:
        return chosen.episode_limit, check(dataset, made, name=chosen.name)
    except UserError as problem:
        on_problem(problem)
        return chosen.episode_limit, []
    finally:
        made.close()


@dataclass(frozen=True)
class ListOptions:
    """Every dataset by name: whose it is, how large, whether it is here, what it is made of."""


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(ReadingOptions):
    """Write a dataset again as .npz, .hdf5, .parquet or minari:NAME, or as a folder .columns to train on from disk."""

    to: Annotated[str, tyro.conf.Positional]
    """The new file; the ending of its name says the format."""


@dataclass(frozen=True, kw_only=True)
class InspectOptions(ReadingOptions):
    """Print what a dataset holds, and what is wrong with it."""

    task: str | None = None
    """Also compare it with this task's environment, which takes some random steps for it."""
    env: str | None = None
    """The same with an environment of your own: package:Name-v0."""


@dataclass(frozen=True)
class BuildOptions(Checked):
    """Build the dataset of a task from a seed; cached with a manifest."""

    name: Annotated[str, tyro.conf.Positional]
    """The dataset, as the task that uses it."""
    sources: str | None = None
    """Folder with raw demonstrations and policies (default: CALQL_SOURCES)."""
    seed: CountOrZero = 0
    """Seed of the recipe."""
    size: Count | None = None
    """Transitions, where the recipe has a size."""
    rebuild: bool = False
    """Build it again even if it is there."""
    processes: Processes | None = None
    """Processes to build with (default: all cores)."""


@dataclass(frozen=True)
class DownloadOptions:
    """Fetch the public original of a dataset."""

    name: Annotated[str, tyro.conf.Positional]
    """The dataset, as the task that uses it."""


@dataclass(frozen=True)
class CertifyOptions:
    """Check that recorded data belong to today's environment, by replaying them."""

    task: Annotated[str, tyro.conf.Positional]
    """The task."""
    file: Annotated[str, tyro.conf.Positional]
    """The recorded data."""


def _list(options: ListOptions) -> int:
    from calql.data.store import is_built
    from calql.domains.originals import has_original
    from calql.domains.registry import DOMAINS, all_recipes

    table = Table(box=None, header_style="bold")
    for heading in ("dataset", "for --task", "transitions", "here", "made of"):
        table.add_column(heading, no_wrap=heading != "made of", justify="right" if heading == "transitions" else "left")
    for name, recipe in all_recipes().items():
        here = "original" if has_original(name) else "built" if is_built(name) else "-"
        table.add_row(name, recipe.task, f"{recipe.size:,}" if recipe.size else "", here, recipe.summary)
    console = Console()
    console = console if console.is_terminal else Console(width=160)
    console.print(table)
    print_left_out(DOMAINS, console)
    return 0


def _inspect(options: InspectOptions) -> int:
    return inspect(options.file, options.task, options.env, options.reading)


def _convert(options: ConvertOptions) -> int:
    beside = None if options.to.startswith("minari:") else str(Path(options.to).expanduser().parent)
    dataset = load(options.file, replace(options.reading, scratch=beside))
    write(dataset, options.to)
    for note in dataset.notes:
        print(shown(f"note: {note}"))
    print(shown(f"{options.to}: {len(dataset)} transitions in {len(dataset.episode_ends)} episodes"))
    return 0


def _build(options: BuildOptions) -> int:
    from calql.domains import datasets as recipes

    print(
        recipes.build(
            options.name,
            sources=options.sources,
            seed=options.seed,
            size=options.size,
            rebuild=options.rebuild,
            processes=options.processes,
        )
    )
    return 0


def _download(options: DownloadOptions) -> int:
    from calql.domains.originals import download

    print(download(options.name))
    return 0


def _certify(options: CertifyOptions) -> int:
    from calql.domains.certify import certify

    report = certify(options.task, options.file)
    print(report)
    return 0 if report.passed else 1


ACTIONS: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
    "list": (ListOptions, _list),
    "inspect": (InspectOptions, _inspect),
    "view": (ViewOptions, view),
    "convert": (ConvertOptions, _convert),
    "build": (BuildOptions, _build),
    "download": (DownloadOptions, _download),
    "certify": (CertifyOptions, _certify),
    "difficulty": (DifficultyOptions, difficulty),
}


def run(command: str, words: Sequence[str]) -> int:
    chosen = subcommand("data", words, ACTIONS, "[options]")
    if chosen is None:
        return 0
    kind, action = chosen
    return action(parse(kind, words[1:], command=f"data {words[0]}"))
