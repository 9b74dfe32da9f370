"""calql train."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from calql import experiment as experiments
from calql import training
from calql.cli.parse import parse, peek
from calql.errors import UserError
from calql.experiment import Choice
from calql.options import Checked
from calql.results import Progress, Silent, result_table, summarise
from calql.tasks import DEFAULT
from calql.trust import remember, trust_run


@dataclass(frozen=True)
class TrainOptions(Checked):
    """What to train on, with what, and where it goes."""

    task: str | None = None
    """A task by name (`calql tasks`)."""
    method: str = "cal-ql"
    """A method by name (`calql methods`)."""
    preset: str = "paper"
    """Options as a named source has them: paper, corl or wsrl."""
    dataset: str | None = None
    """A dataset of your own: .hdf5, .npz or minari:NAME."""
    env: str | None = None
    """An environment of your own: package:Name-v0."""
    episode_limit: int | None = None
    """Steps after which an episode is cut (default: the task's, or what your own environment says)."""
    reward_scale: float | None = None
    """Training rewards are scale * r + shift (default: the task's, or 1 and 0 for your own data)."""
    reward_shift: float | None = None
    """See --reward-scale."""
    out: str | None = None
    """The run folder to make (default: runs/TASK-METHOD-TIME)."""
    resume: str | None = None
    """A run folder to go on with, from its last checkpoint."""
    trust: bool = False
    """With --resume: import the environment that the run names, though you never trained with it."""
    max_minutes: float | None = None
    """Checkpoint and end cleanly before so many minutes have passed."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    wandb: bool = False
    """Also log to Weights & Biases."""
    quiet: bool = False
    """Show nothing while training."""


def run(command: str, words: Sequence[str]) -> int:
    if peek(words, "resume") is not None:
        flags = parse(TrainOptions, words, command=command)
        if flags.trust:
            trust_run(str(flags.resume))
        remember(flags.env)
        outcome = training.resume(str(flags.resume), _watching(flags))
    else:
        outcome = _start(command, words)
    return _finish(outcome)


def _start(command: str, words: Sequence[str]) -> training.Outcome:
    """Names first: they decide which options there are and what they are by default."""
    choice = Choice(
        task=peek(words, "task"),
        method=peek(words, "method") or "cal-ql",
        preset=peek(words, "preset") or "paper",
        dataset=peek(words, "dataset"),
        env=peek(words, "env"),
    )
    for name in ("episode_limit", "reward_scale", "reward_shift"):
        value = peek(words, name.replace("_", "-")) or peek(words, name)
        if value is not None:
            choice = _with_number(choice, name, value)
    asks_help = "--help" in words or "-h" in words
    own = choice.dataset is not None or choice.env is not None
    task, data, notes = (None, None, []) if own and asks_help else experiments.resolve_task(choice)
    run_options, method_options = experiments.defaults(choice, task)
    parts: list[Any] = [
        ("flags", TrainOptions, TrainOptions()),
        ("run", type(run_options), run_options),
        ("learner", type(method_options), method_options),
    ]
    kind = make_dataclass("Train", parts, frozen=True)
    kind.__doc__ = f"Pre-train on logged data, then fine-tune online (default task: {DEFAULT})."
    parsed: Any = parse(kind, words, command=command, default=kind())
    assert task is not None
    experiment = experiments.make_experiment(choice, task, data, parsed.run, parsed.learner, notes)
    return training.start(experiment, parsed.flags.out, _watching(parsed.flags), shlex.join(["calql", command, *words]))


def _with_number(choice: Choice, name: str, text: str) -> Choice:
    try:
        value: Any = int(text) if name == "episode_limit" else float(text)
    except ValueError:
        raise UserError(f"'{text}' is not a number", where=f"--{name.replace('_', '-')}") from None
    return replace(choice, **{name: value})


def _watching(flags: TrainOptions) -> training.Watching:
    display = Silent() if flags.quiet else Progress()
    return training.Watching(display, flags.tensorboard, flags.wandb, flags.max_minutes)


def _finish(outcome: training.Outcome) -> int:
    """The result table and the report."""
    from calql.results.report import write_report

    console = Console()
    folder: Path = outcome.folder
    if outcome.rows:
        console.print(result_table([summarise(folder)]))
        console.print(f"report: {write_report([folder])}", soft_wrap=True)
    if not outcome.finished:
        console.print(f"stopped before the end; go on with: calql train --resume {folder}", soft_wrap=True)
    return 0
