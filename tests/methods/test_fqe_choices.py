"""Fitted Q evaluation of discrete actions: exact means over choices, and how near a policy stays, by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_task as toy

from calql.data import Dataset
from calql.data.rewards import RewardRule
from calql.methods.reference import Fit
from calql.methods.reference.closeness import closeness
from calql.methods.reference.fqe import actions_of, fit_policies
from calql.networks import Actor, Categorical
from calql.networks.actors.base import DENSITY

DISCOUNT = 0.8


def two_states() -> Dataset:
    """In A, choice 0 stays and earns 1, choice 1 goes to B and earns 0. In B both earn 2 and end. Logged by a coin."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(150):
        for step in range(6):
            stays, cut = bool(rng.random() < 0.5), step == 5
            after = [1.0, 0.0] if stays else [0.0, 1.0]
            rows.append(([1.0, 0.0], [float(stays), float(not stays)], float(stays), after, False, cut))
            if not stays:
                if not cut:
                    rows.append(([0.0, 1.0], list(rng.permutation([0.0, 1.0])), 2.0, [0.0, 1.0], True, False))
                break
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    numbers = [column.astype(np.float32) for column in columns[:4]]
    masks = np.ones((len(rows), 2), bool)
    return Dataset(*numbers, columns[4], columns[5], choices=2, action_masks=masks, next_action_masks=masks)


@pytest.mark.slow
def test_the_mean_over_choices_is_exact() -> None:
    """Of a policy that stays with probability p: V(A) = p (1 + 0.8 V(A)) + (1 - p) 0.8 * 2; V(B) = 2.

    p = 1: 1 / (1 - 0.8) = 5. p = 0: 1.6. p = 1/2: 0.5 + 0.4 V + 0.8, so V = 1.3 / 0.6 = 2.1667.
    """
    data, stays = two_states(), np.array([1.0, 0.0, 0.5], np.float32)
    policies = np.stack([stays, 1.0 - stays], axis=1)  # [policy, choice]
    fit = Fit(data, RewardRule(), DISCOUNT, updates=4_000, widths=(32, 32))
    fitted = fit_policies(fit, np.repeat(policies[:, None], len(data), axis=1))
    states = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    own = fitted(states, np.repeat(policies[:, None], 2, axis=1))
    np.testing.assert_allclose(own, [[5.0, 2.0], [1.6, 2.0], [1.3 / 0.6, 2.0]], atol=0.15)
    stay = fitted(states[:1], np.tile(np.array([1.0, 0.0], np.float32), (3, 1, 1)))[:, 0]
    leave = fitted(states[:1], np.tile(np.array([0.0, 1.0], np.float32), (3, 1, 1)))[:, 0]
    np.testing.assert_allclose(own[2, 0], 0.5 * stay[2] + 0.5 * leave[2], rtol=1e-5)  # to rounding, whatever was fitted
    np.testing.assert_allclose(leave, 1.6, atol=0.15)


class Fixed(Actor):
    """Says the same everywhere."""

    gives = frozenset({DENSITY})
    logits: jax.Array

    def __call__(self, observations: jax.Array, key: jax.Array | None = None) -> Categorical:
        return Categorical(jnp.broadcast_to(self.logits, (*observations.shape[:-1], 3)))


def logged(choices: list[int], masks: list[list[int]]) -> Dataset:
    count = len(choices)
    numbers = np.zeros((count, 2), np.float32), np.eye(3, dtype=np.float32)[choices], np.zeros(count, np.float32)
    allowed: Any = np.array(masks, bool)
    ends = np.arange(count) == count - 1
    more = {"choices": 3, "action_masks": allowed, "next_action_masks": allowed}
    return Dataset(*numbers, np.zeros((count, 2), np.float32), ends, np.zeros(count, bool), **more)


def test_agreement_and_likelihood_are_among_what_is_allowed() -> None:
    """Probabilities 0.5, 0.3, 0.2. Row 0: choice 0, agrees, log 0.5. Row 1: choice 1, not, log 0.3. Row 2: choice 1
    with 0 forbidden, agrees, log(0.3 / 0.5). Row 3: choice 2 where nothing else is allowed, agrees, log 1."""
    data = logged([0, 1, 1, 2], [[1, 1, 1], [1, 1, 1], [0, 1, 1], [0, 0, 1]])
    policies = Fixed(jnp.log(jnp.array([[0.5, 0.3, 0.2]])))
    (found,) = closeness(toy.tiny("bc", discrete=True), policies, data)
    assert found["held_out_agreement"] == 0.75
    assert found["held_out_likelihood"] == pytest.approx(float(np.mean(np.log([0.5, 0.3, 0.6, 1.0]))), abs=1e-6)


def test_a_policy_without_probabilities_has_no_likelihood() -> None:
    method = toy.tiny("dqn", discrete=True)
    state = method.init(jax.random.key(0), toy.spec(discrete=True))
    policies = jax.tree.map(lambda leaf: leaf[None], method.policy(state))
    data = logged([0, 1], [[1, 0, 0], [0, 1, 0]])
    seen = np.zeros((2, toy.OBSERVATION), np.float32)
    acted = actions_of(method, policies, seen, data.action_masks)
    np.testing.assert_array_equal(acted[0], data.actions)  # nothing else was allowed
    narrow = Dataset(seen, data.actions, data.rewards, seen, data.terminals, data.truncated, **data.masks, choices=3)
    assert closeness(method, policies, narrow) == [{"held_out_agreement": 1.0, "held_out_likelihood": None}]
