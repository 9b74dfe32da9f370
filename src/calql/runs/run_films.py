"""Films of a run: its policies before and after fine-tuning, each arm of a sweep, as many seeds as are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from calql.results.arms import arms_of, known_as
from calql.results.films import WHEN
from calql.results.metrics import write_atomically
from calql.runs.artifact import LoadedPolicy, load_policy
from calql.runs.film import Film, filmed
from calql.runs.film_files import require_kind, write_film
from calql.runs.frames import side_by_side
from calql.runs.record import read_config
from calql.runs.scores import Playing, playing_of
from calql.runs.trust import trust_run
from calql.system.errors import UserError
from calql.system.run_files import FILM_LIST, FILMS, POLICY_AT_SWITCH

Checkpoint = Literal["switch", "final"]
SIZE = 480  # pixels along the shorter side of each picture, at least
FILMED: tuple[Checkpoint, ...] = ("switch", "final")


@dataclass(frozen=True)
class Take:
    """One policy of a run, and what it is called on its film."""

    folder: Path  # that its policy is loaded from
    arm: str | None
    seed: int
    checkpoint: Checkpoint
    title: str

    @property
    def policy(self) -> LoadedPolicy:
        return load_policy(self.folder, seed=self.seed, arm=self.arm)


@dataclass(frozen=True)
class FilmedRun:
    """A run folder that films are made of; an episode's seed is the same for all, so that starts and goals are."""

    folder: Path
    config: dict[str, Any]
    playing: Playing

    @classmethod
    def of(cls, folder: Path, *, trust: bool = False) -> FilmedRun:
        if trust:
            trust_run(folder)
        config = read_config(folder)
        return cls(folder, config, playing_of(folder, config))

    def takes(self, seeds: Sequence[int], arm: str | None, checkpoints: Sequence[Checkpoint]) -> list[Take]:
        """The policies that are asked for: seeds row by row, arms and checkpoints beside each other."""
        at_switch = (self.folder / POLICY_AT_SWITCH).is_dir()
        there = [each for each in checkpoints if each == "final" or at_switch]
        if not there:
            raise UserError(
                "keeps no policy of the switch: it has not come there, or is a run of before",
                where=str(self.folder),
                mend="film it with --checkpoint final",
            )
        return [
            self._take(seed, each, checkpoint) for seed in seeds for each in self._arms(arm) for checkpoint in there
        ]

    def _arms(self, arm: str | None) -> list[str | None]:
        names = list(arms_of(self.config))
        if arm is not None and arm not in names:
            mend = f"its arms: {', '.join(names)}" if names else "leave --arm out: it is no sweep"
            raise UserError(f"the run has no arm '{arm}'", where=str(self.folder), mend=mend)
        return [arm] if arm is not None else [*names] or [None]

    def _take(self, seed: int, arm: str | None, checkpoint: Checkpoint) -> Take:
        folder = self.folder / POLICY_AT_SWITCH if checkpoint == "switch" else self.folder
        label = self._label(arm)
        return Take(folder, arm, seed, checkpoint, f"{label}, seed {seed}, {WHEN[checkpoint]}")

    def _label(self, arm: str | None) -> str:
        """What people call the arm, where it has a name of its own: CQL is Cal-QL with calibrate=false."""
        return known_as(self.config, arm or "")

    def film(self, take: Take, *, episode: int, size: int) -> Film:
        limit = self.playing.episode_limit
        return filmed(self.playing.make_env, take.policy, take.title, seed=episode, limit=limit, size=size)


def write_one(
    run: FilmedRun, out: Path, takes: Sequence[Take], *, columns: int, episode: int = 0, size: int = SIZE
) -> Path:
    """All takes as one film, side by side."""
    require_kind(out)
    films = [run.film(take, episode=episode, size=size) for take in takes]
    return write_film(out, side_by_side([film.pictures for film in films], columns), films[0].rate)


def write_films(run: FilmedRun, takes: Sequence[Take], *, episode: int = 0, size: int = SIZE) -> list[Path]:
    """A film of each take into the run's folder of films, where the report finds them."""
    place = run.folder / FILMS
    written = [_written(run, take, place, episode, size) for take in takes]
    text = json.dumps([entry for _, entry in written], indent=1)
    write_atomically(place / FILM_LIST, text + "\n")  # last: what it names is there
    return [path for path, _ in written]


def _written(run: FilmedRun, take: Take, place: Path, episode: int, size: int) -> tuple[Path, dict[str, Any]]:
    name = "-".join(_parts(take)) + ".gif"
    made = run.film(take, episode=episode, size=size)
    place.mkdir(exist_ok=True)  # not before there is a film: one that draws nothing leaves nothing behind
    path = write_film(place / name, made.pictures, made.rate)
    entry = {"file": name, "title": take.title, "arm": take.arm or "", "checkpoint": take.checkpoint, "seed": take.seed}
    return path, entry


def _parts(take: Take) -> Iterator[str]:
    if take.arm is not None:
        yield "".join(letter if letter.isalnum() or letter in "=._" else "_" for letter in take.arm)
    yield f"seed-{take.seed}"
    yield take.checkpoint
