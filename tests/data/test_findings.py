"""What is wrong with data alone: the same for `inspect` and `train`, errors apart from warnings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recordings import recording

import calql
import corridor
from calql.cli import main
from calql.data import Dataset, describe, from_d4rl_arrays, write_npz
from calql.data.findings import duplicate_rows, findings, require_sound
from calql.system.errors import UserError

TINY = {"seeds": 1, "offline_updates": 4, "online_steps": 20, "policy_widths": (8,), "critic_widths": (8,)}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed is not broken into lines."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def good() -> Dataset:
    return corridor.demonstrations(20)


def shuffled(data: Dataset) -> Dataset:
    """Rows in another order; the flags of the ends stay where they are, so that there are as many episodes."""
    order = np.random.default_rng(0).permutation(len(data))
    names = ("observations", "actions", "rewards", "next_observations")
    return replace(data, **{name: getattr(data, name)[order] for name in names}, source="shuffled.npz")


def without_successors(data: Dataset) -> Dataset:
    """As a file has it that stores no next observations: they are those of the following row."""
    return replace(data, next_observations=np.roll(data.observations, -1, axis=0))


def test_good_data_have_no_errors(good: Dataset) -> None:
    found = findings(good, episode_limit=20)
    assert found.errors == ()
    assert found.warnings == ("1 observation feature never changes (1)",)


def test_successors_that_were_never_recorded(good: Dataset) -> None:
    bad = replace(good, next_observations=np.zeros_like(good.observations))
    with pytest.raises(UserError, match=r"'next_observations' are the same in every row \(all zero\); record them"):
        require_sound(bad, 20)


def test_successors_that_follow_from_the_rows_are_not_told_of(tmp_path: Path) -> None:
    """Two rows in one episode: what comes after both is the last observation."""
    seen = np.array([[0.0], [1.0]], np.float32)
    ends = {"terminals": np.array([False, True]), "truncated": np.array([False, False])}
    two = Dataset(seen, seen, np.zeros(2, np.float32), seen[[1, 1]], **ends, source="two rows")
    assert findings(two).errors == ()


@pytest.mark.parametrize("rows", [np.zeros((1, 2), np.float32), np.zeros((8, 8, 3), np.float32), np.zeros(2, np.uint8)])
def test_observations_that_are_neither_a_vector_nor_a_picture(good: Dataset, rows: np.ndarray) -> None:
    strange = np.stack([rows] * len(good))
    strange[::2] += 1
    bad = replace(good, observations=strange, next_observations=1 - strange, parts=())
    with pytest.raises(UserError, match=r"'observations' holds (float32|uint8) of shape \[.*\] in each row; store"):
        require_sound(bad, 20)


def test_shuffled_rows_with_their_successors(good: Dataset) -> None:
    with pytest.raises(UserError, match="rows inside episodes have a next observation that is not the following row's"):
        require_sound(shuffled(good), 20)


def test_shuffled_rows_without_successors(good: Dataset) -> None:
    words = "rows may have been shuffled"
    assert any(words in warning for warning in findings(without_successors(shuffled(good))).warnings)
    assert not any(words in warning for warning in findings(without_successors(good)).warnings)


def test_one_missing_end_is_a_warning(good: Dataset) -> None:
    first = int(good.episode_ends[0])
    terminals = good.terminals.copy()
    terminals[first] = False
    found = findings(replace(good, terminals=terminals))
    assert found.errors == ()
    assert any("an episode end may be missing there" in warning for warning in found.warnings)


def test_episodes_longer_than_the_time_limit(good: Dataset) -> None:
    lengths = good.episode_lengths
    (warning,) = [w for w in require_sound(good, int(lengths.min()) - 1) if "time limit" in w]
    assert f"20 of 20 episodes are longer than the time limit of {lengths.min() - 1} steps" in warning
    assert not [w for w in require_sound(good, int(lengths.max())) if "time limit" in w]


def test_inspect_and_train_say_the_same(good: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = replace(good, next_observations=np.zeros_like(good.observations))
    path = write_npz(bad, tmp_path / "bad.npz")
    assert main(["data", "inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "Errors, which training refuses:" in shown
    assert "'next_observations' are the same in every row" in shown.lower()
    with pytest.raises(UserError, match="'next_observations' are the same in every row"):
        calql.train(dataset=path, env="corridor:Corridor-v0", out=tmp_path / "run", **TINY)
    assert not (tmp_path / "run").exists()


def test_repeated_rows_are_counted_by_checksum() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (500, 2)).astype(np.float32)  # few values, so that many rows repeat
    data = from_d4rl_arrays({**recording([0] * 499 + [1], [0] * 500), "observations": rows}, "made")
    data = replace(data, actions=np.round(data.actions, 1), rewards=np.zeros(len(data), np.float32))
    joined = np.column_stack([data.observations, data.actions, data.rewards])
    assert duplicate_rows(data) == len(data) - len(np.unique(joined, axis=0)) > 100


def test_a_terminal_in_the_last_row_is_not_no_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arrays = recording([0, 0, 0, 0, 1], [0, 0, 0, 0, 0])
    seen = describe(from_d4rl_arrays(arrays, "made"))
    assert not any("terminal" in problem for problem in seen.problems)
    np.savez(tmp_path / "last.npz", **arrays)  # type: ignore[arg-type]
    assert main(["data", "inspect", str(tmp_path / "last.npz")]) == 0
    assert "(one more is terminal, in the last row, which is left out)" in capsys.readouterr().out


def test_returns_say_where_rows_are_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for stored, said in ((False, True), (True, False)):
        np.savez(tmp_path / "a.npz", **recording([0, 0, 1, 0, 0], [0, 0, 0, 0, 1], stored=stored))  # type: ignore[arg-type]
        assert main(["data", "inspect", str(tmp_path / "a.npz")]) == 0
        assert ("without time-out rows" in capsys.readouterr().out) == said


def test_actions_are_no_problem_before_their_bounds_are_known(good: Dataset) -> None:
    assert np.abs(good.actions).max() > 1
    assert not any("action" in problem for problem in describe(good).problems)


def test_inspect_compares_with_an_environment_where_one_is_named(
    good: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rewards and lengths unlike the task's: 20 to 315 where it pays 0 and 1, and no end within its limit of 20."""
    other = replace(
        good,
        rewards=np.linspace(20.0, 315.0, len(good)).astype(np.float32),
        terminals=np.arange(len(good)) == len(good) - 1,
    )
    path = write_npz(other, tmp_path / "other.npz")
    said = ("1 of 1 episodes are longer than the time limit of 20 steps", "may use different rewards")
    assert main(["data", "inspect", str(path), "--split-at-jumps"]) == 2  # an option of training
    assert main(["data", "inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert not any(words in shown for words in said)
    assert main(["data", "inspect", str(path), "--env", "corridor:Corridor-v0"]) == 0
    shown = capsys.readouterr().out
    assert all(words in shown.lower() for words in said)
    wide = write_npz(replace(good, actions=np.tile(good.actions, 2)), tmp_path / "wide.npz")
    assert main(["data", "inspect", str(wide), "--env", "corridor:Corridor-v0"]) == 0
    assert "Actions have shape (1,) and those of" in capsys.readouterr().out
