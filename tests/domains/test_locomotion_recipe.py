"""Locomotion data from stored policies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calql.data.store import BuildContext
from calql.domains.common.policies import StoredPolicy
from calql.domains.locomotion.data import (
    LEVELS,
    PERTURBED,
    RECIPES,
    expert_source,
    full_size,
    medium_source,
    mixed_controller,
    perturbed_controller,
)
from calql.system.errors import UserError


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for source, names in (
        (medium_source("hopper"), ("fc0", "last_fc", "last_fc_log_std")),
        (expert_source("hopper"), ("actor_latent_pi_0", "actor_mu", "actor_log_std")),
    ):
        stored = {}
        for name, shape in zip(names, ((8, 11), (3, 8), (3, 8)), strict=True):
            stored[f"{name}_weight"] = rng.normal(size=shape).astype(np.float32)
            stored[f"{name}_bias"] = np.zeros(shape[0], np.float32)
        (tmp_path / source.path).parent.mkdir(exist_ok=True)
        np.savez(tmp_path / source.path, **stored)  # type: ignore[arg-type]
    return tmp_path


@pytest.mark.parametrize("level", [*LEVELS, PERTURBED])
def test_every_level_builds_and_repeats(level: str, sources: Path) -> None:
    made = [RECIPES[f"hopper-{level}"].build(BuildContext(1, 300, sources)) for _ in range(2)]
    assert np.array_equal(made[0].next_observations, made[1].next_observations)
    assert len(made[0]) == 300
    assert made[0].observations.shape == (300, 11)
    assert made[0].notes
    inside = ~(made[0].terminals | made[0].truncated)
    inside[-1] = False
    rows = np.flatnonzero(inside)
    assert np.array_equal(made[0].next_observations[rows], made[0].observations[rows + 1])


def test_medium_expert_is_half_of_each(sources: Path) -> None:
    both = RECIPES["hopper-medium-expert"].build(BuildContext(1, 300, sources))
    medium = RECIPES["hopper-medium"].build(BuildContext(1, 150, sources))
    assert np.array_equal(both.actions[:150], medium.actions)


def test_random_needs_no_source_and_the_others_name_theirs() -> None:
    assert len(RECIPES["walker2d-random"].build(BuildContext(0, 100))) == 100
    with pytest.raises(UserError, match=r"missing sb3_experts/tqc_HalfCheetah-v3.npz"):
        RECIPES["halfcheetah-expert"].build(BuildContext(0, 100))
    with pytest.raises(UserError, match=r"missing d4rl_policies/walker2d_medium-v2_policy.npz"):
        RECIPES["walker2d-medium-replay"].build(BuildContext(0, 100))


def test_replay_mixture_covers_all_shares_and_says_that_it_is_one(sources: Path) -> None:
    policy = StoredPolicy((), (np.zeros((2, 1), np.float32), np.zeros(1, np.float32)), None, "relu", True)
    shares = np.sort([mixed_controller(policy, n).random for n in range(50)])  # type: ignore[attr-defined]
    assert np.diff(shares).max() < 0.05
    assert "not a replay buffer" in RECIPES["hopper-medium-replay"].build(BuildContext(0, 50, sources)).notes[0]
    assert full_size("hopper", "medium-replay") == 402_000
    assert full_size("hopper", "medium-expert") == 2_000_000


def test_disturbed_policies_begin_with_the_policy_itself_and_each_acts_alike_in_its_episode() -> None:
    policy = StoredPolicy((), (np.eye(2, dtype=np.float32), np.zeros(2, np.float32)), None, "relu", False)
    rng, seen = np.random.default_rng(0), np.array([0.5, -0.25], np.float32)
    acts = [perturbed_controller(policy, 7, episode)(seen, rng) for episode in (0, 1, 1, 2)]
    assert acts[0] == pytest.approx(seen)  # episode 0 has a share of 0
    assert np.array_equal(acts[1], acts[2])
    assert not np.allclose(acts[1], acts[3])
    assert RECIPES[f"hopper-{PERTURBED}"].task == "hopper-medium-replay"
    assert full_size("hopper", PERTURBED) == full_size("hopper", "medium-replay")
