"""A diagonal Gaussian squashed by tanh into the box of actions: the actor of SAC, CQL and Cal-QL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

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

LOG_STD_RANGE = (-20.0, 2.0)
INSIDE = 0.99999  # where a density is still finite; logged actions are clipped before, by the run's `action_limit`


class TanhGaussian(ActionDistribution):
    """Mean and log standard deviation of the action before the tanh."""

    mean: jax.Array  # [..., action]
    log_std: jax.Array  # [..., action]
    inside: float = eqx.field(static=True, default=INSIDE)  # `log_prob` takes actions as no nearer to the edge

    def sample(self, key: jax.Array, n: int | None = None, name: str = "action") -> tuple[jax.Array, jax.Array]:
        """The log-density comes from the value before the tanh: no inverse tanh, so no saturation."""
        mean, log_std = with_samples(self.mean, n), with_samples(self.log_std, n)
        noise = draws.normal(name, key, drawn_shape(self.mean, n))
        before_tanh = mean + jnp.exp(log_std) * noise
        return jnp.tanh(before_tanh), _log_prob(before_tanh, noise, log_std)

    def mode(self) -> jax.Array:
        """tanh(mean)."""
        return jnp.tanh(self.mean)

    def log_prob(self, actions: jax.Array) -> jax.Array:
        mean, log_std = beside(self.mean, actions), beside(self.log_std, actions)
        before_tanh = jnp.arctanh(jnp.clip(actions, -self.inside, self.inside))
        noise = (before_tanh - mean) / jnp.exp(log_std)
        return _log_prob(before_tanh, noise, log_std)


class TanhGaussianActor(Actor):
    """log_std = clip(multiplier * output + offset), both scalars trained with the network.

    With `log_std_scalars` off, the log standard deviation has an output layer of its own and no scalars (RLPD,
    WSRL). With `state_dependent_std` off, the network gives the mean alone and the log standard deviation
    is one trained vector.
    """

    encoder: Callable[[jax.Array], jax.Array]
    network: MLP
    log_std_multiplier: jax.Array | None
    log_std_offset: jax.Array | None
    log_std: jax.Array | None
    log_std_range: tuple[float, float] = eqx.field(static=True)

    gives: ClassVar[frozenset[str]] = frozenset({DENSITY, GRADIENTS})
    place: ClassVar[int] = 1

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        style: Style = Style(),
        state_dependent_std: bool = True,
        log_std_scalars: bool = True,
        log_std_offset: float = -1.0,
        log_std_range: tuple[float, float] = LOG_STD_RANGE,
        policy_layer_norm: bool = False,
    ) -> None:
        self.encoder = encoder
        self.network = MLP(
            features,
            2 * action_dim if state_dependent_std else action_dim,
            widths,
            key=key,
            layer_norm=policy_layer_norm,
            heads=2 if state_dependent_std and not log_std_scalars else 1,
            style=style,
        )
        self.log_std_multiplier = jnp.float32(1.0) if log_std_scalars else None
        self.log_std_offset = jnp.float32(log_std_offset) if log_std_scalars else None
        self.log_std = None if state_dependent_std else jnp.zeros(action_dim)
        self.log_std_range = log_std_range

    def __call__(self, observations: jax.Array, key: jax.Array | None = None) -> TanhGaussian:
        outputs = self.network(self.encoder(observations))
        if self.log_std is None:
            mean, raw = jnp.split(outputs, 2, axis=-1)
        else:
            mean, raw = outputs, jnp.broadcast_to(self.log_std, outputs.shape)
        if self.log_std_multiplier is not None and self.log_std_offset is not None:
            raw = self.log_std_multiplier * raw + self.log_std_offset
        return TanhGaussian(mean, jnp.clip(raw, *self.log_std_range))


ACTORS = {"tanh-gaussian": TanhGaussianActor}


def _log_prob(before_tanh: jax.Array, noise: jax.Array, log_std: jax.Array) -> jax.Array:
    """Gaussian density of the noise, divided by the volume change of std and tanh, summed over the action."""
    normal = -0.5 * (noise**2 + math.log(2.0 * math.pi)) - log_std
    log_tanh_slope = 2.0 * (math.log(2.0) - before_tanh - jax.nn.softplus(-2.0 * before_tanh))
    return jnp.sum(normal - log_tanh_slope, axis=-1)
