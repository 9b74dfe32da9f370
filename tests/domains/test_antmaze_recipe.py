"""AntMaze data: waypoints, labels, and builds that do not depend on how they are spread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calql.data.store import BuildContext, manifest, obtain
from calql.domains.antmaze.data import (
    GOAL_POLICY,
    RECIPES,
    cell_of,
    coverage,
    labelled,
    next_cells,
    plan,
    trajectory,
    walk_success,
    waypoint,
)
from calql.domains.antmaze.env import AntMazeEnv, cells, centre
from calql.domains.common.policies import StoredPolicy
from calql.domains.datasets import build, recipe
from calql.system.errors import UserError


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sources folder with an untrained policy of the right shape."""
    monkeypatch.setenv("CALQL_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("CALQL_SOURCES", raising=False)
    rng = np.random.default_rng(0)
    target = tmp_path / "sources" / GOAL_POLICY.path
    target.parent.mkdir(parents=True)
    shapes = {"fc0": (16, 29), "last_fc": (8, 16), "last_fc_log_std": (8, 16)}
    layers = {f"{name}_weight": 0.1 * rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    layers |= {f"{name}_bias": np.zeros(shape[0], np.float32) for name, shape in shapes.items()}
    np.savez(target, **layers)  # type: ignore[arg-type]
    return tmp_path / "sources"


def still(actions: int = 8, observations: int = 29) -> StoredPolicy:
    zero = np.zeros((observations, actions), np.float32)
    return StoredPolicy((), (zero, zero[0]), None, "relu", True)


@pytest.mark.parametrize("maze", ["umaze", "medium", "large"])
def test_waypoints_lead_from_everywhere_to_everywhere(maze: str) -> None:
    table, free = next_cells(maze), cells(maze, "0RG")
    for target in free:
        for start in free:
            here, steps = start, 0
            while here != target:
                following = table[here, target]
                assert abs(following[0] - here[0]) + abs(following[1] - here[1]) == 1
                assert following in free
                here, steps = following, steps + 1
                assert steps < 60
    assert table[(1, 1), (3, 1)] == (1, 2) if maze == "umaze" else True


def test_rounding_and_waypoints_are_d4rls() -> None:
    assert cell_of(np.array([-1.0, 0.5])) == (1, 1)
    assert cell_of(np.array([3.9, 4.1])) == (2, 1)
    rng = np.random.default_rng(0)
    goal = np.array([0.4, 8.9])
    assert np.array_equal(waypoint("umaze", np.array([0.2, 8.1]), goal, rng), goal)
    away = waypoint("umaze", np.zeros(2), goal, rng) - centre((1, 2))
    assert np.all((away >= 0.0) & (away <= 1.0))


def test_labels_follow_the_next_position() -> None:
    states = np.zeros((6, 29), np.float32)
    states[:, 0] = [20.0, 20.5, 20.75, 21.3, 20.9, 25.0]
    states[:, 1] = 20.75
    made = labelled("medium", states, np.zeros((5, 8), np.float32))
    assert made.rewards.tolist() == [1.0, 1.0, 0.0, 1.0, 0.0]
    assert made.terminals.tolist() == [True, True, False, True, False]
    assert made.truncated.tolist() == [False] * 4 + [True]
    assert walk_success(made).tolist() == [True]


def test_plans() -> None:
    play, diverse, narrow = plan("medium", "play"), plan("medium", "diverse"), plan("medium", "narrow")
    assert play.goals == ((2, 6), (5, 1), (6, 5))
    assert play.starts is not None
    assert not set(play.starts) & set(play.goals)
    assert diverse.starts == diverse.goals == tuple(cells("medium", "0RG"))
    assert narrow.starts is narrow.goals is None
    assert narrow.stops
    walk = trajectory(AntMazeEnv("medium"), still(), plan("medium", "narrow"), np.random.default_rng(0))
    assert len(walk) == 1000
    assert np.abs(walk.observations[0, :2]).max() <= 0.1


def test_coverage_counts_square_metres() -> None:
    assert coverage("umaze", np.zeros((5, 29))) == 1 / (7 * 16)


@pytest.mark.slow
def test_build_is_the_same_on_any_number_of_processes(sources: Path) -> None:
    sets = [RECIPES["antmaze-umaze"].build(BuildContext(5, 1500, sources, processes=count)) for count in (1, 2)]
    assert np.array_equal(sets[0].next_observations, sets[1].next_observations)
    assert np.array_equal(sets[0].actions, sets[1].actions)
    assert len(sets[0]) == 1500
    assert np.flatnonzero(sets[0].truncated).tolist() == [699, 1399, 1499]
    other = RECIPES["antmaze-umaze"].build(BuildContext(6, 700, sources))
    assert not np.array_equal(sets[0].actions[:700], other.actions)


def test_build_by_name_and_its_manifest(sources: Path) -> None:
    said = build("antmaze-umaze", sources=sources, size=700, processes=1)
    assert "700 transitions" in said
    facts = manifest("antmaze-umaze", size=700)
    assert facts["sources"].keys() == {GOAL_POLICY.path}
    assert facts["walks"] == 1
    assert facts["success"]["trajectories"] == 1
    assert len(obtain(recipe("antmaze-umaze"), size=700)) == 700


def test_missing_policy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQL_DATA", str(tmp_path))
    monkeypatch.delenv("CALQL_SOURCES", raising=False)
    with pytest.raises(UserError, match=r"missing ant_goal_policy/ant_hierarch_pol.npz .* from D4RL's"):
        build("antmaze-large-play")


def test_unknown_recipe_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'antmaze-large-play'"):
        build("antmaze-large-plays")
