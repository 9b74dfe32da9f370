"""calql round: start, collect, add, train, back, status."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from calql.cli.given import method_kinds, options_given
from calql.cli.help import Group, show_help
from calql.cli.parse import made, parse, read_words, subcommand
from calql.cli.train import TrainOptions
from calql.cli.watching import print_table, watched
from calql.data import Reading
from calql.engine.options import RunOptions
from calql.results.rounds import rounds_table, warnings
from calql.runs import life, preparation
from calql.runs.request import CHOSEN, Choice
from calql.runs.rounds import collecting, project
from calql.runs.rounds.branch import round_folder
from calql.runs.rounds.ledger import Ledger, read_ledger
from calql.runs.rounds.scores import summaries
from calql.runs.stops import CODES, Stops, process_start
from calql.system.errors import DIVERGED, UserError, shown
from calql.system.options import Checked, Count, CountOrZero, Positive, hints_of
from calql.system.run_files import POLICY, REPORT

LISTED = 8  # episodes that are named one by one
Project = Annotated[str, tyro.conf.Positional]
OF_THE_RUN = {"probe", "max_minutes", "quiet"}  # of `calql train`, beside what is chosen
STARTING = tuple(name for name in hints_of(TrainOptions) if name in OF_THE_RUN | {*CHOSEN} - {"vary"})


@dataclass(frozen=True, kw_only=True)
class StartOptions(Checked):
    """Make a project and train its round 0 offline. Without --task and --env, the logs are all there is."""

    project: Project
    """The folder to make."""
    share: bool = True
    """Every seed learns from every new episode; --no-share: from those that its own policy collected, as an online run
    has it."""


@dataclass(frozen=True, kw_only=True)
class CollectOptions(Checked):
    """Play episodes with the present round's policy, exploring, and write a file for each."""

    project: Project
    """The project folder."""
    episodes: Count = 10
    """How many, of each policy that plays."""
    env: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The environment: package:Name-v0 (default: that of the project)."""
    seed: CountOrZero | None = None
    """Whose policy (default: the first seed's; with --no-share every seed's)."""
    episode_limit: Count | None = None
    """Steps after which an episode is cut (default: as the project or the environment has it)."""
    trust: bool = False
    """Import the environment that the project names, though you never trained with it."""


@dataclass(frozen=True, kw_only=True)
class AddOptions(Checked):
    """Check files of new episodes and let them wait for the next round; an episode that is there is skipped."""

    project: Project
    """The project folder."""
    files: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Files or folders of any format; a folder that calql.Recorder or 'calql round collect' wrote."""
    columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROLE=NAME ...")] = ()
    """Which columns are what (default: as the project's first data were read)."""
    observations: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Parts of dictionary observations, in order; or one camera."""
    reward: Annotated[str | None, tyro.conf.arg(metavar="WHAT")] = None
    """A column, success=FLAG, end, end=COLUMN or package:function."""
    drop_bad_episodes: bool = False
    """Leave out the episodes that are bad, and count them."""
    round: int | None = None
    """The round whose policy collected them, where the files do not say (default: the present one)."""
    seed: CountOrZero | None = None
    """The seed whose policy collected them, where the files do not say."""
    trust: bool = False
    """Import the reward function that the project names, though you never trained with it."""


@dataclass(frozen=True, kw_only=True)
class TrainRoundOptions(Checked):
    """Train the next round on what was added, or go on with one that was broken off."""

    project: Project
    """The project folder."""
    max_minutes: Positive | None = None
    """Checkpoint and end (with exit code 124) before this command has taken so many minutes."""
    trust: bool = False
    """Import the environment that the project names, though you never trained with it."""
    quiet: bool = False
    """Show nothing while training."""


@dataclass(frozen=True, kw_only=True)
class BackOptions(Checked):
    """Make an earlier round the present one, from which the next one goes on. Nothing is deleted."""

    project: Project
    """The project folder."""
    number: Annotated[int | None, tyro.conf.Positional] = None
    """The round to go back to."""
    keep_episodes: bool = False
    """Let the episodes of later rounds wait for the next one again, in the place of setting them aside."""


@dataclass(frozen=True, kw_only=True)
class StatusOptions(Checked):
    """Print the rounds of a project, and what the policy of each came to."""

    project: Project
    """The project folder."""


def _start(command: str, words: Sequence[str]) -> int:
    typed = read_words([StartOptions, TrainOptions, RunOptions, *method_kinds()], words, command=command)
    if "help" in typed:
        train = Group("train", TrainOptions, STARTING)
        show_help([Group("", StartOptions), train, Group("run", RunOptions)], command, str(StartOptions.__doc__))
    for name in typed:
        if name in TrainOptions.__dataclass_fields__ and name not in STARTING:
            raise UserError(
                f"--{name.replace('_', '-')} is for calql train", where=f"calql {command}", mend="leave it out"
            )
    own, flags = made(StartOptions, typed, command=command), made(TrainOptions, typed, command=command)
    folder = Path(own.project)
    project.refuse_taken(folder)
    choice = _choice(flags)
    given = {"online_steps": 0, **options_given(typed, choice.method, RunOptions, apart=[TrainOptions, StartOptions])}
    preparation.look_ahead(choice, given)
    doing = f"reading {choice.task or choice.dataset or 'the logs'}"
    with _stops(flags.max_minutes) as stops, watched(doing, stops, quiet=flags.quiet) as watching:
        prepared = preparation.prepare_choice(choice, given, probe=flags.probe, tell=watching.display.message)
        said = shlex.join(["calql", *command.split(), *words])
        outcome = project.start(folder, prepared, watching, said, share=own.share)
    return _ended(folder, outcome)


def _choice(flags: TrainOptions) -> Choice:
    """What is trained on. A file is noted with its whole path: a project lives long, and is worked on from anywhere."""
    named = {name: getattr(flags, name) for name in CHOSEN}
    file = None if flags.dataset is None else Path(flags.dataset).expanduser()
    if file is not None and file.exists():
        named["dataset"] = str(file.resolve())
    named["offline"] = flags.offline or (flags.task is None and flags.env is None)
    return Choice(**named)


def _collect(command: str, words: Sequence[str]) -> int:
    options = parse(CollectOptions, words, command=command)
    folder = Path(options.project)
    files = collecting.collect(
        folder, options.episodes, env=options.env, seed=options.seed, episode_limit=options.episode_limit,
        trust=options.trust,
    )  # fmt: skip
    places = " ".join(str(path) for path in collecting.folders_of(files))
    print(shown(f"{len(files)} episodes in {places}; next: calql round add {folder} {places}"))
    return 0


def _add(command: str, words: Sequence[str]) -> int:
    options = parse(AddOptions, words, command=command)
    folder = Path(options.project)
    reading = Reading(options.columns, options.observations, options.reward, options.drop_bad_episodes)
    whose = {"round": options.round, "seed": options.seed}
    added = project.add(folder, options.files, reading, **whose, trust=options.trust)
    for note in added.notes:
        print(shown(f"note: {note}"))
    for text in added.repeated[:LISTED]:
        print(shown(f"skipped: {text}"))
    if len(added.repeated) > LISTED:
        print(f"skipped: {len(added.repeated) - LISTED} more that are there already")
    waiting = len(read_ledger(folder).inbox)
    next_step = f"; {waiting} wait: calql round train {folder}" if waiting else ""
    print(shown(f"{added.episodes} new episodes with {added.steps} steps{next_step}"))
    return 0


def _train(command: str, words: Sequence[str]) -> int:
    options = parse(TrainRoundOptions, words, command=command)
    folder = Path(options.project)
    doing = f"taking up {folder}"
    with _stops(options.max_minutes) as stops, watched(doing, stops, quiet=options.quiet) as watching:
        outcome = project.train(folder, watching, trust=options.trust)
    return _ended(folder, outcome)


def _back(command: str, words: Sequence[str]) -> int:
    options = parse(BackOptions, words, command=command)
    if options.number is None:
        raise UserError("no round is named", where=f"calql {command}", mend="give its number after the project")
    folder = Path(options.project)
    _print(folder, project.back(folder, options.number, keep_episodes=options.keep_episodes))
    return 0


def _status(command: str, words: Sequence[str]) -> int:
    options = parse(StatusOptions, words, command=command)
    _print(Path(options.project), read_ledger(Path(options.project)))
    return 0


def _stops(minutes: float | None) -> Stops:
    return Stops(minutes, since=process_start(), own_process=True)


def _ended(folder: Path, outcome: life.Outcome) -> int:
    """The table, and what to do next; of a round that was broken off, how to go on."""
    if outcome.stopped_by is not None:
        print(shown(f"stopped before the end; go on with: calql round train {folder}"))
        return CODES[outcome.stopped_by]
    _print(folder, read_ledger(folder))
    return DIVERGED if outcome.diverged else 0


def _print(folder: Path, ledger: Ledger) -> None:
    console = Console()
    rounds = summaries(folder, ledger)
    print_table(rounds_table(rounds), console)
    for text in warnings(rounds, str(folder)):
        console.print(shown(text), style="yellow", markup=False, highlight=False, soft_wrap=True)
    for text in _standing(folder, ledger):
        console.print(shown(text), markup=False, highlight=False, soft_wrap=True)


def _standing(folder: Path, ledger: Ledger) -> Iterator[str]:
    """What is there, what waits, and what comes next."""
    if ledger.aside:
        yield f"{len(ledger.aside)} episodes are set aside; adding their files again lets them wait"
    if ledger.training is not None:
        yield f"round {ledger.training} is not finished: calql round train {folder}"
    elif ledger.inbox:
        yield f"{len(ledger.inbox)} episodes wait: calql round train {folder}"
    if ledger.current is not None:
        yield f"policy to deploy: {round_folder(folder, ledger.current) / POLICY}"
    if (folder / REPORT).exists():
        yield f"report: {folder / REPORT}"


ACTIONS: dict[str, tuple[type[object], Callable[[str, Sequence[str]], int]]] = {
    "start": (StartOptions, _start),
    "collect": (CollectOptions, _collect),
    "add": (AddOptions, _add),
    "train": (TrainRoundOptions, _train),
    "back": (BackOptions, _back),
    "status": (StatusOptions, _status),
}


def run(command: str, words: Sequence[str]) -> int:
    chosen = subcommand("round", words, ACTIONS, "PROJECT [options]")
    return 0 if chosen is None else chosen[1](f"{command} {words[0]}", words[1:])
