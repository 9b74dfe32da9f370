"""Episodes handed in from elsewhere do to a run what the same episodes did that it played itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_run import build

from calql.engine.checkpoint import Arrays
from calql.engine.episodes import Episode
from calql.engine.handed_in import require_whole_episodes
from calql.engine.options import RunOptions
from calql.engine.run import Run
from calql.results import Silent, read_rows
from calql.system.errors import UserError
from calql.system.run_files import METRICS, STANDING

pytestmark = pytest.mark.slow


class Lists:
    """The first so many episodes of each seed."""

    def __init__(self, of_seed: Sequence[Sequence[Episode]], counts: Sequence[int]) -> None:
        self._of_seed, self._counts = of_seed, counts

    def count(self, index: int) -> int:
        return min(self._counts[index], len(self._of_seed[index]))

    def episode(self, index: int, number: int) -> Episode:
        return self._of_seed[index][number]


@contextmanager
def noted(run: Run) -> Iterator[list[list[Episode]]]:
    """The episodes that each seed of a run takes in."""
    found: list[list[Episode]] = [[] for _ in run.plan.seeds]
    insert = run._insert

    def note(episodes: Sequence[Episode | None]) -> None:
        for index, episode in enumerate(episodes):
            if episode is not None:
                found[index].append(episode)
        insert(episodes)

    run._insert = note  # type: ignore[method-assign]
    yield found


def final(folder: Path) -> Arrays:
    newest = max((folder / "checkpoints").glob("*.npz"), key=lambda path: int(path.stem))
    with np.load(newest) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[list[Episode]]]:
    """A run that plays its own episodes, and these."""
    run = build(tmp_path_factory.mktemp("played") / "r", evaluate_online_every=20)
    with noted(run) as episodes:
        assert run.execute(lambda: False)
    run.close()
    return run, episodes


def hand_in(
    run: Run, folder: Path, episodes: Sequence[Sequence[Episode]], counts: Sequence[int], **changes: Any
) -> Run:
    """Take a run in a folder as far as the first `counts` episodes bring it, in an object of its own."""
    options = dataclasses.replace(run.options, online_steps=run.options.online_steps, **changes)
    plan = dataclasses.replace(run.plan, options=options, handed_in=Lists(episodes, counts))
    folder.mkdir(exist_ok=True)
    going = Run(plan, folder, Silent())
    if going.checkpoints.latest is not None:
        going.restore()
        going.output.metrics.truncate(going.output.rows_written)
    assert going.execute(lambda: False)
    going.close()
    return going


def test_three_rounds_equal_the_run_that_played_the_episodes(
    played: tuple[Run, list[list[Episode]]], tmp_path: Path
) -> None:
    """To the byte of rows and of everything that a checkpoint holds, though seeds have had unequal shares of them."""
    run, episodes = played
    assert min(map(len, episodes)) >= 3
    for counts in ([0, 0], [2, 1], [3, 3], [99, 99]):
        hand_in(run, tmp_path / "r", episodes, counts)
    own, theirs = (folder / METRICS for folder in (run.folder, tmp_path / "r"))
    assert own.read_bytes().startswith(theirs.read_bytes())
    rest = (
        own.read_text().removeprefix(theirs.read_text()).splitlines()
    )  # of the end, which more episodes would put off
    assert len(rest) <= 2
    assert set(rest) <= set((tmp_path / "r" / STANDING).read_text().splitlines())
    expected, found = final(run.folder), final(tmp_path / "r")
    kept = [name for name in expected if name.split("/")[0] in ("state", "replay", "inserted", "updates", "returns")]
    for name in kept:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_at_the_end_of_a_round_rows_stand_aside(played: tuple[Run, list[list[Episode]]], tmp_path: Path) -> None:
    run, episodes = played
    hand_in(run, tmp_path / "r", episodes, [1, 1], evaluate_online_every=1000)
    rows = read_rows(tmp_path / "r" / STANDING)
    assert [(row["seed"], row["env_steps"]) for row in rows] == [(s, len(episodes[s][0].rewards)) for s in (0, 1)]
    assert all(row["update"] == 12 + row["env_steps"] and row["collected_episodes"] == 1 for row in rows)
    assert all(row["phase"] == "offline" for row in read_rows(tmp_path / "r" / METRICS))
    assert final(tmp_path / "r")["counters/collected_episodes"].tolist() == [1, 1]  # as if nobody had looked


def test_an_episode_may_be_longer_than_any_before(played: tuple[Run, list[list[Episode]]], tmp_path: Path) -> None:
    run, episodes = played
    one = episodes[0][0]
    long = dataclasses.replace(
        one,
        observations=np.tile(one.observations[:1], (48, 1)),
        actions=np.tile(one.actions[:1], (47, 1)),
        rewards=np.zeros(47),
        terminal=False,
    )
    going = hand_in(run, tmp_path / "r", [[long], [one]], [1, 1])
    assert going.counters.env_steps.tolist() == [47, len(one.rewards)]
    assert going.replay.inserted.tolist() == [47, len(one.rewards)]


def test_how_a_run_would_collect_cannot_be_asked_for() -> None:
    with pytest.raises(UserError, match="1 where episodes are handed in"):
        require_whole_episodes(RunOptions(trajectories=2))
    with pytest.raises(UserError, match="trajectory where episodes are handed in"):
        require_whole_episodes(RunOptions(update_schedule="step"))
