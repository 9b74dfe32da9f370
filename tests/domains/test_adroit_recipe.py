"""Adroit recipes: what is cut where, what goes into each composition, and that demonstrations replay."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from calql.data.dataset import Dataset
from calql.data.formats.minari import write_minari
from calql.data.returns import return_to_go
from calql.data.store import BuildContext
from calql.domains.adroit import check as adroit_check
from calql.domains.adroit import data as adroit
from calql.domains.adroit import human as adroit_human
from calql.domains.adroit.data import COMPOSITIONS, RECIPES
from calql.domains.adroit.env import AdroitBinary
from calql.domains.adroit.human import Demonstration, cut, read_human, replay, success_of
from calql.domains.certify import certify
from calql.system.errors import UserError

SOURCES = Path(os.environ.get("CALQL_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
DOOR_FILE = SOURCES / "adroit_door_human" / "door_human_v0.npz"
needs_sources = pytest.mark.skipif(
    not DOOR_FILE.is_file(), reason=f"no demonstrations under {SOURCES} (set CALQL_SHARED_DATA)"
)


def test_cut_keeps_all_up_to_the_last_success_and_ends_at_every_success() -> None:
    observations = np.arange(8, dtype=np.float32)[:, None]
    actions = np.full((7, 2), 1.5, np.float32)
    successes = np.array([0, 0, 1, 1, 0, 1, 0], bool)
    kept = cut(observations, actions, successes)
    assert kept is not None
    assert kept.rewards.tolist() == [-1, -1, 0, 0, -1, 0]
    assert kept.terminals.tolist() == [False, False, True, True, False, True]
    assert kept.next_observations[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert kept.actions.max() == 1.0
    returns = [
        value
        for rows in kept.episodes()
        for value in return_to_go(10 * kept.rewards[rows] + 5, kept.terminals[rows], 0.99)
    ]
    assert np.allclose(returns, [-5.0495, -0.05, 5, 5, -0.05, 5], atol=1e-3)


def test_a_failed_trajectory_is_left_out() -> None:
    assert cut(np.zeros((4, 3), np.float32), np.zeros((3, 2), np.float32), np.zeros(3, bool)) is None


def test_a_replay_from_a_recorded_state_gives_what_was_seen() -> None:
    env = AdroitBinary("door", ends=False)
    first, _ = env.reset(seed=4)
    state = env.state()
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (12, 28)).astype(np.float32)
    seen = np.stack([first, *(env.step(action)[0] for action in actions)])
    again, successes = replay(env, Demonstration(state, actions, seen[:-1]))
    assert np.allclose(again, seen, atol=1e-4)
    assert successes.shape == (12,)


def test_success_follows_from_the_observation() -> None:
    for task in ("pen", "door", "relocate"):
        env = AdroitBinary(task)
        observation, info = env.reset(seed=0)
        assert success_of(task, observation[None])[0] == info["success"]
    door = np.zeros((2, 39), np.float32)
    door[:, 28] = [1.34, 1.36]
    assert success_of("door", door).tolist() == [False, True]


@pytest.mark.parametrize("name", sorted(COMPOSITIONS))
def test_without_sources_one_line_says_what_is_missing(name: str) -> None:
    with pytest.raises(UserError, match=r"missing .*npz .*from .*--sources") as raised:
        RECIPES[name].build(BuildContext(seed=0))
    assert "\n" not in str(raised.value)


def test_a_foreign_file_is_refused_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", actions=np.zeros((3, 28)), timeouts=np.array([0, 0, 1]), terminals=np.zeros(3, int))
    with pytest.raises(UserError, match="has no column 'init_qpos'"):
        read_human("door", tmp_path / "x.npz")


def demonstrations_of(dataset: Dataset) -> int:
    """Terminal rows that do not follow a terminal row: once per demonstration where success then lasts."""
    return int((dataset.terminals & ~np.concatenate([[False], dataset.terminals[:-1]])).sum())


Replays = dict[bytes, tuple[np.ndarray, np.ndarray]]


@pytest.fixture(scope="module")
def door_replays() -> Replays:
    """All 25 door demonstrations, replayed once for the tests below."""
    env = AdroitBinary("door", ends=False)
    return {d.actions.tobytes(): replay(env, d) for d in read_human("door", DOOR_FILE)}


@pytest.fixture
def _replayed_before(door_replays: Replays, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (adroit_human, adroit_check):
        monkeypatch.setattr(module, "replay", lambda env, d: door_replays[d.actions.tobytes()])


@needs_sources
@pytest.mark.usefixtures("_replayed_before")
def test_the_door_set_is_8_human_and_17_expert_successes() -> None:
    dataset = RECIPES["door-binary"].build(BuildContext(seed=0, sources=SOURCES))
    assert dataset.notes[0].startswith("8 human successes")
    assert dataset.notes[1].startswith("17 expert successes")
    assert set(np.unique(dataset.rewards)) == {-1.0, 0.0}
    assert np.array_equal(dataset.terminals, dataset.rewards == 0.0)
    assert np.array_equal(success_of("door", dataset.next_observations), dataset.terminals)
    assert 25 <= demonstrations_of(dataset) <= 40
    assert 2500 < len(dataset) < 3200


@needs_sources
def test_pen_keeps_the_human_success_as_recorded_and_fills_up_with_experts() -> None:
    dataset = RECIPES["pen-binary"].build(BuildContext(seed=0, sources=SOURCES))
    assert dataset.notes[0].startswith("1 human successes, 199 transitions")
    assert dataset.notes[1].startswith("24 expert successes")
    assert dataset.observations.shape[1:] == (45,)


@needs_sources
def test_a_seed_decides_the_rollouts() -> None:
    policy = adroit.load_policy(SOURCES / adroit.EXPERT["pen"].path)

    def successes(seed: int) -> np.ndarray:
        context = BuildContext(seed=seed)
        parts, _ = adroit.successful_rollouts("pen", policy, context, "pen expert", lambda kept, _: kept == 2, 2)
        return np.concatenate([part.actions for part in parts])

    first = successes(1)
    assert np.array_equal(first, successes(1))
    assert not np.array_equal(first[:5], successes(2)[:5])


@needs_sources
@pytest.mark.parametrize("kind", ["human", "expert", "cloned"])
@pytest.mark.parametrize("hand", ["pen", "door", "relocate"])
def test_steps_of_d4rls_slices_continue_here(hand: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adroit_check, "MOST_STEPS", 40)
    path = SOURCES / "d4rl_slices" / f"{hand}-{kind}-v1.npz"
    assert certify(f"{hand}-binary", path).passed
    with np.load(path) as stored:
        columns = dict(stored)
    entries, *_ = adroit_check.MOVED[hand]
    columns["observations"][:, entries] += 0.05
    assert not adroit_check.one_step_checks(hand, columns)[0].passed


@needs_sources
@pytest.mark.usefixtures("_replayed_before")
def test_door_demonstrations_replay_within_0_02_rad() -> None:
    door = certify("door-binary", DOOR_FILE)
    assert door.passed
    assert all(check.value >= 20 / 25 for check in door.checks)
    assert all(check.detail.endswith(" of 25") for check in door.checks)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_demonstrations_of_minaris_store_serve_where_there_are_no_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    rows = 9
    seen = np.zeros((rows + 1, 39), np.float32)
    seen[:, 28] = [0, 0.5, 1, 1.4, 1.2, 1.4, 1, 0, 0.5, 0.9]  # the hinge of two doors, of 6 and 3 steps
    ends = np.isin(np.arange(rows), (5, 8))
    recorded = Dataset(
        seen[:-1], np.full((rows, 28), 0.1, np.float32), np.full(rows, 7, np.float32), seen[1:], ends, ~ends & False
    )
    write_minari(recorded, "D4RL/door/human-v2")
    context = BuildContext(seed=0)
    made = RECIPES["door-binary-human"].build(context)
    assert made.rewards.tolist() == [-1, -1, 0, -1, 0]
    assert made.terminals.tolist() == [False, False, True, False, True]
    assert made.notes[0] == "1 human successes, 5 transitions, from minari:D4RL/door/human-v2"
    assert list(context.used) == ["minari:D4RL/door/human-v2"]


@needs_sources
def test_relocate_demonstrations_succeed_again() -> None:
    path = SOURCES / adroit.HUMAN["relocate"].path
    env = AdroitBinary("relocate", ends=False)
    demonstrations = read_human("relocate", path)
    assert len(demonstrations) == 24
    assert all(replay(env, demonstration)[1].any() for demonstration in demonstrations[:4])


@needs_sources
def test_data_of_another_task_is_refused() -> None:
    with pytest.raises(UserError, match="data of another task"):
        certify("pen-binary", DOOR_FILE)


@pytest.mark.parametrize("task", ["pen", "door"])
def test_certify_needs_no_more_of_a_state_than_the_first_files_have(task: str, tmp_path: Path) -> None:
    """D4RL's v0 files know joints alone: the door stands where it was seen, and the pen's aim moves nothing."""
    env, rng = AdroitBinary(task, ends=False), np.random.default_rng(0)
    seen, _ = env.reset(seed=3)
    rows: dict[str, list[np.ndarray]] = {"observations": [], "actions": [], "infos_qpos": [], "infos_qvel": []}
    for _ in range(30):
        state, action = env.state(), rng.uniform(-0.5, 0.5, env.action_space.shape).astype(np.float32)  # type: ignore[arg-type]
        for name, value in zip(rows, (seen, action, state["qpos"], state["qvel"]), strict=True):
            rows[name].append(value)
        seen, *_ = env.step(action)
    columns = {name: np.stack(column) for name, column in rows.items()}
    columns |= {"rewards": np.linspace(0.1, 2.0, 30), "terminals": np.zeros(30, bool), "timeouts": np.arange(30) == 29}
    np.savez(tmp_path / "v0.npz", **columns)  # type: ignore[arg-type]
    report = certify(f"{task}-binary", tmp_path / "v0.npz")
    assert report.passed, str(report)
    assert len(report.checks) == 2
    np.savez(tmp_path / "other.npz", **columns | {"actions": -columns["actions"]})  # type: ignore[arg-type]
    assert not certify(f"{task}-binary", tmp_path / "other.npz").passed
