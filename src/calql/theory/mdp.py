"""Finite-horizon MDPs whose every value is computed exactly, never estimated.

States and actions are numbered; tables carry the step first: `q[h, s, a]`. A policy is a table of
probabilities `policy[h, s, a]`, deterministic policies being the one-hot ones. All functions are pure and
safe under jit, vmap and scan, in whichever precision their arguments come; the recursions are compiled, so
that calling them outside of jit compiles once per shape and not once per call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class MDP(eqx.Module):
    """A finite-horizon MDP; a reward is Bernoulli with the given mean, hence stochastic and in [0, 1]."""

    start: Float[Array, " s"]
    """Distribution of the first state (the paper's rho)."""
    transition: Float[Array, "h s a next"]
    reward_mean: Float[Array, "h s a"]
    features: Float[Array, "s a d"] | None = None
    """Features in which the MDP is linear: reward and transition are linear in them at every step. None:
    the MDP is tabular, which is the case of one feature for each state and action."""

    @property
    def horizon(self) -> int:
        return int(self.reward_mean.shape[-3])

    def feature_table(self) -> Float[Array, "s a d"]:
        """The features, one-hot where the MDP is tabular."""
        if self.features is not None:
            return self.features
        states, actions = self.reward_mean.shape[-2:]
        return jnp.eye(states * actions).reshape(states, actions, states * actions)


def one_hot_greedy(q: Float[Array, "*h s a"]) -> Float[Array, "*h s a"]:
    """The greedy policy; a tie goes to the lowest action, so action labels are shuffled in every family."""
    return jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1], dtype=q.dtype)


@jax.jit
def bellman(mdp: MDP, f: Float[Array, "h s a"]) -> Float[Array, "h s a"]:
    """(T f)_h = E[r] + E max_a' f_{h+1}(s', a'), with f_H = 0, for all h at once."""
    next_value = jnp.concatenate([f.max(axis=-1)[1:], jnp.zeros_like(f[:1, :, 0])])
    return mdp.reward_mean + jnp.einsum("hsan,hn->hsa", mdp.transition, next_value)


@jax.jit
def optimal_q(mdp: MDP) -> Float[Array, "h s a"]:
    """Exact value iteration."""
    return _backup(mdp, lambda _, q: q.max(axis=-1), mdp.reward_mean)


@partial(jax.jit, static_argnames="unroll")
def policy_q(mdp: MDP, policy: Float[Array, "h s a"], *, unroll: bool = False) -> Float[Array, "h s a"]:
    """Q^pi of any policy, exactly."""
    return _backup(mdp, lambda probability, q: (probability * q).sum(axis=-1), policy, unroll)


@jax.jit
def policy_value(mdp: MDP, policy: Float[Array, "h s a"]) -> Float[Array, ""]:
    """E_rho V_0^pi; unrolled, because every episode of every run asks for it."""
    return mdp.start @ (policy[0] * policy_q(mdp, policy, unroll=True)[0]).sum(axis=-1)


def greedy_value(mdp: MDP, f: Float[Array, "h s a"]) -> Float[Array, ""]:
    """E_rho max_a f_0(s, a): what f promises, whatever its greedy policy obtains."""
    return mdp.start @ f[0].max(axis=-1)


@jax.jit
def occupancy(mdp: MDP, policy: Float[Array, "h s a"]) -> Float[Array, "h s a"]:
    """d_h^pi(s, a), one distribution for every step."""

    def step(state: Float[Array, " s"], inputs: tuple[Array, Array]) -> tuple[Float[Array, " s"], Float[Array, "s a"]]:
        action_probability, transition = inputs
        visited = state[:, None] * action_probability
        return jnp.einsum("sa,san->n", visited, transition), visited

    return jax.lax.scan(step, mdp.start, (policy, mdp.transition))[1]


def _backup(
    mdp: MDP, value: Callable[[Array, Array], Array], weights: Array, unroll: bool = False
) -> Float[Array, "h s a"]:
    """Backward recursion; `value(weights_h, q_h)` turns the table of step h into its state values."""

    def step(
        next_value: Float[Array, " s"], inputs: tuple[Array, Array, Array]
    ) -> tuple[Float[Array, " s"], Float[Array, "s a"]]:
        reward_mean, transition, weight = inputs
        q = reward_mean + transition @ next_value
        return value(weight, q), q

    inputs = (mdp.reward_mean, mdp.transition, weights)
    return jax.lax.scan(step, jnp.zeros_like(mdp.start), inputs, reverse=True, unroll=unroll)[1]
