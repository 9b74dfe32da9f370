"""calql render TASK|RUN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import arg

from calql.cli.parse import parse
from calql.system.errors import UserError
from calql.system.options import NOT_NEGATIVE, Checked, CountOrZero, Range
from calql.system.run_files import CONFIG


@dataclass(frozen=True)
class RenderOptions(Checked):
    """Film an episode: of a task with random actions, or of a run with its policies. A run's films go into its folder,
    where `calql report` finds them; with --out they become one film, side by side."""

    task_or_run: Annotated[str, tyro.conf.Positional]
    """A task by name, or a run folder."""
    out: Annotated[str | None, arg(metavar="FILE")] = None
    """One film to write: .gif, or .mp4 with the extra [films] (default: of a task episode.gif)."""
    seed: CountOrZero = 0
    """Seed of the episode: the same start and goal for every policy."""
    policies: Annotated[tuple[int, ...] | None, NOT_NEGATIVE, arg(metavar="SEED ...")] = None
    """Of a run: the seeds whose policies play, a row each (default: the first)."""
    all_policies: bool = False
    """Of a run: those of all its seeds."""
    checkpoint: Literal["switch", "final", "both"] = "both"
    """Of a run: the policies that it went online with, those of its end, or both side by side."""
    arm: Annotated[str | None, arg(metavar="NAME=VALUE")] = None
    """Of a sweep: one arm alone (default: all, side by side)."""
    pixels: Annotated[int, Range(480.0, 2160.0)] = 480
    """Pixels along the shorter side of each picture, at least."""
    trust: bool = False
    """Import the environment that the run names, though you never trained with it."""


def run(command: str, words: Sequence[str]) -> int:
    options = parse(RenderOptions, words, command=command)
    from calql.runs.film import prepare_gl

    prepare_gl()
    for path in _of_run(options) if (Path(options.task_or_run) / CONFIG).is_file() else _of_task(options):
        print(f"film: {path}")
    return 0


def _refuse_data(name: str) -> None:
    from calql.domains.registry import all_tasks

    if Path(name).exists() and name not in all_tasks():
        mend = f"look at a dataset with: calql data view {name}"
        raise UserError("is neither a task nor a run folder", where=name, mend=mend)


def _of_task(options: RenderOptions) -> list[Path]:
    from calql.domains.registry import get_task
    from calql.runs.film import filmed
    from calql.runs.film_files import require_kind, write_film

    _refuse_data(options.task_or_run)
    out = Path(options.out or "episode.gif")
    require_kind(out)
    task = get_task(options.task_or_run)
    title = f"{task.name}, random actions"
    film = filmed(task.make_env, None, title, seed=options.seed, limit=task.episode_limit, size=options.pixels)
    return [write_film(out, film.pictures, film.rate)]


def _of_run(options: RenderOptions) -> list[Path]:
    from calql.runs.run_films import FILMED, FilmedRun, write_films, write_one

    run = FilmedRun.of(Path(options.task_or_run), trust=options.trust)
    there = run.config["seeds"]
    if options.policies and options.all_policies:
        raise UserError("--policies and --all-policies exclude each other", mend="leave one of them out")
    seeds = options.policies or (there if options.all_policies else there[:1])
    checkpoints = FILMED if options.checkpoint == "both" else (options.checkpoint,)
    takes = run.takes(seeds, options.arm, checkpoints)
    if options.checkpoint == "both" and all(take.checkpoint == "final" for take in takes):
        print("note: the run keeps no policy of the switch, so there is no film of before")
    if options.out is None:
        return write_films(run, takes, episode=options.seed, size=options.pixels)
    columns = len(takes) // len(seeds)
    return [write_one(run, Path(options.out), takes, columns=columns, episode=options.seed, size=options.pixels)]
