"""Fitted Q evaluation comes to values that are known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from toy_task import tiny

from calql.data import Dataset
from calql.data.rewards import RewardRule
from calql.methods.reference import Fit
from calql.methods.reference.fqe import actions_of, estimates, fit_policies

DISCOUNT = 0.8


def two_states() -> Dataset:
    """A chain of two states and a number as action.

    In A, an action above 0 stays and earns 1; below 0 it goes to B and earns 0. In B every action earns 2 and ends.
    Episodes are logged by a coin, and cut after 6 steps, wherever they are then.
    """
    rng, rows = np.random.default_rng(0), []
    for _ in range(150):
        for step in range(6):
            action = float(rng.uniform(-1.0, 1.0))
            cut = step == 5
            rows.append(([1.0, 0.0], [action], float(action > 0), [float(action > 0), float(action <= 0)], False, cut))
            if action <= 0:
                if not cut:
                    last = [float(rng.uniform(-1.0, 1.0))]
                    rows.append(([0.0, 1.0], last, 2.0, [0.0, 1.0], True, False))
                break
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    numbers = [column.astype(np.float32) for column in columns[:4]]
    return Dataset(*numbers, columns[4], columns[5])


@pytest.mark.slow
def test_the_fixed_point_is_the_value_of_each_policy() -> None:
    """Stay for ever: 1 / (1 - 0.8) = 5. Leave at once: 0 + 0.8 * 2 = 1.6. Both without having been played."""
    data = two_states()
    fit = Fit(data, RewardRule(), DISCOUNT, updates=6_000, widths=(32, 32))
    policies = np.array([0.5, -0.5], np.float32)
    next_actions = np.broadcast_to(policies[:, None, None], (2, len(data), 1)).astype(np.float32)
    fitted = fit_policies(fit, next_actions)
    states = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    q = fitted(states, np.broadcast_to(policies[:, None, None], (2, 2, 1)).astype(np.float32))
    np.testing.assert_allclose(q, [[5.0, 2.0], [1.6, 2.0]], atol=0.15)
    first_leave = fitted(states[:1], np.array([[[-0.5]], [[0.5]]], np.float32))
    np.testing.assert_allclose(first_leave, [[1.6], [1.0 + DISCOUNT * 1.6]], atol=0.15)  # one step of the other


@pytest.mark.slow
def test_several_policies_are_fitted_as_each_alone() -> None:
    data = two_states()
    fit = Fit(data, RewardRule(), DISCOUNT, updates=40, widths=(8,))
    both = np.stack([np.full((len(data), 1), value, np.float32) for value in (0.5, -0.5)])
    together = fit_policies(fit, both)(data.observations[:3], both[:, :3])
    again = fit_policies(fit, both)(data.observations[:3], both[:, :3])
    np.testing.assert_array_equal(together, again)
    swapped = fit_policies(fit, both[[0, 0]])(data.observations[:3], both[[0, 0]][:, :3])
    np.testing.assert_allclose(swapped[0], together[0], atol=1e-5)  # whoever stands beside it
    assert not np.allclose(together[0], together[1])


def test_no_value_leaves_what_rewards_can_add_up_to() -> None:
    """Actions that nobody logged cannot be worth more than the best step for ever."""
    data = two_states()
    fit = Fit(data, RewardRule(), DISCOUNT, updates=400, widths=(32,))
    wild = np.full((1, len(data), 1), 30.0, np.float32)
    fitted = fit_policies(fit, wild)
    low, high = (fitted.units.offset + fitted.units.scale * bound for bound in fitted.units.possible)
    assert (low, high) == (pytest.approx(0.0), pytest.approx(5.0))
    assert fitted(data.observations, np.zeros((1, len(data), 1), np.float32)).max() < 5.5


def test_intervals_are_of_the_mean_over_episodes() -> None:
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(3.0, 1.0, 400), np.full(400, 7.0)]).astype(np.float32)
    found = estimates(values)
    standard_error = values[0].std() / np.sqrt(400)
    assert found[0].value == pytest.approx(values[0].mean())
    assert (found[0].high - found[0].low) / (2 * 1.96) == pytest.approx(standard_error, rel=0.1)
    assert found[1] == (7.0, 7.0, 7.0)


@pytest.mark.slow
def test_actions_are_those_of_the_deterministic_policy() -> None:
    import jax
    from toy_task import spec

    method = tiny("cal-ql")
    states = [method.init(jax.random.key(seed), spec()) for seed in (0, 1)]
    policies = jax.tree.map(lambda *leaves: np.stack(leaves), *(method.policy(state) for state in states))
    seen = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    found = actions_of(method, policies, seen)
    assert found.shape == (2, 5, 2)
    np.testing.assert_allclose(found[1], np.asarray(method.policy(states[1])(seen).mode()), atol=1e-6)
