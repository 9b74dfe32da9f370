"""Real recordings, where they are at hand: the slices of D4RL and the human demonstrations."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from calql.data import Dataset, describe, from_d4rl_arrays, load, normalise_actions, read_npz_arrays, return_to_go
from calql.system.errors import UserError

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CALQL_SHARED_DATA") or ROOT.parent / "shared" / "data")
SLICES = sorted((DATA / "d4rl_slices").glob("*.npz"))

pytestmark = pytest.mark.skipif(not SLICES, reason="no real recordings here: set CALQL_SHARED_DATA to their folder")

# name -> transitions, episodes, terminal episodes, mean return-to-go (0.99) of all rows
EXPECTED = {
    "ant_medium-v0": (1998, 2, 0, 304.605675),
    "ant_medium-v2": (2000, 2, 0, 345.638855),
    "ant_medium_replay-v1": (70, 2, 2, -20.866677),
    "ant_random-v1": (366, 2, 2, -41.271061),
    "antmaze-large-diverse-v0": (1996, 2, 0, 0.000000),
    "antmaze-large-play-v0": (1996, 2, 0, 0.000000),
    "antmaze-medium-diverse-v0": (66, 2, 2, 0.741908),
    "antmaze-medium-play-v0": (1996, 2, 0, 0.000000),
    "antmaze-umaze-diverse-v0": (1996, 2, 0, 0.000000),
    "antmaze-umaze-v0": (1400, 2, 0, 0.000000),
    "door-cloned-v1": (398, 2, 0, -17.973132),
    "door-expert-v1": (398, 2, 0, 1035.659714),
    "door-human-v1": (598, 2, 0, 120.771900),
    "halfcheetah_medium-v0": (1897, 2, 1, 384.708455),
    "halfcheetah_medium-v2": (2000, 2, 0, 440.529872),
    "halfcheetah_medium_replay-v1": (2000, 2, 0, -26.097003),
    "halfcheetah_random-v1": (2000, 2, 0, -26.254406),
    "hopper_medium-v0": (523, 2, 1, 225.675921),
    "hopper_medium-v2": (911, 2, 2, 267.766691),
    "hopper_medium_replay-v1": (49, 2, 2, 15.011734),
    "hopper_random-v1": (50, 2, 2, 12.621327),
    "pen-cloned-v1": (198, 2, 0, 646.380813),
    "pen-expert-v1": (198, 2, 0, 724.036385),
    "pen-human-v1": (398, 2, 0, 1697.434074),
    "relocate-cloned-v1": (398, 2, 0, -4.881313),
    "relocate-expert-v1": (398, 2, 0, 1490.748709),
    "relocate-human-v1": (787, 2, 0, 1079.601311),
    "walker2d_medium-v0": (746, 2, 1, 275.581221),
    "walker2d_medium-v2": (2000, 2, 0, 338.825321),
    "walker2d_medium_replay-v1": (31, 2, 2, 0.909926),
    "walker2d_random-v1": (44, 2, 2, -1.481532),
}


def returns(dataset: Dataset) -> np.ndarray:
    parts = [return_to_go(dataset.rewards[e], dataset.terminals[e], 0.99) for e in dataset.episodes()]
    return np.concatenate(parts)


@pytest.mark.parametrize("path", SLICES, ids=lambda path: path.stem)
def test_slices_of_d4rl(path: Path) -> None:
    transitions, episodes, terminal, mean = EXPECTED[path.stem]
    dataset = load(path)
    assert (len(dataset), len(dataset.episode_ends), int(dataset.terminals.sum())) == (transitions, episodes, terminal)
    assert returns(dataset).mean(dtype=np.float64) == pytest.approx(mean, rel=1e-5, abs=1e-5)
    assert not dataset.terminals[dataset.truncated].any()
    stored = np.load(path)
    kept = "next_observations" in stored.files
    assert transitions == len(stored["rewards"]) - (0 if kept else left_out(stored["terminals"], stored["timeouts"]))


def left_out(terminals: np.ndarray, timeouts: np.ndarray) -> int:
    """Time-out rows and the last row; these slices all close their last piece."""
    return int(timeouts.sum()) + int(terminals[-1] and not timeouts[-1])


def test_every_slice_is_expected() -> None:
    assert {path.stem for path in SLICES} <= set(EXPECTED)


def test_antmaze_slices_by_the_papers_rule() -> None:
    """Terminals in mid-trajectory: the one-step piece after the success is worth 5."""
    dataset = load(DATA / "d4rl_slices" / "antmaze-medium-diverse-v0.npz")
    mapped = dataset.rewards * 10 - 5
    first, second = [
        return_to_go(mapped[e], dataset.terminals[e], 0.99, sparse_failure_reward=-5.0) for e in dataset.episodes()
    ]
    steps = np.arange(64, -1, -1)
    np.testing.assert_allclose(first, 0.99**steps * 5 - 5 * (1 - 0.99**steps) / 0.01, atol=1e-3)
    assert second.tolist() == [5.0]
    failed = load(DATA / "d4rl_slices" / "antmaze-umaze-v0.npz")
    for rows in failed.episodes():
        part = return_to_go(failed.rewards[rows] * 10 - 5, failed.terminals[rows], 0.99, sparse_failure_reward=-5.0)
        assert (part == -500.0).all()


def test_human_door_demonstrations() -> None:
    dataset = load(DATA / "adroit_door_human" / "door_human_v0.npz")
    assert (len(dataset), len(dataset.episode_ends)) == (6729 - 25, 25)
    assert dataset.truncated.sum() == 25
    mapped, warnings = normalise_actions(dataset, -1.0, 1.0)
    outside = int((np.abs(dataset.actions) > 1 + 1e-6).any(axis=1).sum())
    assert outside > 1000
    assert warnings == [
        f"{outside} of 6704 actions lie outside the bounds, by a factor of up to 1.37, in 25 of 25 episodes; "
        "clipped to +-0.99999"
    ]
    assert np.abs(mapped.actions).max() == np.float32(0.99999)


@pytest.mark.parametrize(
    ("file", "rows", "episodes"),
    [
        ("adroit_door_human/door_human_replayed_gymrobotics142.npz", 6729, 25),
        ("adroit_relocate_human/relocate_human_24of25.npz", 9320, 24),
    ],
)
def test_ends_from_episode_lengths(file: str, rows: int, episodes: int) -> None:
    dataset = load(DATA / file)
    lengths = np.load(DATA / file)["episode_lengths"]
    assert len(dataset) == rows - episodes
    np.testing.assert_array_equal(dataset.episode_lengths, lengths - 1)
    assert any(note.startswith(f"{episodes} episode ends known from 'episode_lengths'") for note in dataset.notes)


def test_kitchen() -> None:
    """Terminals close each demonstration; the very last row is lost, as in the official loader."""
    dataset = load(DATA / "kitchen" / "kitchen_complete_d4rl_layout.npz")
    assert (len(dataset), len(dataset.episode_ends), int(dataset.terminals.sum())) == (3679, 19, 18)
    seen = describe(dataset)
    assert seen.rewards.high == 4
    assert seen.success_rate is None


def test_kitchen_with_other_keys() -> None:
    path = DATA / "kitchen" / "kitchen_replayed_FrankaKitchen-v1.npz"
    with pytest.raises(UserError, match="rename 'reward_mixed_d4rl' or 'reward_partial_d4rl' to 'rewards'"):
        load(path)
    arrays = read_npz_arrays(path)
    dataset = from_d4rl_arrays({**arrays, "rewards": arrays["reward_partial_d4rl"]}, str(path))
    assert (len(dataset), len(dataset.episode_ends)) == (131_352 - 580, 580)


def test_a_file_of_weights_is_not_data() -> None:
    with pytest.raises(UserError, match="no 'observations', 'actions', 'rewards' among its keys"):
        load(DATA / "ant_goal_policy" / "ant_hierarch_pol.npz")
