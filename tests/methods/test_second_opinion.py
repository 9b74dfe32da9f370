"""The learner against a second implementation that shares no code with it: same data, other random numbers."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from second_opinion import Settings, q_of, train, walks

from calql.engine.program import Program
from calql.engine.replay import empty_like
from calql.methods import method_entry
from calql.methods.base import Spec, Transitions

pytestmark = pytest.mark.slow

SEEDS, UPDATES, LATEST = 12, 300, 100  # means are over the last so many updates


@pytest.mark.parametrize(
    "settings",
    [
        Settings(calibrate=True, dual=False, importance=True),
        Settings(calibrate=False, dual=True, importance=True),
        Settings(calibrate=True, dual=False, importance=False),
    ],
    ids=["cal-ql", "cql dual", "cal-ql without importance"],
)
def test_both_go_the_same_way(settings: Settings) -> None:
    """Means over seeds are within five standard errors of one another, and the errors are small."""
    ours, theirs = _ours(settings), _theirs(settings)
    for name in ("average_q", "bound_rate", "conservative_gap", "entropy", "alpha", "alpha_prime"):
        if name == "alpha_prime" and not settings.dual:
            continue
        error = np.sqrt((np.var(ours[name], ddof=1) + np.var(theirs[name], ddof=1)) / SEEDS)
        assert abs(np.mean(ours[name]) - np.mean(theirs[name])) < 5.0 * error + 1e-3, name
        assert error < 0.1 * max(abs(np.mean(theirs[name])), 0.5), name


def test_the_comparison_sees_a_difference() -> None:
    """Calibration moves what is compared by far more than that."""
    with_it, without = (_theirs(Settings(flag, dual=False, importance=True)) for flag in (True, False))
    error = np.sqrt((np.var(with_it["average_q"], ddof=1) + np.var(without["average_q"], ddof=1)) / SEEDS)
    assert abs(np.mean(with_it["average_q"]) - np.mean(without["average_q"])) > 6.0 * error


@functools.cache
def _theirs(settings: Settings) -> dict[str, Any]:
    data = walks(settings.discount)
    params, measured = train(settings, data, SEEDS, UPDATES)
    both = [jax.vmap(q_of, (0, None, None))(params[name], data.observations, data.actions) for name in ("q1", "q2")]
    means = {name: np.asarray(values[:, -LATEST:]).mean(axis=1) for name, values in measured.items()}
    return {**means, "average_q": np.mean(both, axis=(0, 2))}


def _ours(settings: Settings) -> dict[str, Any]:
    data = walks(settings.discount)
    entry = method_entry("cal-ql")
    method = entry.make(
        entry.options(
            policy_widths=settings.widths,
            critic_widths=settings.widths,
            batch_size=settings.batch,
            sampled_actions=settings.samples,
            backup_actions=settings.samples,
            discount=settings.discount,
            policy_rate=settings.policy_rate,
            critic_rate=settings.critic_rate,
            target_rate=settings.target_rate,
            conservative_weight=settings.weight,
            dual=settings.dual,
            gap=settings.gap,
            importance_sampling=settings.importance,
            calibrate=settings.calibrate,
        )
    )
    logged = Transitions(
        data.observations, data.actions, data.rewards, data.next_observations, data.terminals, data.returns
    )
    program, keys = Program(method), jax.random.split(jax.random.key(7), SEEDS)
    spec = Spec((data.observations.shape[1],), data.actions.shape[1])
    learning = program.fresh(program.start(keys, spec), jnp.zeros(SEEDS, jnp.int32), logged)
    empty = empty_like(jax.tree.map(lambda column: column[0], logged), 10)
    replay = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], SEEDS, axis=0), empty)
    share = jnp.full(SEEDS, settings.batch, jnp.int32)

    def advance(updates: int) -> None:
        nonlocal learning
        learning = program.train(learning, logged, replay, keys, share, jnp.full(SEEDS, updates, jnp.int32))

    advance(UPDATES - LATEST)
    before = jax.device_get(learning.sums)
    advance(LATEST)
    means = {name: (total - before[name]) / LATEST for name, total in jax.device_get(learning.sums).items()}
    values = program.values(learning.state, data.observations, data.actions)
    assert values is not None
    return {
        **means,
        "bound_rate": means["bound_rate/q1/policy"],
        "average_q": np.asarray(values).mean(axis=1),
    }
