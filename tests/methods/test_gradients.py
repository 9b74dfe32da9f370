"""Gradients of every method's losses against finite differences, on tiny networks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hand import agrees
from toy_task import BATCH, logged, spec, tiny

KEY = jax.random.key(0)
RATE = jnp.float32(0.9)


def losses_of(name: str) -> list[tuple[Any, Any]]:
    """Each loss of a method as a function of its network alone, and that network."""
    method: Any = tiny(name, **({"dropout": 0.0} if name == "odt" else {}))
    state = jax.jit(method.init, static_argnums=1)(KEY, spec())
    rows = jax.tree.map(lambda column: column[:BATCH], logged(method))
    policy = state.policy.parameters
    if name == "bc":
        return [(lambda p: method.policy_loss(p, rows)[0], policy)]
    if name == "odt":
        stretch = jax.tree.map(lambda column: jnp.stack([column[:3], column[1:4]]), rows)
        return [(lambda p: method.policy_loss(p, jnp.float32(0.1), stretch, KEY)[0], policy)]
    critics = state.critics.parameters
    q = jnp.arange(BATCH) * 0.1
    if name == "iql":
        return [
            (lambda v: method.value_loss(v, rows, q, RATE)[0], state.value.parameters),
            (lambda c: method.critic_loss(c, state.value.parameters, rows, RATE)[0], critics),
            (lambda p: method.policy_loss(p, state, rows, q, KEY)[0], policy),
        ]
    critic_loss = (lambda c: method.critic_loss(c, state, rows, KEY)[0], critics)
    if name == "awac":
        return [critic_loss, (lambda p: method.policy_loss(p, critics, rows, RATE, KEY)[0], policy)]
    # the divisor of Q has no gradient, so these two are checked where the policy clones alone
    away = state._replace(critics=state.critics._replace(parameters=jax.tree.map(jnp.zeros_like, critics)))
    return [critic_loss, (lambda p: method.policy_loss(p, away, rows, KEY)[0], policy)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bc", "iql", "awac", "td3-bc", "rebrac", "odt"])
def test_gradients(name: str) -> None:
    for loss, network in losses_of(name):
        agrees(jax.jit(loss), network)
