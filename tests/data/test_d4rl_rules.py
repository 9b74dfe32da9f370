"""D4RL's flat layout: the executed cases of the official loader, and a walk that mirrors it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from recordings import Arrays, recording, recordings, row_of

from calql.data import Dataset, from_d4rl_arrays, return_to_go
from calql.system.errors import UserError


def antmaze_returns(dataset: Dataset) -> list[list[float]]:
    """Per episode, with antmaze's rewards 10 r - 5 and its rule for failures."""
    mapped = 10.0 * dataset.rewards - 5.0
    return [
        return_to_go(mapped[rows], dataset.terminals[rows], 0.99, sparse_failure_reward=-5.0).tolist()
        for rows in dataset.episodes()
    ]


def test_timeout_rows_and_the_last_row_are_left_out() -> None:
    dataset = from_d4rl_arrays(recording([0] * 6, [0, 0, 1, 0, 0, 1]), "made")
    assert row_of(dataset) == [0, 1, 3, 4]
    assert dataset.next_observations[:, 0].tolist() == [1, 2, 4, 5]
    assert dataset.truncated.tolist() == [False, True, False, True]
    assert not dataset.terminals.any()
    assert dataset.notes == ("2 time-out rows left out: the following observation is not stored",)


def test_case_a_an_open_trailing_piece_is_dropped() -> None:
    dataset = from_d4rl_arrays(recording([0, 0, 1, 0, 0, 0], [0] * 6, [0, 0, 1, 0, 0, 0]), "made")
    assert row_of(dataset) == [0, 1, 2]
    assert dataset.terminals.tolist() == [False, False, True]
    assert any("3 rows after the last episode end" in note for note in dataset.notes)
    np.testing.assert_allclose(antmaze_returns(dataset)[0], [-5.0495, -0.05, 5], atol=1e-5)


def test_case_b_a_success_in_the_very_last_row_is_lost() -> None:
    dataset = from_d4rl_arrays(recording([0, 0, 0, 1], [0] * 4, [0, 0, 0, 1]), "made")
    assert row_of(dataset) == [0, 1, 2]
    assert dataset.truncated.tolist() == [False, False, True]
    assert antmaze_returns(dataset) == [[-500.0] * 3]
    assert any("last row is terminal and left out" in note for note in dataset.notes)


def test_terminals_in_mid_trajectory_make_pieces() -> None:
    """Consecutive terminals are one-step pieces worth 5; what follows them is a failure of its own."""
    arrays = recording([0, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 0], [0, 1, 1, 1, 0, 0, 0, 0])
    dataset = from_d4rl_arrays(arrays, "made")
    assert row_of(dataset) == [0, 1, 2, 3, 4, 5]
    assert dataset.episode_lengths.tolist() == [2, 1, 1, 2]
    assert [np.round(g, 4).tolist() for g in antmaze_returns(dataset)] == [
        [pytest.approx(-0.05, abs=1e-5), 5.0],
        [5.0],
        [5.0],
        [-500.0, -500.0],
    ]


