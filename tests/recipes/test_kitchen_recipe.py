"""Kitchen recipes: D4RL's layout and rewards, and demonstrations that reach their tasks again."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from calql.data.certify import Recording, certify
from calql.data.dataset import Dataset
from calql.data.store import BuildContext
from calql.envs.kitchen import GOALS, TASK_SETS
from calql.errors import UserError
from calql.recipes import cloning, kitchen, kitchen_check
from calql.recipes.kitchen import EVERYBODY, RECIPES, Demonstrations, as_dataset, four_tasks, read_demonstrations

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


def test_rewards_count_the_tasks_satisfied_now_and_demonstrations_end_terminal() -> None:
    dataset = as_dataset(made_up(), "partial", "made up")
    assert dataset.rewards.tolist() == [0, 1, 2, 0, 0]
    assert dataset.terminals.tolist() == [False, False, True, False, True]
    assert not dataset.truncated.any()
    assert dataset.observations.shape == (5, 60)
    assert np.array_equal(dataset.next_observations[0], dataset.observations[1])
    assert np.array_equal(dataset.next_observations[2], dataset.observations[2])  # not the next demonstration's
    assert as_dataset(made_up(), "mixed", "made up").rewards.tolist() == [0, 1, 1, 0, 0]


def test_rollouts_are_paid_and_ended_as_demonstrations_are() -> None:
    demonstrated = as_dataset(made_up(), "mixed", "made up")
    as_played = replace(
        demonstrated,
        rewards=np.arange(5, dtype=np.float32),
        terminals=np.zeros(5, bool),
        truncated=demonstrated.terminals,
    )
    again = kitchen.as_demonstrated(as_played, "mixed")
    assert again.rewards.tolist() == [0, 1, 1, 0, 0]
    assert np.array_equal(again.terminals, demonstrated.terminals)
    assert not again.truncated.any()


@needs_sources
def test_a_clones_rollouts_follow_the_demonstrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kitchen, "CLONED_ROLLOUTS", 2)
    monkeypatch.setattr(kitchen, "CLONED_STEPS", 6)
    monkeypatch.setattr(cloning, "clone", partial(cloning.clone, updates=20))
    dataset = RECIPES["kitchen-complete-cloned"].build(BuildContext(seed=0, sources=SOURCES))
    assert (len(dataset), len(dataset.episode_ends)) == (3680 + 12, 21)
    assert dataset.notes[-1].startswith("2 rollouts of a clone, 6 steps each")
    assert RECIPES["kitchen-complete-cloned"].task == "kitchen-complete"


def test_certify_tells_the_goal_the_reward_and_the_replay_apart() -> None:
    dataset = as_dataset(made_up(), "partial", "made up")
    goal, reward, replay, *_ = kitchen_check.check("partial", Recording(dataset))
    assert goal.passed
    assert reward.passed
    assert replay.value == 0.5  # nobody touched the microwave that opens by itself; the other did nothing
    goal, reward, *_ = kitchen_check.check("mixed", Recording(dataset))
    assert goal.value == 5
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
    assert report.transitions == 5
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
        assert np.array_equal(dataset.observations, stored["observations"])
        assert np.array_equal(dataset.rewards, stored["rewards"])
        assert np.array_equal(dataset.terminals, stored["terminals"])
    assert (len(dataset), len(dataset.episode_ends)) == (3680, 19)
    assert four_tasks(dataset).all()


@needs_sources
def test_partial_and_mixed_are_everybody_with_goals_of_their_own() -> None:
    context = BuildContext(seed=0, sources=SOURCES)
    some, mixed = (RECIPES[f"kitchen-{kind}"].build(context) for kind in ("partial", "mixed"))
    assert len(some) == len(mixed) == 131_352
    assert np.array_equal(some.actions, mixed.actions)
    assert (four_tasks(some).sum(), four_tasks(mixed).sum()) == (19, 0)
    with np.load(SOURCES / EVERYBODY.path) as stored:
        assert np.array_equal(some.rewards, stored["reward_partial_d4rl"])
        assert np.array_equal(mixed.rewards, stored["reward_mixed_d4rl"])
    assert set(TASK_SETS["mixed"]) - set(TASK_SETS["partial"]) == {"bottom burner"}


@needs_sources
def test_demonstrations_reach_their_tasks_again_with_and_without_velocities() -> None:
    assert kitchen_check.replayed(SOURCES / EVERYBODY.path, indices=[7])[0].reached
    dataset = RECIPES["kitchen-complete"].build(BuildContext(seed=0, sources=SOURCES))
    one = dataset.select_episodes([4])
    assert all(check.passed for check in kitchen_check.check("complete", Recording(one)))
