"""MDPs of the theory tests: one worked by hand, and random ones small enough to be drawn by Hypothesis."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from calql.theory.families import FAMILIES
from calql.theory.mdp import MDP

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""Compiling takes the most of these tests' time, and their programs are run a few times only."""
seeds = st.integers(0, 2**31 - 1)
quickly = settings(max_examples=40, deadline=None, database=None)


_drawing = {name: quick_jit(family) for name, family in FAMILIES.items()}


def drawn(family: str, seed: int = 0) -> MDP:
    """An MDP of a family; compiled once for all tests."""
    return _drawing[family](jax.random.key(seed))


def two_state_chain() -> MDP:
    """Two steps, start in state 0. Action 0 stays, action 1 moves. Staying in 1 pays 1, leaving 0 pays 0.2.

    By hand: Q*_1 = [[0, .2], [1, 0]], V*_1 = [.2, 1]; Q*_0 = [[.2, 1.2], [2, .2]], V*_0 = [1.2, 2].
    """
    stay, move = jnp.eye(2), jnp.eye(2)[::-1]
    transition = jnp.stack([stay, move], axis=1)  # [s, a, next]
    reward = jnp.array([[0.0, 0.2], [1.0, 0.0]])
    return MDP(jnp.array([1.0, 0.0]), jnp.stack([transition] * 2), jnp.stack([reward] * 2))


def random_mdp(rng: np.random.Generator, horizon: int = 3, states: int = 3, actions: int = 2) -> MDP:
    """No structure, some zero probabilities."""
    raw = rng.exponential(size=(horizon, states, actions, states)) * (rng.random(states) < 0.8)
    raw[..., 0] += 1e-3
    start = rng.exponential(size=states)
    return MDP(
        jnp.asarray(start / start.sum(), jnp.float32),
        jnp.asarray(raw / raw.sum(-1, keepdims=True), jnp.float32),
        jnp.asarray(rng.random((horizon, states, actions)), jnp.float32),
    )


def random_table(rng: np.random.Generator, mdp: MDP, scale: float = 3.0) -> jax.Array:
    return jnp.asarray(scale * rng.normal(size=mdp.reward_mean.shape), jnp.float32)


def random_policy(rng: np.random.Generator, mdp: MDP) -> jax.Array:
    raw = rng.exponential(size=mdp.reward_mean.shape)
    return jnp.asarray(raw / raw.sum(-1, keepdims=True), jnp.float32)
