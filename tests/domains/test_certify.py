"""Certification: real slices pass, other tasks' data and tampered rows do not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calql.data.dataset import Dataset
from calql.data.store import BuildContext
from calql.domains.antmaze.data import labelled
from calql.domains.antmaze.env import AntMazeEnv
from calql.domains.certify import certify
from calql.domains.checks import Certifier, Check, spread_rows
from calql.domains.locomotion.data import RECIPES
from calql.system.errors import UserError

SHARED = Path(os.environ.get("CALQL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
SLICES = {
    "antmaze-umaze-v0": "antmaze-umaze",
    "antmaze-medium-play-v0": "antmaze-medium-play",
    "antmaze-medium-diverse-v0": "antmaze-medium-diverse",
    "antmaze-large-play-v0": "antmaze-large-play",
    "antmaze-large-diverse-v0": "antmaze-large-diverse",
    "halfcheetah_medium-v2": "halfcheetah-medium",
    "halfcheetah_random-v1": "halfcheetah-random",
    "hopper_medium-v2": "hopper-medium",
    "hopper_medium_replay-v1": "hopper-medium-replay",
    "hopper_random-v1": "hopper-random",
    "walker2d_medium-v2": "walker2d-medium",
    "walker2d_random-v1": "walker2d-random",
}


def slice_file(name: str) -> Path:
    path = SHARED / "d4rl_slices" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"needs the recorded slice {path.name} (CALQL_SHARED_DATA)")
    return path


@pytest.fixture(scope="module")
def walk() -> Dataset:
    """An ant that moves at random near the goal of the medium maze, labelled."""
    env = AntMazeEnv("medium")
    env.reset(seed=0, options={"start": [20.75, 20.3]})
    rng = np.random.default_rng(0)
    states, actions = [env.state()], []
    for _ in range(120):
        actions.append(rng.uniform(-1, 1, 8).astype(np.float32))
        env.advance(actions[-1])
        states.append(env.state())
    return labelled("medium", np.asarray(states, np.float32), np.asarray(actions))


@pytest.mark.parametrize("name", SLICES)
def test_real_slices_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calql.domains.antmaze.check.MOST_STEPS", 400)
    report = certify(SLICES[name], slice_file(name))
    assert report.passed, str(report)


def test_a_walk_of_ours_passes_and_tampering_fails(walk: Dataset) -> None:
    assert certify("antmaze-medium-play", walk).passed
    assert walk.terminals.any()
    moved = replace(walk, next_observations=walk.next_observations + np.float32(0.05))
    assert not certify("antmaze-medium-play", moved).passed
    unpaid = replace(walk, rewards=np.zeros_like(walk.rewards))
    failed = [check.what for check in certify("antmaze-medium-play", unpaid).checks if not check.passed]
    assert any("rewarded but not terminal" in what for what in failed)
    assert "does NOT belong" in str(certify("antmaze-umaze", walk))


def test_locomotion_passes_and_another_body_fails() -> None:
    walker = RECIPES["walker2d-random"].build(BuildContext(0, 400))
    assert certify("walker2d-random", walker).passed
    report = certify("halfcheetah-random", walker)  # the same 17 and 6 numbers
    assert not report.passed


def test_other_dimensions_are_refused_with_the_reason(walk: Dataset) -> None:
    with pytest.raises(UserError, match="its observations have 29 dimensions and hopper-medium's have 11"):
        certify("hopper-medium", walk)
    for size in (27, 105):
        other = replace(
            walk,
            observations=np.zeros((len(walk), size), np.float32),
            next_observations=np.zeros((len(walk), size), np.float32),
        )
        with pytest.raises(UserError, match=f"have {size} dimensions and antmaze-umaze's have 29"):
            certify("antmaze-umaze", other)


def test_unknown_task_suggests_the_nearest(walk: Dataset) -> None:
    with pytest.raises(UserError, match="did you mean 'hopper-medium'"):
        certify("hoper-medium", walk)


def test_checks_read_well() -> None:
    assert str(Check("error", 0.5, 0.1)) == "FAIL  error: 0.5 (at most 0.1)"
    assert str(Check("share", 0.99, 0.95, at_least=True, detail="of 7")) == "ok    share: 0.99 (at least 0.95)  of 7"
    assert not Check("error", float("nan"), 1.0).passed
    assert spread_rows(3, 10).tolist() == [0, 1, 2]
    assert spread_rows(101, 3).tolist() == [0, 50, 100]
    assert Certifier((29,), (8,), lambda _: []).observation == (29,)
