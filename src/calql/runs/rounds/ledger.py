"""What a project of rounds knows: its rounds, which episodes each has learnt from, and which wait for the next.

One file, replaced in one step, says all of it, so that whatever is killed leaves it as it was before or after. Rounds
are numbered as they are begun and never renumbered: who goes back to an earlier one begins another branch from there.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calql.results.metrics import write_atomically
from calql.system.errors import UserError
from calql.system.options import Checked, CountOrZero
from calql.system.run_config import options_from, read_object
from calql.system.run_files import PROJECT

FORMAT = 1
ID = re.compile("[0-9a-f]{64}")  # of an episode, which is also the name of its file
MEND = "put the file back as it was"


@dataclass(frozen=True)
class Entry(Checked):
    """An episode of the project, known by the checksum of its columns."""

    id: str
    steps: int
    total: float  # undiscounted, of recorded rewards
    success: bool | None  # None where nobody said
    round: int  # whose policy collected it
    seed: CountOrZero | None  # of that policy; None where nobody said
    source: str  # the file it came from
    added: str  # when


@dataclass(frozen=True)
class Round(Checked):
    """One training: from the state of its parent, on episodes that are new to it."""

    number: int
    parent: int | None
    episodes: tuple[str, ...]
    begun: str  # when
    ended: str | None = None  # when it was trained to its end


@dataclass(frozen=True)
class Ledger:
    """All of a project, as a value: every change gives another one."""

    share: bool = True  # every seed learns from every episode; else from those that its own policy collected
    current: int | None = None  # the round whose policy is deployed, and from which the next one goes on
    training: int | None = None  # a round that was begun and has not ended
    inbox: tuple[str, ...] = ()  # episodes that wait for the next round
    rounds: tuple[Round, ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()  # what was done when, in order

    def line(self, number: int | None) -> list[Round]:
        """A round and those that it goes back to, the first one first."""
        found: list[Round] = []
        while number is not None:
            found.insert(0, self.rounds[number])
            number = found[0].parent
        return found

    def learnt(self, number: int | None) -> list[Entry]:
        """The episodes of a round and of those before it, in the order in which they were learnt from."""
        return [self.entries[each] for one in self.line(number) for each in one.episodes]

    @property
    def latest(self) -> int | None:
        """The round that goes on or came last on the present line."""
        return self.current if self.training is None else self.training

    @property
    def taken(self) -> set[str]:
        """Episodes that the present line has learnt from, or that wait for it."""
        return {entry.id for entry in self.learnt(self.latest)} | set(self.inbox)

    @property
    def aside(self) -> list[str]:
        """Episodes of rounds that were gone back from, in order: kept, and in no batch of the present line."""
        taken = self.taken
        return [each for each in self.entries if each not in taken]

    def added(self, entries: Sequence[Entry]) -> Ledger:
        """With new episodes waiting, and again with those that had been set aside."""
        taken = self.taken
        new = {entry.id: entry for entry in entries if entry.id not in taken}
        changed = dataclasses.replace(self, entries={**new, **self.entries}, inbox=(*self.inbox, *new))
        return changed._noted("add", episodes=len(new))

    def begun(self) -> Ledger:
        """With a round that learns from all that waits."""
        number = len(self.rounds)
        new = Round(number, self.current, self.inbox, _now())
        changed = dataclasses.replace(self, rounds=(*self.rounds, new), training=number, inbox=())
        return changed._noted("train", round=number, parent=self.current)

    def trained(self) -> Ledger:
        """With the round that was begun as the present one."""
        rounds = [dataclasses.replace(r, ended=_now()) if r.number == self.training else r for r in self.rounds]
        changed = dataclasses.replace(self, rounds=tuple(rounds), current=self.training, training=None)
        return changed._noted("trained", round=self.training)

    def gone_back(self, number: int, *, keep_episodes: bool) -> Ledger:
        """To a round that has ended. The episodes of those after it are set aside, or wait again."""
        after = [each for one in self.line(self.latest) for each in one.episodes]
        before = {entry.id for entry in self.learnt(number)}
        again = [each for each in after if each not in before] if keep_episodes else []
        inbox = tuple(each for each in (*again, *self.inbox) if each not in before)
        changed = dataclasses.replace(self, current=number, training=None, inbox=tuple(dict.fromkeys(inbox)))
        return changed._noted("back", to=number, **{"from": self.latest})

    @property
    def ended(self) -> list[int]:
        """The rounds that were trained to their end."""
        return [each.number for each in self.rounds if each.ended is not None]

    def _noted(self, did: str, **more: Any) -> Ledger:
        return dataclasses.replace(self, history=(*self.history, {"time": _now(), "did": did, **more}))


def write_ledger(project: Path, ledger: Ledger) -> None:
    content = {"format": FORMAT, **dataclasses.asdict(ledger)}
    content["entries"] = list(content["entries"].values())
    write_atomically(project / PROJECT, json.dumps(content, indent=1) + "\n")


def read_ledger(project: Path) -> Ledger:
    """What the project says, every part checked."""
    if not (project / PROJECT).is_file():
        raise UserError(
            f"is no project of rounds (no {PROJECT})", where=str(project), mend="make one with calql round start"
        )
    found = read_object(project / PROJECT)
    if found.get("format") != FORMAT:
        what = f"is of format {found.get('format')}, and this version reads {FORMAT}"
        raise UserError(what, where=str(project / PROJECT), mend="use the version of calql that wrote it")
    try:
        entries = [_made(Entry, each, project) for each in found["entries"]]
        ledger = Ledger(
            share=bool(found["share"]),
            current=_number(found["current"]),
            training=_number(found["training"]),
            inbox=tuple(map(str, found["inbox"])),
            rounds=tuple(_made(Round, each, project) for each in found["rounds"]),
            entries={entry.id: entry for entry in entries},
            history=tuple(dict(each) for each in found["history"]),
        )
        _require_whole(ledger)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        what = f"is not as it was written ({type(error).__name__}: {error})"
        raise UserError(what, where=str(project / PROJECT), mend=MEND) from None
    return ledger


def _made(kind: type[Any], part: Any, project: Path) -> Any:
    return options_from(kind, "part", {"part": dict(part)}, project, PROJECT)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _require_whole(ledger: Ledger) -> None:
    """Rounds in their order, each from one before it, and no episode that is not listed."""
    for place, each in enumerate(ledger.rounds):
        parent = -1 if each.parent is None else each.parent
        if each.number != place or parent >= place or parent < -1:
            raise ValueError(f"round {each.number} from {each.parent}")
    strange = [each for each in ledger.entries if not ID.fullmatch(each)]
    if strange:
        raise ValueError(f"episode {strange[0][:80]!r}")
    named = [*ledger.inbox, *(one for each in ledger.rounds for one in each.episodes)]
    missing = [each for each in named if each not in ledger.entries]
    pointers = [each for each in (ledger.current, ledger.training) if each is not None]
    if missing or any(not 0 <= each < len(ledger.rounds) for each in pointers):
        raise ValueError("it names what is not in it")


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