def test_stored_next_observations_keep_every_closed_row() -> None:
    dataset = from_d4rl_arrays(recording([0, 1, 0, 0, 0], [0, 0, 0, 1, 0], stored=True), "made")
    assert row_of(dataset) == [0, 1, 2, 3]
    assert dataset.next_observations[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert dataset.truncated.tolist() == [False, False, False, True]
    assert dataset.notes == (
        "1 row after the last episode end left out: nothing closes them",
        "1 time-out row kept as truncated: 'next_observations' are stored",
    )


def test_a_row_that_is_terminal_and_a_timeout_is_skipped_and_said() -> None:
    dataset = from_d4rl_arrays(recording([0, 1, 0, 0], [0, 1, 0, 1]), "made")
    assert row_of(dataset) == [0, 2]
    assert any("1 of them also terminal" in note for note in dataset.notes)


def test_episode_lengths_end_episodes() -> None:
    arrays = recording([0, 0, 0, 0, 0], [0] * 5)
    del arrays["terminals"], arrays["timeouts"]
    dataset = from_d4rl_arrays({**arrays, "episode_lengths": np.array([3, 2])}, "made")
    assert row_of(dataset) == [0, 1, 3]
    assert dataset.truncated.tolist() == [False, True, True]
    assert any("2 episode ends" in note for note in dataset.notes)


def test_single_column_flags_and_rewards_are_flattened() -> None:
    arrays = recording([0, 1, 0], [0, 0, 1])
    for key in ("rewards", "terminals", "timeouts"):
        arrays[key] = arrays[key].astype(np.float64)[:, None]
    assert from_d4rl_arrays(arrays, "made").terminals.tolist() == [False, True]


def test_a_million_rows_are_read() -> None:
    rows = 1_000_000
    arrays = {
        "observations": np.zeros((rows, 4), np.float32),
        "actions": np.zeros((rows, 2), np.float32),
        "rewards": np.zeros(rows, np.float32),
        "terminals": np.zeros(rows, np.bool_),
        "timeouts": np.arange(rows) % 1000 == 999,
    }
    assert len(from_d4rl_arrays(arrays, "made")) == 999_000


def walk(arrays: Arrays) -> list[tuple[int, bool, bool]]:
    """The official loader as a loop, for files without next observations: (row, terminal, ends)."""
    out: list[tuple[int, bool, bool]] = []
    piece: list[tuple[int, bool, bool]] = []
    last = len(arrays["rewards"]) - 1
    for i in range(last + 1):
        terminal, timeout = bool(arrays["terminals"][i]), bool(arrays["timeouts"][i])
        if not timeout and i != last:
            piece.append((i, terminal, False))
        if (terminal or timeout) and piece:
            out += [*piece[:-1], (*piece[-1][:2], True)]
            piece = []
    return out


@given(recordings(stored=False))
def test_reader_equals_the_walk(arrays: Arrays) -> None:
    expected = walk(arrays)
    if not expected:
        with pytest.raises(UserError):
            from_d4rl_arrays(arrays, "made")
        return
    dataset = from_d4rl_arrays(arrays, "made")
    ends = dataset.terminals | dataset.truncated
    assert list(zip(row_of(dataset), dataset.terminals, ends, strict=True)) == expected


@given(recordings())
def test_nothing_is_made_up_and_no_episode_is_crossed(arrays: Arrays) -> None:
    closes = arrays["terminals"] | arrays["timeouts"]
    stored = "next_observations" in arrays
    assume(closes[: len(closes) if stored else -1].any() and (stored or walk(arrays)))
    dataset = from_d4rl_arrays(arrays, "made")
    rows = np.asarray(row_of(dataset))
    assert (np.diff(rows) > 0).all()
    for name in ("observations", "actions", "rewards", "terminals"):
        np.testing.assert_array_equal(getattr(dataset, name), arrays[name][rows])
    episode = np.cumsum(closes) - closes
    inside = ~dataset.terminals & ~dataset.truncated
    assert (episode[rows[:-1]] == episode[rows[1:]])[inside[:-1]].all()
    if not stored:
        open_rows = ~dataset.terminals
        following = dataset.next_observations[open_rows, 0].astype(int)
        np.testing.assert_array_equal(episode[following], episode[rows[open_rows]])


@given(recordings())
def test_next_actions_stay_in_their_episode(arrays: Arrays) -> None:
    closes = arrays["terminals"] | arrays["timeouts"]
    assume(closes.any() and ("next_observations" in arrays or walk(arrays)))
    dataset = from_d4rl_arrays(arrays, "made")
    following, known = dataset.next_actions()
    episode = np.cumsum(closes) - closes
    for i, row in enumerate(row_of(dataset)):
        if known[i]:
            after = round(float(following[i, 0]) * 1000)
            assert after == row + 1
            assert episode[after] == episode[row]
        else:
            assert (following[i] == 0).all()


@given(recordings())
def test_notes_account_for_every_row(arrays: Arrays) -> None:
    """What came out and what was left out add up."""
    closes = arrays["terminals"] | arrays["timeouts"]
    stored = "next_observations" in arrays
    assume(closes.any() and (stored or walk(arrays)))
    dataset = from_d4rl_arrays(arrays, "made")
    left_out = 0
    for note in dataset.notes:
        if "after the last episode end" in note or ("time-out row" in note and "left out" in note):
            left_out += int(note.split()[0])
        elif note.startswith("the last row is terminal"):
            left_out += 1
    assert len(dataset) + left_out == len(closes)
