"""A Gaussian around tanh of a network, not squashed itself: the actor of IQL and AWAC."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks import draws
from calql.networks.actors.base import (
    DENSITY,
    GRADIENTS,
    ActionDistribution,
    Actor,
    beside,
    drawn_shape,
    with_samples,
)
from calql.networks.mlp import MLP, Style

LogStdForm = Literal["clipped", "sigmoid"]


class Gaussian(ActionDistribution):
    """Mean and log standard deviation of the action. Its samples are cut to the box, their density is that before."""

    mean: jax.Array  # [..., action]
    log_std: jax.Array  # [..., action]
    clip_samples: bool = eqx.field(static=True, default=True)  # off: some lie beyond the box

    def sample(self, key: jax.Array, n: int | None = None, name: str = "action") -> tuple[jax.Array, jax.Array]:
        mean, log_std = with_samples(self.mean, n), with_samples(self.log_std, n)
        noise = draws.normal(name, key, drawn_shape(self.mean, n))
        actions = mean + jnp.exp(log_std) * noise
        return (jnp.clip(actions, -1.0, 1.0) if self.clip_samples else actions), _log_prob(noise, log_std)

    def mode(self) -> jax.Array:
        """The mean."""
        return self.mean

    def log_prob(self, actions: jax.Array) -> jax.Array:
        mean, log_std = beside(self.mean, actions), beside(self.log_std, actions)
        return _log_prob((actions - mean) / jnp.exp(log_std), log_std)


class GaussianActor(Actor):
    """One log standard deviation per action dimension, the same at every state.

    It is trained and cut to `log_std_range`, or what a sigmoid makes of it spans that range, or the standard
    deviation is kept at `policy_std`.
    """

    encoder: Callable[[jax.Array], jax.Array]
    network: MLP
    log_std: jax.Array | None
    policy_std: float = eqx.field(static=True)
    log_std_range: tuple[float, float] = eqx.field(static=True)
    log_std_form: LogStdForm = eqx.field(static=True)
    policy_dropout: float = eqx.field(static=True)
    clip_samples: bool = eqx.field(static=True)

    gives: ClassVar[frozenset[str]] = frozenset({DENSITY, GRADIENTS})
    place: ClassVar[int] = 2

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        style: Style = Style(),
        policy_std: float = 0.0,
        log_std_range: tuple[float, float] = (-5.0, 2.0),
        log_std_form: LogStdForm = "clipped",
        policy_dropout: float = 0.0,
        policy_layer_norm: bool = False,
        clip_samples: bool = True,
    ) -> None:
        self.encoder = encoder
        self.network = MLP(features, action_dim, widths, key=key, layer_norm=policy_layer_norm, style=style)
        self.log_std = None if policy_std else jnp.zeros(action_dim)
        self.policy_std, self.log_std_range, self.log_std_form = policy_std, log_std_range, log_std_form
        self.policy_dropout, self.clip_samples = policy_dropout, clip_samples

    def __call__(self, observations: jax.Array, key: jax.Array | None = None) -> Gaussian:
        mean = jnp.tanh(self.network(self.encoder(observations), dropout=self.policy_dropout, key=key))
        if self.log_std is None:
            return Gaussian(mean, jnp.full_like(mean, math.log(self.policy_std)), self.clip_samples)
        low, high = self.log_std_range
        if self.log_std_form == "sigmoid":
            log_std = low + jax.nn.sigmoid(self.log_std) * (high - low)
        else:
            log_std = jnp.clip(self.log_std, low, high)
        return Gaussian(mean, jnp.broadcast_to(log_std, mean.shape), self.clip_samples)


ACTORS = {"gaussian": GaussianActor}


def _log_prob(noise: jax.Array, log_std: jax.Array) -> jax.Array:
    """Gaussian density of the noise, divided by the standard deviation, summed over the action."""
    return jnp.sum(-0.5 * (noise**2 + math.log(2.0 * math.pi)) - log_std, axis=-1)
