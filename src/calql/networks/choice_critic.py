"""Q-functions of discrete actions: one pass gives Q of every choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks.mlp import MLP, Style


class ChoiceCritics(eqx.Module):
    """Independent Q-functions with an output for each choice, stacked along a leading critic axis."""

    encoder: Callable[[jax.Array], jax.Array]
    members: MLP  # every leaf [critic, ...]
    count: int = eqx.field(static=True)
    kernel: ClassVar[str] = "plain"

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        choices: int,
        widths: Sequence[int],
        *,
        count: int,
        key: jax.Array,
        layer_norm: bool = False,
        style: Style = Style(),
    ) -> None:
        def member(key: jax.Array) -> MLP:
            return MLP(features, choices, widths, key=key, layer_norm=layer_norm, style=style)

        self.encoder, self.count = encoder, count
        self.members = jax.lax.map(member, jax.random.split(key, count))  # not vmap: see Program.start

    def encode(self, observations: jax.Array) -> jax.Array:
        return self.encoder(observations)

    def of_choices(self, features: jax.Array) -> jax.Array:
        """Q [critic, ..., choice] of features [..., feature]."""
        return jax.vmap(lambda member: member(features))(self.members)


def at_actions(q: jax.Array, actions: jax.Array) -> jax.Array:
    """Of Q [critic, batch, choice], that of one-hot actions [batch, choice]: Q [critic, batch]."""
    return jnp.sum(q * actions, axis=-1)


def best_allowed(q: jax.Array, mask: jax.Array | None) -> jax.Array:
    """The allowed choice of the largest value [..., choice], as a one-hot row; the first of equal ones."""
    reachable = q if mask is None else jnp.where(mask, q, -jnp.inf)
    return jax.nn.one_hot(jnp.argmax(reachable, axis=-1), q.shape[-1], dtype=jnp.float32)
