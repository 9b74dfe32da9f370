"""A project folder: round after round of episodes from files, each trained on from where the one before it ended.

    PROJECT/project.json            the rounds, what each has learnt from, what waits (ledger.py)
    PROJECT/episodes/CHECKSUM.npz   every episode that was ever added
    PROJECT/rounds/000, 001, ...    a run folder each: policy, checkpoint, rows, report
    PROJECT/collected/              what `collect` played
    PROJECT/report.html             score by round

A round is the run of its parent gone on with: its folder begins as a copy of the parent's, with the same checkpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calql.data import Dataset, Reading
from calql.data.reading import AS_IT_IS
from calql.engine.handed_in import require_whole_episodes
from calql.results.metrics import write_atomically
from calql.results.rounds import write_page
from calql.runs import life, record
from calql.runs.lock import owned
from calql.runs.policy_folder import DESCRIPTION
from calql.runs.preparation import Prepared
from calql.runs.rounds.branch import branch, prune, round_folder
from calql.runs.rounds.incoming import Arrived, Asked, Terms, read_files, warnings_about
from calql.runs.rounds.ledger import Ledger, read_ledger, write_ledger
from calql.runs.rounds.scores import summaries
from calql.runs.rounds.store import Stored, keep, outline
from calql.runs.trust import remember, require_trusted, trust_run
from calql.system.errors import UserError
from calql.system.options import require
from calql.system.run_config import read_object
from calql.system.run_files import CONFIG, LOCK, POLICY, PROJECT, REPORT, ROUNDS

LOGGED = "logged.json"  # checksums of the episodes of the first data


@dataclass(frozen=True)
class Added:
    """What came of files that were added."""

    episodes: int
    steps: int
    repeated: Sequence[str]  # episodes that were there, in words
    notes: Sequence[str]


def start(
    project: Path,
    prepared: Prepared,
    watching: life.Watching,
    command: str,
    *,
    share: bool = True,
    kept: Dataset | None = None,
    note: Mapping[str, Any] = {},
) -> life.Outcome:
    """Make the folder and train round 0, offline; gone again if that cannot begin."""
    refuse_taken(project)
    _require_rounds(prepared)
    (project / ROUNDS).mkdir(parents=True)
    with owned(project):
        try:
            logged = [outline(prepared.data, rows) for rows in prepared.data.episodes()]
            write_atomically(project / LOGGED, json.dumps(logged))
            write_ledger(project, Ledger(share=share).begun())
            folder = round_folder(project, 0)
            outcome = life.start(life.Ready(prepared, kept, note), folder, watching, command)
        except BaseException:
            _discard(project)
            raise
        _note_trained(project, outcome)
        return outcome


def refuse_taken(project: Path) -> None:
    """Said early, before anything is computed."""
    if os.path.lexists(project):
        ours = (project / PROJECT).is_file()
        mend = f"go on with calql round train {project}" if ours else "choose another folder"
        raise UserError("exists already", where=str(project), mend=mend)


def _require_rounds(prepared: Prepared) -> None:
    """Refuse what has no meaning where episodes come from files."""
    run = prepared.run
    require_whole_episodes(run)
    require(run.online_steps == 0, "online_steps", run.online_steps, "0: steps come with the episodes that are added")
    if prepared.choice.vary is not None:
        raise UserError("a project has one method and one set of options", where="--vary", mend="leave it out")


def _discard(project: Path) -> None:
    """Remove a project whose first round never began."""
    if round_folder(project, 0).exists():
        return
    with suppress(OSError):
        for name in (PROJECT, LOGGED, LOCK):
            (project / name).unlink(missing_ok=True)
        (project / ROUNDS).rmdir()
        project.rmdir()


def _note_trained(project: Path, outcome: life.Outcome) -> None:
    if outcome.finished:
        ledger = read_ledger(project)
        if ledger.training is not None:
            ledger = ledger.trained()
            write_ledger(project, ledger)
            prune(round_folder(project, int(str(ledger.current))))
        write_page(summaries(project, ledger), project / REPORT)


def add(
    project: Path,
    files: Sequence[str | Path],
    reading: Reading = AS_IT_IS,
    *,
    round: int | None = None,
    seed: int | None = None,
    trust: bool = False,
) -> Added:
    """Check files and let their episodes wait for the next round, each once; all of them, or none where one is bad.

    `round` and `seed` say whose policy collected them, where the files do not. `trust`: the project's reward function
    may be imported, though only its config.json names it.
    """
    with owned(require_project(project)):
        ledger = read_ledger(project)
        current = _require_trained(project, ledger)
        asked = Asked(reading, current if round is None else round, seed)
        _require_round(project, ledger, asked.round)
        terms = Terms.of(round_folder(project, current))
        _require_trusted(round_folder(project, current), terms, reading, trust)
        brought = read_files(files, terms, asked, policies_of(project, ledger))
        new, repeated = _sorted(project, ledger, brought.episodes)
        warnings = warnings_about(new, terms)
        for arrived in new:
            keep(project, arrived.kept)
        if new:
            write_ledger(project, ledger.added([arrived.entry for arrived in new]))
            write_page(summaries(project, read_ledger(project)), project / REPORT)
        steps = sum(arrived.entry.steps for arrived in new)
        return Added(len(new), steps, repeated, (*brought.notes, *warnings))


def _require_trusted(folder: Path, terms: Terms, reading: Reading, trust: bool) -> None:
    """Of a reward function: the user names it now, or has named it before."""
    if trust:
        trust_run(folder)
    if reading.chooses:
        remember(reading.reward)
    else:
        require_trusted(terms.choice.reward, folder)


def _sorted(project: Path, ledger: Ledger, episodes: Sequence[Arrived]) -> tuple[list[Arrived], list[str]]:
    """Those that are new to the present line, and which are not, in words."""
    logged = set(json.loads((project / LOGGED).read_text()))
    there = dict.fromkeys(ledger.taken, "")
    there |= {each: f"added {ledger.entries[each].added} from {ledger.entries[each].source}" for each in there}
    new, repeated = [], []
    for arrived in episodes:
        data = arrived.kept.data
        if outline(data, slice(None)) in logged:
            repeated.append(f"{arrived.place}: is in the data that the project was started with")
        elif arrived.entry.id in there:
            repeated.append(f"{arrived.place}: is there already ({there[arrived.entry.id]})")
        else:
            new.append(arrived)
            there[arrived.entry.id] = f"it is {arrived.place}"
    return new, repeated


def train(project: Path, watching: life.Watching, *, trust: bool = False, **given: Any) -> life.Outcome:
    """Go on with the round that was broken off; else begin the next one, with all that waits."""
    with owned(require_project(project)):
        ledger = read_ledger(project)
        if ledger.training is None:
            ledger = _next_round(project, ledger)
        if ledger.training:
            outcome = _train_on(project, ledger, watching, trust=trust, **given)
        else:
            outcome = life.resume(_first(project), watching, trust=trust, **given)
        _note_trained(project, outcome)
        return outcome


def _first(project: Path) -> Path:
    folder = round_folder(project, 0)
    if not (folder / CONFIG).is_file():
        raise UserError(
            "its first round was ended before it had begun, nothing is lost",
            where=str(project),
            mend="remove the folder and give calql round start again",
        )
    return folder


def _next_round(project: Path, ledger: Ledger) -> Ledger:
    if not ledger.inbox:
        raise UserError(
            "no new episode waits to be learnt from",
            where=str(project),
            mend=f"collect some with {round_folder(project, int(str(ledger.current))) / POLICY}, then calql round add",
        )
    begun = ledger.begun()
    write_ledger(project, begun)
    return begun


def _train_on(project: Path, ledger: Ledger, watching: life.Watching, **given: Any) -> life.Outcome:
    number = int(str(ledger.training))
    folder = round_folder(project, number)
    if not folder.exists():
        parent = int(str(ledger.rounds[number].parent))
        branch(round_folder(project, parent), folder)
    terms, config = Terms.of(round_folder(project, int(str(ledger.current)))), record.read_config(folder)
    stored = Stored(project, ledger.learnt(number), config["seeds"], terms.space, terms.run, share=ledger.share)
    return life.resume(folder, watching, handed_in=stored, online_steps=stored.steps, **given)


def back(project: Path, number: int, *, keep_episodes: bool = False) -> Ledger:
    """Make an earlier round the present one. Nothing is deleted; what was done after it stays as another branch."""
    with owned(require_project(project)):
        ledger = read_ledger(project)
        _require_round(project, ledger, number)
        if number != ledger.current or ledger.training is not None:
            ledger = ledger.gone_back(number, keep_episodes=keep_episodes)
            write_ledger(project, ledger)
            write_page(summaries(project, ledger), project / REPORT)
        return ledger


def _require_round(project: Path, ledger: Ledger, number: int) -> None:
    if number not in ledger.ended:
        raise UserError(
            f"there is no round {number} that has ended",
            where=str(project),
            mend=f"its rounds are {', '.join(map(str, ledger.ended)) or 'none yet'}",
        )


def _require_trained(project: Path, ledger: Ledger) -> int:
    if ledger.current is None:
        raise UserError("round 0 is not trained yet", where=str(project), mend=f"calql round train {project}")
    return ledger.current


def require_project(project: Path) -> Path:
    read_ledger(project)
    return project


def policies_of(project: Path, ledger: Ledger) -> dict[str, tuple[int, int]]:
    """The round and the seed of every policy of the project, by its checksum; the later round where two have one."""
    found: dict[str, tuple[int, int]] = {}
    for number in ledger.ended:
        described = read_object(round_folder(project, number) / POLICY / DESCRIPTION)
        pairs = zip(described["checksums"], described["seeds"], strict=False)
        found |= {str(checksum): (number, int(seed)) for checksum, seed in pairs}
    return found
