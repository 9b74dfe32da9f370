"""Cutting logged episodes where the recording jumps."""

from __future__ import annotations

import numpy as np
import pytest

import corridor
from calql.data import Dataset, split_at_jumps
from calql.runs import preparation, request
from calql.system import walk


def recording(kind: type = np.float32) -> Dataset:
    """Observations 0 1 2 | 7 8 | 20: the first | has no flag, the second has."""
    seen = np.array([0, 1, 2, 7, 8, 20]).reshape(-1, 1, 1, 1).astype(kind)
    following = np.array([1, 2, 3, 8, 9, 21]).reshape(-1, 1, 1, 1).astype(kind)
    return Dataset(
        observations=seen,
        actions=np.zeros((6, 1), np.float32),
        rewards=np.zeros(6, np.float32),
        next_observations=following,
        terminals=np.array([0, 0, 0, 0, 1, 0], bool),
        truncated=np.array([0, 0, 0, 0, 0, 1], bool),
        source="recording",
    )


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
@pytest.mark.parametrize("chunk", [1, 2, 3, 8192])
def test_an_episode_ends_where_the_next_row_does_not_follow(
    kind: type, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "AT_ONCE", chunk * recording(kind).observations[:1].nbytes)
    cut = split_at_jumps(recording(kind))
    assert cut.truncated.tolist() == [False, False, True, False, False, True]
    assert cut.terminals.tolist() == recording().terminals.tolist()  # a terminal stays one
    assert cut.notes == ("1 episode cut where the observation jumps",)


def test_rounding_is_no_jump() -> None:
    whole = recording()
    whole.next_observations[0] += 5e-7
    assert not split_at_jumps(whole).truncated[0]
    whole.next_observations[0] += 2e-6
    assert split_at_jumps(whole).truncated[0]


def test_whole_recordings_are_left_as_they_are() -> None:
    whole = corridor.demonstrations()
    assert split_at_jumps(whole) is whole


def test_the_option_cuts_before_returns_are_summed() -> None:
    """A failing stretch that a later success would have redeemed is one of its own."""
    whole = corridor.demonstrations()
    merged = whole.terminals.copy()
    first = int(np.flatnonzero(merged)[0])
    merged[first] = False  # two walks under one flag
    data = Dataset(
        observations=whole.observations, actions=whole.actions, rewards=whole.rewards,
        next_observations=whole.next_observations, terminals=merged, truncated=whole.truncated, source="merged",
    )  # fmt: skip
    counts = []
    for split in (False, True):
        choice = request.Choice(method="bc", episode_limit=20)
        task, own, notes = request.resolve_task(choice, corridor.Corridor, data)
        run, options = request.defaults(choice, task)
        run, options = request.set_options(run, options, {"split_at_jumps": split}, "bc")
        experiment = preparation.prepare(choice, task, own, run, options, notes)
        counts.append(len(preparation.plan(experiment).inputs.episode_starts))
    assert counts[1] == counts[0] + 1


def test_the_preset_of_corl_sets_options_of_the_run_too() -> None:
    run, _ = request.defaults(request.Choice(preset="corl"))
    assert (run.update_schedule, run.split_at_jumps, run.failure_test) == ("step", True, "last")
    run, _ = request.defaults(request.Choice())
    assert (run.update_schedule, run.split_at_jumps, run.failure_test) == ("trajectory", False, "all")
