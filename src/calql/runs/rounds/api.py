"""Rounds from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calql.data import Dataset, Reading
from calql.domains.own.tasks import MakeEnv
from calql.methods import DEFAULT_METHOD
from calql.results.rounds import RoundSummary, warnings
from calql.runs import api, life
from calql.runs.rounds import collecting, project
from calql.runs.rounds.branch import round_folder
from calql.runs.rounds.ledger import read_ledger
from calql.runs.rounds.project import Added
from calql.runs.rounds.scores import summaries
from calql.system.run_files import POLICY


class Rounds:
    """A project of rounds: train offline, deploy, collect, add what was collected, train on, deploy again."""

    def __init__(self, folder: str | Path) -> None:
        """The project in a folder that `Rounds.start` or `calql round start` made."""
        self.folder = project.require_project(Path(folder))

    @classmethod
    def start(
        cls,
        folder: str | Path,
        task: str | None = None,
        *,
        dataset: str | Path | Dataset | None = None,
        env: str | MakeEnv | None = None,
        method: str = DEFAULT_METHOD,
        preset: str = "default",
        share: bool = True,
        progress: bool = True,
        probe: bool = True,
        keep_data: bool | None = None,
        **options: Any,
    ) -> Rounds:
        """Make a project and train its round 0 on logged data.

        Further keywords as for `calql.train`; without a task and an environment, the logs are all there is. With
        `share` every seed learns from every new episode, else from those that its own policy collected.
        """
        place = Path(folder)
        project.refuse_taken(place)
        watching = life.watched(progress)
        if task is None and env is None:
            options["offline"] = True
        ready = api.make_ready(
            task, dataset=dataset, env=env, method=method, preset=preset, display=watching.display, probe=probe,
            vary=None, keep_data=keep_data, **{"online_steps": 0, **options},
        )  # fmt: skip
        command = "calql.Rounds.start(...)"
        project.start(place, ready.prepared, watching, command, share=share, kept=ready.kept, note=ready.note)
        return cls(place)

    @property
    def current(self) -> int | None:
        """The number of the present round; None until round 0 is trained."""
        return read_ledger(self.folder).current

    @property
    def policy(self) -> Path:
        """The folder of the present round's policies, for `calql.load_policy`."""
        return round_folder(self.folder, self.current or 0) / POLICY

    @property
    def rounds(self) -> list[RoundSummary]:
        """Every round with what its policy came to."""
        return summaries(self.folder, read_ledger(self.folder))

    @property
    def warnings(self) -> list[str]:
        """Rounds that did worse than the one before, in words."""
        return warnings(self.rounds, str(self.folder))

    def collect(
        self,
        episodes: int,
        *,
        env: str | MakeEnv | None = None,
        seed: int | None = None,
        episode_limit: int | None = None,
    ) -> list[Path]:
        """Play episodes with the present policies, exploring, and write a file for each."""
        return collecting.collect(self.folder, episodes, env=env, seed=seed, episode_limit=episode_limit)

    def add(
        self,
        *files: str | Path,
        columns: Sequence[str] = (),
        observations: Sequence[str] = (),
        reward: str | None = None,
        drop_bad_episodes: bool = False,
        round: int | None = None,
        seed: int | None = None,
    ) -> Added:
        """Check files of new episodes and add them to the queue of the next round; an episode that is known is skipped.

        `round` and `seed` say whose policy collected them, where the files do not; by default the present round's.
        """
        reading = Reading(tuple(columns), tuple(observations), reward, drop_bad_episodes)
        return project.add(self.folder, files, reading, round=round, seed=seed)

    def train(self, *, progress: bool = True, watching: life.Watching | None = None, **given: Any) -> life.Outcome:
        """Train the next round on what was added; or go on with one that was broken off.

        `env` and `dataset` again, where `start` was given a function that cannot be imported or data it did not keep.
        """
        return project.train(self.folder, watching or life.watched(progress), **given)

    def back(self, number: int, *, keep_episodes: bool = False) -> None:
        """Make an earlier round the present one. Its later rounds' episodes are set aside, or wait again."""
        project.back(self.folder, number, keep_episodes=keep_episodes)
