"""calql train."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Any, get_args

from rich.console import Console

from calql import experiment as experiments
from calql import training
from calql.cli.parse import parse, peek
from calql.errors import DIVERGED, UserError, shown
from calql.experiment import Choice
from calql.options import Checked
from calql.results import Progress, Silent, result_table, summarise
from calql.runs.changes import refused
from calql.runs.folder import refuse_existing
from calql.runs.stops import CODES, Stops, process_start
from calql.tasks import DEFAULT
from calql.tasks.own import ScoreKind
from calql.trust import remember, trust_run


@dataclass(frozen=True)
class TrainOptions(Checked):
    """What to train on, with what, and where it goes."""

    task: str | None = None
    """A task by name (`calql tasks`)."""
    method: str = "cal-ql"
    """A method by name (`calql methods`)."""
    preset: str = "default"
    """Options as a named source has them: paper, corl or wsrl; default: the paper's, and for your own data bounds on
    TD targets."""
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
    score: ScoreKind | None = None
    """How your own environment is scored (default: by success, where it reports it when tried out)."""
    probe: bool = True
    """Try your own environment out before training, with random steps, and compare what it gives with the data."""
    out: str | None = None
    """The run folder to make (default: runs/TASK-METHOD-TIME)."""
    resume: str | None = None
    """A run folder to go on with, from its last checkpoint; with more --online-steps also a finished one."""
    accept_changes: bool = False
    """With --resume: go on although the task's rewards or episode limit have changed in the code since."""
    trust: bool = False
    """With --resume: import the environment that the run names, though you never trained with it."""
    max_minutes: float | None = None
    """Checkpoint and end (with exit code 124) before this command has taken so many minutes."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    wandb: bool = False
    """Also log to Weights & Biases."""
    quiet: bool = False
    """Show nothing while training."""


NAMES = ("task", "method", "preset", "dataset", "env", "episode_limit", "reward_scale", "reward_shift", "score")


def run(command: str, words: Sequence[str]) -> int:
    with Stops(_minutes(words), since=process_start(), own_process=True) as stops:
        outcome = (_start if peek(words, "resume") is None else _resume)(command, words, stops)
    return _finish(outcome)


def _minutes(words: Sequence[str]) -> float | None:
    """The time limit, before the rest is parsed; what is no number above 0 is refused there."""
    try:
        minutes = float(peek(words, "max-minutes") or peek(words, "max_minutes") or "none")
    except ValueError:
        return None
    return minutes if minutes > 0.0 else None


def _resume(command: str, words: Sequence[str], stops: Stops) -> training.Outcome:
    """The options of the run are the defaults, so that those which were given show."""
    folder = Path(str(peek(words, "resume")))
    config = experiments.read_config(folder)
    run_options, method_options = experiments.recorded_options(config, folder)
    parsed: Any = _parsed(command, words, run_options, method_options)
    given = {name: value for name in NAMES if (value := _peeked(words, name)) is not None}
    given |= {} if parsed.flags.out is None else {"out": parsed.flags.out}
    for name, value in given.items():
        before = config["choice"].get(name)
        if value not in (str(before), f"{before:g}" if isinstance(before, float) else None):
            raise refused(name, value, before, str(folder))
    for name, value in vars(parsed.learner).items():
        if value != (before := getattr(method_options, name)):
            raise refused(name, value, before, str(folder))
    changes = {name: value for name, value in vars(parsed.run).items() if value != getattr(run_options, name)}
    if parsed.flags.trust:
        trust_run(folder)
    remember(parsed.flags.env)
    watching, accept = _watching(parsed.flags, stops), parsed.flags.accept_changes
    return training.resume(folder, watching, accept_changes=accept, **changes)


def _peeked(words: Sequence[str], name: str) -> str | None:
    return peek(words, name.replace("_", "-")) or peek(words, name)


def _parsed(command: str, words: Sequence[str], run_options: Any, method_options: Any) -> Any:
    parts: list[Any] = [
        ("flags", TrainOptions, TrainOptions()),
        ("run", type(run_options), run_options),
        ("learner", type(method_options), method_options),
    ]
    kind = make_dataclass("Train", parts, frozen=True)
    kind.__doc__ = f"Pre-train on logged data, then fine-tune online (default task: {DEFAULT})."
    return parse(kind, words, command=command, default=kind())


def _start(command: str, words: Sequence[str], stops: Stops) -> training.Outcome:
    """Names first: they decide which options there are and what they are by default."""
    refuse_existing(peek(words, "out"))
    choice = Choice(
        task=peek(words, "task"),
        method=peek(words, "method") or "cal-ql",
        preset=peek(words, "preset") or "paper",
        dataset=peek(words, "dataset"),
        env=peek(words, "env"),
        score=_score(peek(words, "score")),
    )
    for name in ("episode_limit", "reward_scale", "reward_shift"):
        value = _peeked(words, name)
        if value is not None:
            choice = _with_number(choice, name, value)
    asks_help = "--help" in words or "-h" in words
    own = choice.dataset is not None or choice.env is not None
    task, data, notes = (None, None, []) if own and asks_help else experiments.resolve_task(choice)
    run_options, method_options = experiments.defaults(choice, task)
    parsed = _parsed(command, words, run_options, method_options)
    assert task is not None
    watching, probe = _watching(parsed.flags, stops), parsed.flags.probe
    if choice.env is not None and probe and not parsed.run.real:
        watching.display.message(experiments.PROBE)
    experiment = experiments.make_experiment(choice, task, data, parsed.run, parsed.learner, notes, probe=probe)
    return training.start(experiment, parsed.flags.out, watching, shlex.join(["calql", command, *words]))


def _score(text: str | None) -> ScoreKind | None:
    """As it was named; another word is refused when all are parsed."""
    kinds: tuple[ScoreKind, ...] = get_args(ScoreKind)
    return next((kind for kind in kinds if kind == text), None)


def _with_number(choice: Choice, name: str, text: str) -> Choice:
    try:
        value: Any = int(text) if name == "episode_limit" else float(text)
    except ValueError:
        raise UserError(f"'{text}' is not a number", where=f"--{name.replace('_', '-')}") from None
    return replace(choice, **{name: value})


def _watching(flags: TrainOptions, stops: Stops) -> training.Watching:
    display = Silent() if flags.quiet else Progress()
    return training.Watching(display, flags.tensorboard, flags.wandb, stops=stops)


def _finish(outcome: training.Outcome) -> int:
    """The result table and the report; of a run that was stopped the table alone, which takes no time."""
    console = Console()
    folder: Path = outcome.folder
    if outcome.rows:
        console.print(result_table([summarise(folder)]))
    for seed, at in outcome.diverged.items():
        where = f"update {at['update']:,} (environment step {at['env_steps']:,})"
        console.print(f"seed {seed} diverged at {where}: its numbers from there on are those of its last sound state")
    if outcome.stopped_by is not None:
        console.print(
            shown(f"stopped before the end; go on with: calql train --resume {folder}; so far: calql report {folder}"),
            soft_wrap=True,
            markup=False,
        )
        return CODES[outcome.stopped_by]
    if outcome.rows:
        from calql.results.report import write_report

        console.print(shown(f"report: {write_report([folder])}"), soft_wrap=True, markup=False)
    return DIVERGED if outcome.diverged else 0
