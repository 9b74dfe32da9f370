"""Kitchen recipes: D4RL's layout and rewards, and demonstrations that reach their tasks again."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from calql.data.d4rl import from_d4rl_arrays
from calql.data.dataset import Dataset
from calql.data.store import BuildContext
from calql.domains.certify import certify
from calql.domains.checks import Recording
from calql.domains.common import cloning
from calql.domains.kitchen import check as kitchen_check
from calql.domains.kitchen import data as kitchen
from calql.domains.kitchen.data import EVERYBODY, RECIPES, Demonstrations, as_dataset, four_tasks, read_demonstrations
from calql.domains.kitchen.env import GOALS, TASK_SETS, observation_60
from calql.domains.kitchen.tasks import TASKS
from calql.methods.reference import Fit, MonteCarlo, over_episodes
from calql.system.errors import UserError

SOURCES = Path(os.environ.get("CALQL_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
needs_sources = pytest.mark.skipif(
    not (SOURCES / EVERYBODY.path).is_file(),
    reason=f"no demonstrations under {SOURCES} (set CALQL_SHARED_DATA)",
)


def made_up() -> Demonstrations:
    """Two demonstrations of 3 and 2 steps; the first opens the microwave and then the slide cabinet."""
    observations = np.random.default_rng(0).normal(0, 0.01, (5, 59)).astype(np.float32)
    observations[1:3, 9 + 22] = -0.75  # joints follow 9 robot positions and 9 robot velocities
    observations[2, 9 + 19] = 0.37
    return Demonstrations(observations, np.zeros((5, 9), np.float32), np.array([3, 2]), (("microwave",),) * 2)


def official_walk(lengths: list[int], rewards: list[float], discount: float) -> list[tuple[int, int, bool, float]]:
    """The authors' loader as a loop over the file: (row, row of the next observation, terminal, return-to-go)."""
    ends = set((np.cumsum(lengths) - 1).tolist())
    last, kept, piece = len(rewards) - 1, [], []
    for i in range(last + 1):
        if i != last:
            piece.append((i, i in ends))
        if i in ends and piece:
            following, values = rewards[piece[-1][0]] / (1.0 - discount), []
            for row, done in reversed(piece):
                following = rewards[row] + discount * (0.0 if done else following)
                values.append(following)
            kept += [(row, row + 1, done, g) for (row, done), g in zip(piece, reversed(values), strict=True)]
            piece = []
    return kept


def test_demonstrations_are_read_as_the_authors_loader_reads_them() -> None:
    """Terminal at the end of every demonstration but the last, which loses its last row and goes on for ever."""
    made = made_up()
    made.observations[3:, 9 + 22] = -0.75  # the last one keeps the microwave open
    dataset = as_dataset(made, "partial", "made up")
    rows = observation_60(made.observations, TASK_SETS["partial"])
    rule = next(task for task in TASKS if task.name == "kitchen-partial").rewards
    values = over_episodes(MonteCarlo(rule, 0.99), Fit(dataset, rule, 0.99))
    expected = official_walk([3, 2], [0, 1, 2, 1, 1], 0.99)
    assert [row for row, *_ in expected] == [0, 1, 2, 3]
    assert dataset.rewards.tolist() == [0, 1, 2, 1]
    assert np.array_equal(dataset.observations, rows[[row for row, *_ in expected]])
    assert np.array_equal(dataset.next_observations, rows[[after for _, after, *_ in expected]])
    assert dataset.terminals.tolist() == [done for _, _, done, _ in expected] == [False, False, True, False]
    assert dataset.truncated.tolist() == [False, False, False, True]
    np.testing.assert_allclose(values, [g for *_, g in expected], rtol=1e-6)
    assert values[-1] == pytest.approx(100.0)  # 1 / (1 - 0.99), where a terminal would leave 1
    assert as_dataset(made_up(), "mixed", "made up").rewards.tolist() == [0, 1, 1, 0]


def test_a_time_out_in_a_kitchen_file_is_skipped_and_closes_its_demonstration() -> None:
    made = made_up()
    columns = {
        "observations": observation_60(made.observations, TASK_SETS["partial"]),
        "actions": made.actions,
        "rewards": np.array([0, 1, 2, 0, 0], np.float32),
        "terminals": np.array([0, 0, 0, 0, 1], bool),
        "timeouts": np.array([0, 0, 1, 0, 0], bool),
    }
    dataset = from_d4rl_arrays(columns, "made up")
    assert dataset.rewards.tolist() == [0, 1, 0]
    assert not dataset.terminals.any()
    assert dataset.truncated.tolist() == [False, True, True]


def test_rollouts_are_paid_as_demonstrations_are_and_end_by_the_time_limit() -> None:
    demonstrated = as_dataset(made_up(), "mixed", "made up")
    ends = demonstrated.terminals | demonstrated.truncated
    as_played = replace(
        demonstrated, rewards=np.arange(4, dtype=np.float32), terminals=np.zeros(4, bool), truncated=ends
    )
    again = kitchen.paid_as_demonstrated(as_played, "mixed")
    assert again.rewards.tolist() == [0, 1, 1, 0]
    assert not again.terminals.any()
    assert np.array_equal(again.truncated, ends)


@needs_sources
def test_a_clones_rollouts_follow_the_demonstrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kitchen, "CLONED_ROLLOUTS", 2)
    monkeypatch.setattr(kitchen, "CLONED_STEPS", 6)
    monkeypatch.setattr(cloning, "clone", partial(cloning.clone, updates=20))
    dataset = RECIPES["kitchen-complete-cloned"].build(BuildContext(seed=0, sources=SOURCES))
    assert (len(dataset), len(dataset.episode_ends)) == (3679 + 12, 21)
    assert dataset.terminals.sum() == 18  # neither the last demonstration's end nor those of rollouts
    assert dataset.notes[-1].startswith("2 rollouts of a clone, 6 steps each")
    assert RECIPES["kitchen-complete-cloned"].task == "kitchen-complete"


