"""calql train."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

from rich.console import Console
from tyro.conf import arg

from calql.cli.explain import print_origins
from calql.cli.given import method_kinds, options_given
from calql.cli.help import Group, show_help
from calql.cli.parse import Words, made, read_words
from calql.cli.watching import print_table, say, watched
from calql.domains.own.tasks import ScoreKind
from calql.engine.options import RunOptions
from calql.methods import DEFAULT_METHOD
from calql.results import logs_alone, logs_tables, read_runs, result_table, summarise
from calql.results.arms import in_words, split_vary
from calql.results.live import Live
from calql.results.summary import NUMBERS
from calql.runs import life as training
from calql.runs import preparation, record, request
from calql.runs.changes import changed, refused
from calql.runs.folder import refuse_existing
from calql.runs.origins import Resolved, resumed
from calql.runs.request import CHOSEN, COMPARED, DEFAULT_TASK, Choice
from calql.runs.stops import CODES, Stops, process_start
from calql.runs.trust import remember, trust_run
from calql.system.errors import DIVERGED, shown
from calql.system.options import ANY, Checked, Count, Finite, NotZero, Positive, hints_of


@dataclass(frozen=True)
class TrainOptions(Checked):
    """What to train on, with what, and where it goes."""

    task: Annotated[str | None, arg(metavar="NAME")] = None
    """A task by name (`calql tasks`)."""
    method: Annotated[str, arg(metavar="NAME")] = DEFAULT_METHOD
    """A method by name (`calql methods`)."""
    preset: Annotated[str, arg(metavar="NAME")] = "default"
    """Options as a named source has them: paper, corl or wsrl; default: the paper's, and for your own data bounds on
    TD targets."""
    dataset: Annotated[str | None, arg(metavar="FILE")] = None
    """A dataset of your own: a file or a folder of any format (docs/formats.md), or minari:NAME."""
    columns: Annotated[tuple[str, ...], arg(metavar="ROLE=NAME ...")] = ()
    """Which of its columns are what: 'observation=joint_*' 'action=cmd_*' reward=r episode=run."""
    observations: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    """Parts of dictionary observations by name, in your order: vectors, cameras, or both."""
    reward: Annotated[str | None, arg(metavar="WHAT")] = None
    """Rewards of your dataset: a column, success=FLAG, end (1 in the last step), end=COLUMN or package:function."""
    drop_bad_episodes: bool = False
    """Go on without the episodes of your dataset that are bad, and say how many they were."""
    env: Annotated[str | None, arg(metavar="NAME")] = None
    """An environment of your own: package:Name-v0."""
    episode_limit: Count | None = None
    """Steps after which an episode is cut (default: the task's, or what your own environment says)."""
    reward_scale: NotZero | None = None
    """Training rewards are scale * r + shift (default: the task's, or 1 and 0 for your own data)."""
    reward_shift: Finite | None = None
    """See --reward-scale."""
    score: ScoreKind | None = None
    """How your own environment is scored (default: by success, where it reports it when tried out)."""
    offline: bool = False
    """Train on the logs alone, without an environment: policies are valued on held-out episodes."""
    action_low: Annotated[tuple[float, ...], ANY] = ()
    """With --offline: the least that actions may be, one number or one for each (default: as the data reach)."""
    action_high: Annotated[tuple[float, ...], ANY] = ()
    """With --offline: the most."""
    vary: Annotated[str | None, arg(metavar="NAME=A,B,C")] = None
    """Train every seed once for each value of a numeric option, all of them as one program."""
    probe: bool = True
    """Try your own environment out before training, with random steps, and compare what it gives with the data."""
    out: Annotated[str | None, arg(metavar="FOLDER")] = None
    """The run folder to make (default: runs/TASK-METHOD-TIME)."""
    resume: Annotated[str | None, arg(metavar="FOLDER")] = None
    """A run folder to go on with, from its last checkpoint; with more --online-steps also a finished one."""
    accept_changes: bool = False
    """With --resume: go on although the task's rewards or episode limit have changed in the code since."""
    trust: bool = False
    """With --resume: import the environment that the run names, though you never trained with it."""
    max_minutes: Annotated[Positive | None, arg(metavar="MINUTES")] = None
    """Checkpoint and end (with exit code 124) before this command has taken so many minutes."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    wandb: bool = False
    """Also log to Weights & Biases."""
    films: bool = True
    """Where the task draws itself at once (the mazes of points): end with films of the policies before and after."""
    live: bool = False
    """Also show the report in the browser while training: prints an address of this machine."""
    quiet: bool = False
    """Show nothing while training."""
    explain: bool = False
    """Print every option with its value and where that comes from, and exit."""
    help_all: bool = False
    """Every option, with the values that they have for the task and the method that are named."""


COMPARES = split_vary(COMPARED)[0]
# Who names none of these gets the first run.
NAMING = ("task", "method", "preset", "dataset", "env", "vary", "resume", "offline", COMPARES)
DESCRIPTION = (
    f"Pre-train on logged data, then fine-tune online. Without a task or data of your own: {DEFAULT_TASK}. "
    f"Without any name at all: Cal-QL and CQL side by side on it (vary {COMPARED})."
)
USUAL: dict[str, tuple[str, ...]] = {  # the options that people use, by the title of their group
    "": ("help_all", "explain"),
    "task": ("task", "method", "preset", "vary"),
    "own data": ("dataset", "env", "offline", "columns"),
    "length": ("offline_updates", "online_steps", "seeds", "max_minutes"),
    "folder": ("out", "resume"),
    "watching": ("live", "quiet", "tensorboard", "wandb"),
}


def run(command: str, words: Sequence[str]) -> int:
    typed = read_words([TrainOptions, RunOptions, *method_kinds()], words, command=command)
    asks_help = typed.pop("help", False)
    if not any(name in typed for name in NAMING):
        typed |= {"task": [DEFAULT_TASK], "vary": [COMPARED]}
    flags = made(TrainOptions, typed, command=command)
    if asks_help or flags.help_all or flags.explain:
        found = _recorded(flags, typed) if flags.resume else _resolved(flags, typed)
        if not flags.explain:
            _show_help(command, flags, found, everything=flags.help_all)
        print_origins(found, *_about(flags))
        return 0
    with _live(flags) as live:
        with Stops(flags.max_minutes, since=process_start(), own_process=True) as stops:
            if flags.resume is not None:
                outcome = _resume(flags, typed, stops, live)
            else:
                outcome = _start(flags, typed, stops, shlex.join(["calql", command, *words]), live)
        cautioned = flags.resume is None and not flags.quiet  # by the notes at its beginning
        return _finish(outcome, films=flags.films, cautioned=cautioned)


def _live(flags: TrainOptions) -> AbstractContextManager[Live | None]:
    """The page beside the run, where it is asked for."""
    if not flags.live:
        return nullcontext()
    live = Live()
    print(f"live: {live.address}", flush=True)
    return live


def _choice(flags: TrainOptions) -> Choice:
    return Choice(**{name: getattr(flags, name) for name in CHOSEN})


def _given(typed: Words, method: str) -> dict[str, Any]:
    """What was set of the run's options and the method's."""
    return options_given(typed, method, RunOptions, apart=[TrainOptions])


def _resolved(flags: TrainOptions, typed: Words) -> Resolved:
    choice = _choice(flags)
    return request.resolve(choice, request.outline(choice), _given(typed, choice.method))


def _recorded(flags: TrainOptions, typed: Words) -> Resolved:
    """The options of a run as it would go on with them."""
    folder = Path(str(flags.resume))
    config = record.read_config(folder)
    run_options, method_options = record.recorded_options(config, folder)
    changes = _changes(flags, typed, config, folder)
    origins = dict.fromkeys({**vars(run_options), **vars(method_options)}, "recorded") | config.get("origins", {})
    return Resolved(changed(run_options, changes, str(folder)), method_options, resumed(origins, changes))


def _about(flags: TrainOptions) -> tuple[str, ...]:
    """Lines above the table of origins."""
    if flags.resume is not None:
        return (f"{flags.resume}, gone on with",)
    preset = "" if flags.preset == "default" else f", preset {flags.preset}"
    vary = "" if flags.vary is None else f", for each of {flags.vary}"
    about = f"{flags.method} on {request.outline(_choice(flags)).name}{preset}{vary}"
    own = "The reference value is sarsa instead if no episode of the data ends in a terminal."
    return (about, own) if flags.env is not None else (about,)


def _show_help(command: str, flags: TrainOptions, found: Resolved, *, everything: bool) -> NoReturn:
    """The usual options by what they are for, or all of them."""
    run = partial(Group, kind=RunOptions, values=vars(found.run), origins=found.origins)
    if not everything:
        of_run = hints_of(RunOptions)
        groups = [
            run(title, names=[name]) if name in of_run else Group(title, TrainOptions, [name])
            for title, names in USUAL.items()
            for name in names
        ]
        show_help(groups, command, DESCRIPTION)
    learner = Group("method", type(found.options), values=vars(found.options), origins=found.origins)
    show_help([Group("train", TrainOptions), run("run"), learner], command, DESCRIPTION)


def _resume(flags: TrainOptions, typed: Words, stops: Stops, live: Live | None) -> training.Outcome:
    folder = Path(str(flags.resume))
    changes = _changes(flags, typed, record.read_config(folder), folder)
    if flags.trust:
        trust_run(folder)
    remember(flags.env)
    with _watched(f"taking up {folder}", flags, stops, live) as watching:
        return training.resume(folder, watching, accept_changes=flags.accept_changes, **changes)


def _changes(flags: TrainOptions, typed: Words, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What was set otherwise than the run has it; refuses what would make it another run."""
    run_options, method_options = record.recorded_options(config, folder)
    before = {**config["choice"], **vars(method_options), **vars(run_options)}
    given = {name: getattr(flags, name) for name in (*CHOSEN, "out") if name in typed}
    given |= _given(typed, config["choice"].get("method", Choice.method))
    different = {name: value for name, value in given.items() if value != before.get(name)}
    for name, value in different.items():
        if name not in vars(run_options):
            raise refused(name, value, before.get(name), str(folder))
    return different


def _start(flags: TrainOptions, typed: Words, stops: Stops, command: str, live: Live | None) -> training.Outcome:
    refuse_existing(flags.out)
    choice = _choice(flags)
    given = _given(typed, choice.method)
    preparation.look_ahead(choice, given)
    doing = f"reading the data of {choice.task or choice.dataset or DEFAULT_TASK}"
    with _watched(doing, flags, stops, live) as watching:
        return training.start(_ready(choice, given, watching, probe=flags.probe), flags.out, watching, command)


def _ready(choice: Choice, given: Mapping[str, Any], watching: training.Watching, *, probe: bool) -> training.Ready:
    """Nothing of it is held here: its data are let go of once their rows are on the device."""
    prepared = preparation.prepare_choice(choice, given, probe=probe, tell=watching.display.message)
    say(watching, "preparing the program")
    return training.Ready(prepared)


def _watched(
    doing: str, flags: TrainOptions, stops: Stops, live: Live | None
) -> AbstractContextManager[training.Watching]:
    return watched(doing, stops, quiet=flags.quiet, live=live, tensorboard=flags.tensorboard, wandb=flags.wandb)


def _finish(outcome: training.Outcome, *, films: bool, cautioned: bool = False) -> int:
    """The result table, films and the report; of a run that was stopped the table alone, which takes no time."""
    console = Console()
    folder: Path = outcome.folder
    valued = logs_alone.assessed(outcome.rows)
    if valued:
        console.print(logs_tables.logs_table(outcome.rows))
        said = logs_alone.lead(outcome.rows), *(() if cautioned else (logs_alone.WARNING,))
        console.print(shown(" ".join(said)), markup=False, highlight=False)
    elif outcome.rows:
        print_numbers(folder, console)
    for member, at in outcome.diverged.items():
        where = f"update {at['update']:,} (environment step {at['env_steps']:,})"
        console.print(
            f"{in_words(member)} diverged at {where}: its numbers from there on are those of its last sound state"
        )
    if outcome.stopped_by is not None:
        console.print(
            shown(f"stopped before the end; go on with: calql train --resume {folder}; so far: calql report {folder}"),
            soft_wrap=True,
            markup=False,
        )
        return CODES[outcome.stopped_by]
    if films and not valued:
        _film(folder, console)
    if outcome.rows:
        from calql.results.report import write_report

        console.print(shown(f"report: {write_report([folder])}"), soft_wrap=True, markup=False)
    return DIVERGED if outcome.diverged else 0


def print_numbers(folder: Path, console: Console) -> None:
    """The result table; none before a number of it is known."""
    summaries = [summarise(run) for run in read_runs(folder)]
    if any(summary.stat(number) is not None for summary in summaries for number in NUMBERS):
        print_table(result_table(summaries), console)


def _film(folder: Path, console: Console) -> None:
    """Films of the first seed, where the task draws itself. They are an extra: the run is whole without them."""
    from calql.runs.run_films import FILMED, FilmedRun, write_films

    try:
        run = FilmedRun.of(folder)
        if run.playing.films:
            write_films(run, run.takes(run.config["seeds"][:1], None, FILMED))
    except Exception as problem:  # of an encoder, a font, a disk: whatever it is, the run is not lost
        console.print(
            shown(f"no films: {problem}; try again with: calql render {folder}"), soft_wrap=True, markup=False
        )
