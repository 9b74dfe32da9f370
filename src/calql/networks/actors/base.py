"""What an actor is: a network that turns observations into a distribution of actions, and what that can be asked.

Learners, collection and evaluation ask for `sample`, `mode` and `log_prob`, and nothing else. What an actor cannot give
it does not claim in `gives`, and a learner that needs it refuses the actor before anything starts.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

# What a learner may need of an actor, in the words of an error.
DENSITY = "a density of its actions"  # `log_prob`, and that of samples, is a number and not None
GRADIENTS = "gradients through its actions"  # `sample` is reparameterised, and `mode` has a slope
CHOICES = "the probabilities of all choices"  # its distribution is a Categorical


class ActionDistribution(eqx.Module):
    """The actions at each of the states [...], in the box [-1, 1]. A pytree, so it passes through jit and vmap."""

    @abstractmethod
    def sample(self, key: jax.Array, n: int | None = None, name: str = "action") -> tuple[jax.Array, jax.Array | None]:
        """One action per state [..., action] or `n` of them [..., n, action], and their log-densities or None.

        Random numbers come from `draws`, under the given name.
        """

    @abstractmethod
    def mode(self) -> jax.Array:
        """The action to play when none is to be drawn [..., action]."""

    def log_prob(self, actions: jax.Array) -> jax.Array | None:
        """Log-density of actions [..., action] or [..., n, action]; None where there is none."""
        return None


class Actor(eqx.Module):
    """The network of a policy.

    It is made as `Kind(encoder, features, action_dim, widths, key=..., style=..., **settings)`. Its settings are the
    other keywords that it takes: a learner's options of the same names.
    """

    gives: ClassVar[frozenset[str]] = frozenset()
    place: ClassVar[int] = 1_000  # in lists; equal ones by name

    @abstractmethod
    def __call__(self, observations: jax.Array, key: jax.Array | None = None) -> ActionDistribution:
        """With a key, hidden units drop out where the actor has dropout; without one, none does."""


def sample_with_density(
    distribution: ActionDistribution, key: jax.Array, n: int | None = None, name: str = "action"
) -> tuple[jax.Array, jax.Array]:
    """`sample`, for learners that need a density."""
    actions, log_probs = distribution.sample(key, n, name)
    assert log_probs is not None, "the learner did not say that it needs a density"
    return actions, log_probs


def log_density(distribution: ActionDistribution, actions: jax.Array) -> jax.Array:
    """`log_prob`, for learners that need a density."""
    log_probs = distribution.log_prob(actions)
    assert log_probs is not None, "the learner did not say that it needs a density"
    return log_probs


def with_samples(values: jax.Array, n: int | None) -> jax.Array:
    """[..., action] as it goes together with samples: [..., 1, action] where there are `n` of them."""
    return values if n is None else jnp.expand_dims(values, -2)


def beside(values: jax.Array, actions: jax.Array) -> jax.Array:
    """[..., action] as it goes together with given actions: with an axis of samples where these have one."""
    return with_samples(values, None if actions.ndim <= values.ndim else actions.shape[-2])


def drawn_shape(values: jax.Array, n: int | None) -> tuple[int, ...]:
    """Of the actions drawn at [..., action]."""
    return values.shape if n is None else (*values.shape[:-1], n, values.shape[-1])
