"""Defaults of every baseline in every domain, as they resolve, against a table written by hand from the sources."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from calql.data import Dataset
from calql.data.rewards import RewardRule
from calql.domains.registry import get_task
from calql.methods import METHODS
from calql.runs.preparation import rewards_of
from calql.runs.request import Choice, defaults, resolve_task

DOMAINS = {
    "antmaze": "antmaze-large-diverse",
    "adroit": "door-binary",
    "kitchen": "kitchen-mixed",
    "pick-place": "pick-place",
    "locomotion": "hopper-medium",
}

TWO, THREE, FOUR = (256,) * 2, (256,) * 3, (256,) * 4

# What holds in every domain, unless the table below says otherwise.
EVERYWHERE: dict[str, dict[str, Any]] = {
    "iql": {"policy_widths": TWO, "critic_widths": TWO, "policy_rate": 3e-4, "batch_size": 256, "weight_cap": 100.0},
    "td3-bc": {"policy_widths": TWO, "critic_widths": TWO, "ascent_weight": 2.5, "policy_delay": 2, "critics": 2},
    "o3f": {"policy_widths": TWO, "critic_widths": TWO, "candidates": 100, "candidate_noise": 0.2, "critics": 5},
    "awac": {"policy_widths": FOUR, "critic_widths": FOUR, "batch_size": 1024, "mixing": -1.0, "weight_decay": 1e-4},
    "rebrac": {"policy_widths": THREE, "critic_widths": THREE, "critic_layer_norm": True, "batch_size": 256},
    "rlpd": {
        "policy_widths": THREE,
        "critic_widths": THREE,
        "entropy_in_backup": False,
        "critics": 10,
        "target_subset": 2,
        "critic_layer_norm": True,
        "policy_critic": "mean",
        "policy_rate": 3e-4,
        "critic_steps": 20,
        "update_ratio": 20,
        "backup_actions": 1,
        "entropy_scale": 0.5,
        "offline_updates": 0,
        "warmup_steps": 5_000,
        "warmup_actions": "random",
        "mixing": 0.5,
    },
    "wsrl": {
        "calibrate": True,
        "conservative_online": False,
        "critics": 10,
        "target_subset": 2,
        "critic_steps_online": 4,
        "update_ratio": 4,
        "warmup_steps": 5_000,
        "warmup_actions": "policy",
        "mixing": 0.0,
    },
    "odt": {"layers": 4, "heads": 4, "training_context": 20, "acting_context": 5, "updates_per_episode": 300},
    "sac": {"offline_updates": 0, "mixing": 0.0, "conservative": False},
    "sac-offline": {"offline_updates": 0, "mixing": -1.0},
    "hybrid": {"offline_updates": 0},
    "cal-ql-utd20": {"critics": 10, "target_subset": 2, "critic_steps_online": 20, "update_ratio": 20},
    "bc": {"online_steps": 0},
}

TABLE: dict[str, dict[str, dict[str, Any]]] = {
    "antmaze": {
        "cal-ql": {"policy_widths": TWO, "critic_widths": FOUR, "dual": True, "gap": 0.8, "mixing": 0.5},
        "iql": {"expectile": 0.9, "temperature": 10.0, "mixing": 0.5, "policy_std": 0.0, "policy_dropout": 0.0},
        "awac": {"temperature": 1.0},
        "rebrac": {"discount": 0.999, "critic_rate": 5e-5, "policy_penalty": 0.002, "target_penalty": 0.002},
        "td3-bc": {"standardise": False},
        "rlpd": {"target_subset": 1},
        "wsrl": {
            "policy_widths": TWO,
            "critic_widths": FOUR,
            "backup_actions": 10,
            "backup_actions_online": 10,
            "conservative_weight": 1.0,
            "state_dependent_std": False,
            "offline_updates": 1_000_000,
        },
        "odt": {"width": 1024, "policy_rate": 1e-3, "evaluation_return": 1.0, "exploration_return": 2.0},
        "hybrid": {"mixing": 0.5},
    },
    "adroit": {
        "cal-ql": {"policy_widths": (512,) * 2, "critic_widths": (512,) * 3, "dual": False, "conservative_weight": 1.0},
        "iql": {"expectile": 0.8, "temperature": 3.0, "mixing": 0.2, "policy_std": 0.03},
        "awac": {"temperature": 0.3},
        "rebrac": {"discount": 0.99, "critic_rate": 3e-4, "policy_penalty": 0.01, "target_penalty": 0.1},
        "wsrl": {
            "policy_widths": (512,) * 2,
            "critic_widths": (512,) * 3,
            "backup_actions": 10,
            "backup_actions_online": 1,
            "state_dependent_std": True,
            "offline_updates": 20_000,
        },
        "odt": {"evaluation_return": 0.0, "exploration_return": 0.0, "return_scale": 100.0},
        "hybrid": {"mixing": 0.5},
    },
    "kitchen": {
        "cal-ql": {"policy_widths": (512,) * 3, "critic_widths": (512,) * 3, "importance_sampling": False},
        "iql": {"expectile": 0.7, "temperature": 0.5, "mixing": 0.25, "policy_dropout": 0.1},
        "awac": {"temperature": 1.0},
        "wsrl": {"policy_widths": (512,) * 3, "critic_widths": (512,) * 3, "offline_updates": 250_000},
        "odt": {"evaluation_return": 400.0, "exploration_return": 800.0, "return_scale": 100.0},
        "hybrid": {"mixing": 0.25},
    },
    "pick-place": {
        "cal-ql": {"sampled_actions": 4, "conservative_weight_online": 0.5, "update_ratio": 5},
        "iql": {"expectile": 0.7, "temperature": 10.0, "mixing": 0.5, "update_ratio": 5},
        "awac": {"temperature": 1.0},
        "wsrl": {"offline_updates": 50_000},
    },
    "locomotion": {
        "cal-ql": {"policy_widths": TWO, "critic_widths": TWO, "reference": "sarsa"},
        "iql": {"expectile": 0.7, "temperature": 3.0, "mixing": 0.5},
        "awac": {"temperature": 1.0, "offline_updates": 500_000},
        "rlpd": {"policy_widths": TWO, "critic_widths": TWO, "entropy_in_backup": True},
        "rebrac": {"batch_size": 1024, "policy_rate": 1e-3, "critic_rate": 1e-3},
        "wsrl": {"policy_widths": TWO, "critic_widths": TWO, "offline_updates": 250_000, "calibrate": False},
        "odt": {
            "width": 512,
            "policy_rate": 1e-4,
            "weight_decay": 5e-4,
            "order_embedding": False,
            "offline_updates": 5_000,
            "keep_episodes": 1_000,
            "evaluation_return": 3_600.0,
            "exploration_return": 7_200.0,
            "return_scale": 1_000.0,
        },
    },
}

# Mapped rewards (scale, shift) where a baseline's authors have others than the task's.
TASK_REWARDS = {
    "antmaze": (10.0, -5.0),
    "adroit": (10.0, 5.0),
    "kitchen": (1.0, 0.0),
    "pick-place": (10.0, -5.0),
    "locomotion": (1.0, 0.0),
}
REWARDS: dict[str, dict[str, tuple[float, float]]] = {
    "antmaze": {"iql": (1.0, -1.0), "rlpd": (1.0, -1.0), "awac": (1.0, 0.0), "rebrac": (100.0, 0.0)},
    "adroit": {"iql": (1.0, 0.0), "rlpd": (1.0, 0.0), "awac": (1.0, 0.0)},
    "kitchen": {"wsrl": (1.0, -4.0)},
    "pick-place": {"iql": (1.0, -1.0), "rlpd": (1.0, -1.0), "awac": (1.0, -1.0)},
    "locomotion": {"iql": (1000.0, 0.0)},  # over the range of returns
}


def resolved(task: str, method: str) -> dict[str, Any]:
    run, options = defaults(Choice(task=task, method=method), get_task(task))
    return {**asdict(run), **asdict(options)}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("method", METHODS)
def test_defaults(domain: str, method: str) -> None:
    expected = EVERYWHERE.get(method, {}) | TABLE[domain].get(method, {})
    found = resolved(DOMAINS[domain], method)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("method", METHODS)
def test_rewards(domain: str, method: str) -> None:
    task = get_task(DOMAINS[domain])
    rule = rewards_of(task, method)
    assert (rule.scale, rule.shift) == REWARDS[domain].get(method, TASK_REWARDS[domain])
    assert rule.failure == task.rewards.failure
    assert rule.infinite_tail == task.rewards.infinite_tail


def test_what_differs_within_locomotion() -> None:
    asked = {body: resolved(f"{body}-medium", "odt")["evaluation_return"] for body in ("halfcheetah", "walker2d")}
    assert asked == {"halfcheetah": 6_000.0, "walker2d": 5_000.0}
    assert resolved("halfcheetah-expert", "awac")["offline_updates"] == 1_000_000
    assert resolved("halfcheetah-medium", "awac")["offline_updates"] == 500_000


@pytest.mark.parametrize(
    ("task", "pair"),
    [
        ("antmaze-large-play", (0.002, 0.001)),
        ("antmaze-medium-play", (0.001, 0.0005)),
        ("pen-binary", (0.05, 0.5)),
        ("relocate-binary", (0.1, 0.01)),
        ("hopper-medium", (0.01, 0.01)),
        ("walker2d-medium-replay", (0.05, 0.01)),
        ("halfcheetah-medium-expert", (0.01, 0.1)),
    ],
)
def test_rebracs_penalties_are_those_of_the_set(task: str, pair: tuple[float, float]) -> None:
    found = resolved(task, "rebrac")
    assert (found["policy_penalty"], found["target_penalty"]) == pair


def test_a_scale_by_the_range_of_returns() -> None:
    """Returns 3 and 1 differ by 2: 1000 / 2 = 500."""
    column = np.zeros((4, 1), np.float32)
    ends = np.array([False, True, False, True])
    data = Dataset(column, column, np.array([1.0, 2.0, 0.0, 1.0], np.float32), column, ends, ~ends & False, "two")
    rule = RewardRule(scale=1_000.0, by_return_range=True).fitted(data, 0.99)
    assert rule == RewardRule(scale=500.0)
    assert rule.fitted(data, 0.99) is rule


def test_a_named_task_with_rewards_and_limit_of_the_users_own() -> None:
    """WSRL's kitchen: r - 4 for every method, episodes of 280 steps."""
    choice = Choice(task="kitchen-mixed", reward_shift=-4.0, episode_limit=280)
    task, _, _ = resolve_task(choice)
    usual = get_task("kitchen-mixed")
    assert (task.rewards.scale, task.rewards.shift, task.episode_limit) == (usual.rewards.scale, -4.0, 280)
    assert rewards_of(task, "wsrl") == task.rewards
    assert rewards_of(usual, "wsrl") != usual.rewards
    assert resolve_task(Choice(task="kitchen-mixed"))[0] == usual