def test_certify_tells_the_goal_the_reward_and_the_replay_apart() -> None:
    dataset = as_dataset(made_up(), "partial", "made up")
    goal, reward, replay, *_ = kitchen_check.check("partial", Recording(dataset))
    assert goal.passed
    assert reward.passed
    assert replay.value == 0.5  # nobody touched the microwave that opens by itself; the other did nothing
    goal, reward, *_ = kitchen_check.check("mixed", Recording(dataset))
    assert goal.value == 4
    assert not reward.passed


def test_data_of_another_task_is_refused() -> None:
    ant = Dataset(
        observations=np.zeros((1, 29), np.float32),
        actions=np.zeros((1, 8), np.float32),
        rewards=np.zeros(1, np.float32),
        next_observations=np.zeros((1, 29), np.float32),
        terminals=np.ones(1, bool),
        truncated=np.zeros(1, bool),
    )
    with pytest.raises(UserError, match="29 dimensions and kitchen-mixed's have 60"):
        certify("kitchen-mixed", ant)


def test_every_word_of_a_folder_name_is_a_task() -> None:
    assert set(kitchen.WORDS.values()) == set(GOALS)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_without_sources_one_line_says_what_is_missing(name: str) -> None:
    with pytest.raises(UserError, match=r"missing kitchen/.*npz .*from relay-policy-learning"):
        RECIPES[name].build(BuildContext(seed=0))


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", actions=np.zeros((3, 9)), observations=np.zeros((3, 60)))
    with pytest.raises(UserError, match="no kitchen demonstrations"):
        read_demonstrations(tmp_path / "x.npz")


@pytest.mark.parametrize("kind", ["complete", "partial", "mixed"])
def test_demonstrations_in_the_simulators_layout_are_certified_by_their_recorded_rewards(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_up()
    columns = {
        "observations": made.observations,
        "actions": made.actions,
        "episode_lengths": made.lengths,
        "task_dir": np.array(["1_microwave_slide", "2_kettle"]),
        "reward_partial_d4rl": np.array([0, 1, 2, 0, 0], np.float32),
        "reward_mixed_d4rl": np.array([0, 1, 1, 0, 0], np.float32),
    }
    jobs: list[kitchen_check.Replay] = []

    def note(job: kitchen_check.Replay) -> kitchen_check.Replayed:
        jobs.append(job)
        return kitchen_check.Replayed(job.tasks == ("kettle",), 0.01, 0.002)

    monkeypatch.setattr(kitchen_check, "replay", note)
    monkeypatch.setattr(kitchen_check, "available_cores", lambda: 1)
    np.savez(tmp_path / "x.npz", **columns)
    report = certify(f"kitchen-{kind}", tmp_path / "x.npz")
    assert report.transitions == 4
    assert [job.tasks for job in jobs] == [("microwave", "slide cabinet"), ("kettle",)]
    goal, reward, again, robot, objects = report.checks
    assert (goal.passed, reward.passed, again.value, again.detail) == (True, True, 0.5, "1 of 2")
    assert (robot.value, objects.value) == (0.01, 0.002)
    np.savez(tmp_path / "y.npz", **columns | {kitchen_check.REWARDS[kind]: np.array([0, 0, 2, 0, 0], np.float32)})
    assert not certify(f"kitchen-{kind}", tmp_path / "y.npz").checks[1].passed


@needs_sources
def test_complete_is_d4rls_set_to_the_row() -> None:
    dataset = RECIPES["kitchen-complete"].build(BuildContext(seed=0, sources=SOURCES))
    with np.load(SOURCES / kitchen.COMPLETE.path) as stored:
        assert np.array_equal(dataset.observations, stored["observations"][:-1])
        assert np.array_equal(dataset.next_observations, stored["observations"][1:])
        assert np.array_equal(dataset.rewards, stored["rewards"][:-1])
        assert np.array_equal(dataset.terminals, stored["terminals"][:-1])
    assert (len(dataset), len(dataset.episode_ends)) == (3679, 19)
    assert four_tasks(dataset).all()


@needs_sources
def test_partial_and_mixed_are_everybody_with_goals_of_their_own() -> None:
    context = BuildContext(seed=0, sources=SOURCES)
    some, mixed = (RECIPES[f"kitchen-{kind}"].build(context) for kind in ("partial", "mixed"))
    assert len(some) == len(mixed) == 131_351
    assert np.array_equal(some.actions, mixed.actions)
    assert (four_tasks(some).sum(), four_tasks(mixed).sum()) == (19, 0)
    with np.load(SOURCES / EVERYBODY.path) as stored:
        assert np.array_equal(some.rewards, stored["reward_partial_d4rl"][:-1])
        assert np.array_equal(mixed.rewards, stored["reward_mixed_d4rl"][:-1])
    assert set(TASK_SETS["mixed"]) - set(TASK_SETS["partial"]) == {"bottom burner"}


@needs_sources
def test_demonstrations_reach_their_tasks_again_with_and_without_velocities() -> None:
    assert kitchen_check.replayed(SOURCES / EVERYBODY.path, indices=[7])[0].reached
    dataset = RECIPES["kitchen-complete"].build(BuildContext(seed=0, sources=SOURCES))
    one = dataset.select_episodes([4])
    assert all(check.passed for check in kitchen_check.check("complete", Recording(one)))
