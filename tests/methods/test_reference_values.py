"""Reference values against returns worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from calql.data import Dataset
from calql.data.rewards import RewardRule
from calql.methods.reference import Fit, Trajectory, fit_reference, over_episodes
from calql.system.errors import UserError

RULE = RewardRule(scale=10.0, shift=-5.0, failure=0.0)


def two_state_data(truncated: bool, episodes: int = 40) -> Dataset:
    """State 0 goes to state 1 (reward 0); state 1 earns 1 and ends, or earns 1 and is only cut off."""
    zero, one = np.array([0.0, 1.0], np.float32), np.array([1.0, 0.0], np.float32)
    ends = np.tile([False, True], episodes)
    return Dataset(
        observations=np.tile(np.stack([zero, one]), (episodes, 1)),
        actions=np.tile(np.array([[0.5], [-0.5]], np.float32), (episodes, 1)),
        rewards=np.tile(np.array([0.0, 1.0], np.float32), episodes),
        next_observations=np.tile(np.stack([one, zero]), (episodes, 1)),
        terminals=ends & (not truncated),
        truncated=ends & truncated,
    )


def trajectory(data: Dataset, rule: RewardRule = RewardRule()) -> Trajectory:
    return Fit(data, rule, 0.9).trajectory(slice(0, 2))


def test_monte_carlo_is_the_return_of_the_trajectory() -> None:
    data = two_state_data(truncated=False)
    reference = fit_reference("monte-carlo", Fit(data, RULE, 0.99))
    # mapped rewards -5 and 5: 5 at the end, -5 + 0.99 * 5 before
    np.testing.assert_allclose(over_episodes(reference, Fit(data, RULE, 0.99))[:2], [-0.05, 5.0], atol=1e-5)


def test_monte_carlo_values_failure_for_ever() -> None:
    data = two_state_data(truncated=True)
    failed = Dataset(
        data.observations, data.actions, data.rewards * 0, data.next_observations, data.terminals, data.truncated
    )
    values = over_episodes(fit_reference("monte-carlo", Fit(failed, RULE, 0.99)), Fit(failed, RULE, 0.99))
    np.testing.assert_allclose(values, -500.0, rtol=1e-5)


def test_a_failed_episode_may_be_told_by_its_last_reward() -> None:
    """Success and then a step without it: not a failure by the authors' rule, one by CORL's."""
    rewards = np.array([5.0, -5.0], np.float32)
    states = np.zeros((2, 1), np.float32)
    walk = Trajectory(states, states, rewards, np.zeros(2, bool))
    for test, expected in (("all", [0.05, -5.0]), ("last", [-500.0, -500.0])):
        rule = RewardRule(10.0, -5.0, failure=0.0, failure_test=test)
        reference = fit_reference("monte-carlo", Fit(two_state_data(False), rule, 0.99))
        np.testing.assert_allclose(reference(walk), expected, rtol=1e-4)


@pytest.mark.slow
def test_regression_finds_the_mean_return() -> None:
    data = two_state_data(truncated=False)
    fit = Fit(data, RewardRule(), 0.9, updates=1500, widths=(16,))
    reference = fit_reference("regression", fit)
    np.testing.assert_allclose(reference(trajectory(data)), [0.9, 1.0], atol=0.02)


def test_sarsa_solves_the_chain() -> None:
    data = two_state_data(truncated=False)
    fit = Fit(data, RewardRule(), 0.9, updates=4000, widths=(16,))
    reference = fit_reference("sarsa", fit)
    np.testing.assert_allclose(reference(trajectory(data)), [0.9, 1.0], atol=0.03)


def test_sarsa_leaves_out_steps_without_a_next_action() -> None:
    """Cut off after state 1: its value has no target, so only Q(0) = discount Q(1) is learned from the rest."""
    data = two_state_data(truncated=True)
    fit = Fit(data, RewardRule(), 0.9, updates=3000, widths=(16,))
    first, second = fit_reference("sarsa", fit)(trajectory(data))
    assert first == pytest.approx(0.9 * second, abs=0.1)


def test_none_bounds_nothing() -> None:
    data = two_state_data(truncated=False)
    assert np.all(fit_reference("none", Fit(data, RULE, 0.99))(trajectory(data)) == -np.inf)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'monte-carlo'"):
        fit_reference("montecarlo", Fit(two_state_data(False), RULE, 0.99))
