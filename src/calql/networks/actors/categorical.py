"""A probability for each of several actions: the actor of discrete spaces, whose actions are one-hot rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks import draws
from calql.networks.actors.base import CHOICES, DENSITY, ActionDistribution, Actor, beside, drawn_shape, with_samples
from calql.networks.mlp import MLP, Style

FORBIDDEN = -1e30  # a logit whose probability is 0 to the last bit, and finite, so that 0 times it is 0


class Categorical(ActionDistribution):
    """Logits of the choices. What is forbidden has probability 0, is never drawn and never the mode."""

    logits: jax.Array  # [..., choice]

    def allowing(self, mask: jax.Array | None) -> Categorical:
        """The same among the allowed choices alone; mask [..., choice], or None where all are."""
        return self if mask is None else Categorical(jnp.where(mask, self.logits, FORBIDDEN))

    @property
    def log_probs(self) -> jax.Array:
        """Of every choice [..., choice]."""
        return jax.nn.log_softmax(self.logits, axis=-1)

    def expectation(self, values: jax.Array) -> jax.Array:
        """Exact mean of finite values [..., choice]; those of forbidden choices count nothing."""
        return jnp.sum(jnp.exp(self.log_probs) * values, axis=-1)

    def entropy(self) -> jax.Array:
        """Exact, in nats [...]."""
        return -self.expectation(self.log_probs)

    def sample(self, key: jax.Array, n: int | None = None, name: str = "action") -> tuple[jax.Array, jax.Array]:
        """The largest of logit plus Gumbel noise is a draw of the softmax."""
        noise = draws.gumbel(name, key, drawn_shape(self.logits, n))
        actions = _one_hot(with_samples(self.logits, n) + noise)
        return actions, self.log_prob(actions)

    def mode(self) -> jax.Array:
        return _one_hot(self.logits)

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Of one-hot actions."""
        return jnp.sum(jnp.where(actions > 0.0, beside(self.log_probs, actions), 0.0), axis=-1)


class CategoricalActor(Actor):
    encoder: Callable[[jax.Array], jax.Array]
    network: MLP
    policy_dropout: float = eqx.field(static=True)

    gives: ClassVar[frozenset[str]] = frozenset({DENSITY, CHOICES})

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        style: Style = Style(),
        policy_dropout: float = 0.0,
        policy_layer_norm: bool = False,
    ) -> None:
        self.encoder = encoder
        self.network = MLP(features, action_dim, widths, key=key, layer_norm=policy_layer_norm, style=style)
        self.policy_dropout = policy_dropout

    def __call__(self, observations: jax.Array, key: jax.Array | None = None) -> Categorical:
        return Categorical(self.network(self.encoder(observations), dropout=self.policy_dropout, key=key))


def _one_hot(values: jax.Array) -> jax.Array:
    """1 at the largest of [..., choice], the first of equal ones."""
    return jax.nn.one_hot(jnp.argmax(values, axis=-1), values.shape[-1], dtype=jnp.float32)
