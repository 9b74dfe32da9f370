"""One action per state, tanh of a network: the actor of TD3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from calql.networks.actors.base import GRADIENTS, ActionDistribution, Actor, drawn_shape, with_samples
from calql.networks.mlp import MLP, Style


class Deterministic(ActionDistribution):
    """All of it at one action, which needs no random number to be drawn and has no density."""

    action: jax.Array  # [..., action]

    def sample(self, key: jax.Array, n: int | None = None, name: str = "action") -> tuple[jax.Array, None]:
        return jnp.broadcast_to(with_samples(self.action, n), drawn_shape(self.action, n)), None

    def mode(self) -> jax.Array:
        return self.action


class DeterministicActor(Actor):
    encoder: Callable[[jax.Array], jax.Array]
    network: MLP

    gives: ClassVar[frozenset[str]] = frozenset({GRADIENTS})
    place: ClassVar[int] = 3

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        style: Style = Style(),
        policy_layer_norm: bool = False,
    ) -> None:
        self.encoder = encoder
        self.network = MLP(features, action_dim, widths, key=key, layer_norm=policy_layer_norm, style=style)

    def __call__(self, observations: jax.Array, key: jax.Array | None = None) -> Deterministic:
        return Deterministic(jnp.tanh(self.network(self.encoder(observations))))


ACTORS = {"deterministic": DeterministicActor}
