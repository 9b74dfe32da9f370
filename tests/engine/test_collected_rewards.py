"""Rewards of collected steps: by the map of the logged ones, or raw where a method's source leaves them so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from toy_task import LIMIT, data, run_options, task, tiny

from calql.data.rewards import RewardRule
from calql.domains.registry import get_task
from calql.engine.plan import Plan, make_plan
from calql.engine.rollout import Episode
from calql.methods import METHODS
from calql.runs.preparation import rewards_of


def plan_with(rewards: RewardRule, **options: Any) -> Plan:
    return make_plan(
        "toy", replace(task(), rewards=rewards), tiny("iql"), run_options("iql", **options), data(), None, 0.99
    )


def collected(plan: Plan) -> list[float]:
    played = Episode(np.zeros((3, 3), np.float32), np.zeros((2, 2), np.float32), np.array([1.0, 3.0]), False, False)
    rows, _ = plan.inputs.pad([played], LIMIT)
    return [round(float(reward), 4) for reward in rows.rewards[0, :2]]


def test_iqls_locomotion_scales_logged_rewards_and_leaves_collected_ones_raw() -> None:
    """As the original and the paper's fork do: the dataset is normalised once, the environment's rewards never."""
    rule = rewards_of(get_task("hopper-medium"), "iql").fitted(data(), 0.99)
    plan = plan_with(rule)
    scale = 1_000.0 / np.ptp(np.add.reduceat(data().rewards, data().episode_starts))
    assert scale != 1.0
    np.testing.assert_allclose(plan.inputs.logged.rewards, scale * data().rewards, rtol=1e-6)
    assert collected(plan) == [1.0, 3.0]


def test_one_map_for_both_can_be_asked_for() -> None:
    rule = RewardRule(scale=2.0, shift=1.0, logged_only=True)
    assert collected(plan_with(rule, rewards_online="logged")) == [3.0, 7.0]
    assert collected(plan_with(rule)) == [1.0, 3.0]


@pytest.mark.parametrize("name", ["point-maze-narrow", "door-binary", "antmaze-medium-diverse", "kitchen-mixed"])
def test_everywhere_else_collected_rewards_are_mapped_as_logged_ones(name: str) -> None:
    rules = [rewards_of(get_task(name), method) for method in METHODS]
    assert all(rule.collected == rule for rule in rules)
