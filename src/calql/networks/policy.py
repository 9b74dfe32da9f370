"""The tanh-Gaussian policy: a diagonal Gaussian squashed into the box of actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks.mlp import MLP, Style

LOG_STD_RANGE = (-20.0, 2.0)


class Gaussian(eqx.Module):
    """Mean and log standard deviation of the action before the tanh."""

    mean: jax.Array  # [..., action]
    log_std: jax.Array  # [..., action]


class TanhGaussianPolicy(eqx.Module):
    """log_std = clip(multiplier * output + offset), both scalars trained with the network.

    With `state_dependent_std` off, the network gives the mean alone and the log standard deviation is
    one trained vector.
    """

    encoder: Callable[[jax.Array], jax.Array]
    network: MLP
    log_std_multiplier: jax.Array
    log_std_offset: jax.Array
    log_std: jax.Array | None

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        state_dependent_std: bool = True,
        log_std_offset: float = -1.0,
        layer_norm: bool = False,
        style: Style = Style(),
    ) -> None:
        self.encoder = encoder
        self.network = MLP(
            features,
            2 * action_dim if state_dependent_std else action_dim,
            widths,
            key=key,
            layer_norm=layer_norm,
            style=style,
        )
        self.log_std_multiplier = jnp.asarray(1.0)
        self.log_std_offset = jnp.asarray(log_std_offset)
        self.log_std = None if state_dependent_std else jnp.zeros(action_dim)

    def __call__(self, observation: jax.Array) -> Gaussian:
        outputs = self.network(self.encoder(observation))
        if self.log_std is None:
            mean, raw = jnp.split(outputs, 2, axis=-1)
        else:
            mean, raw = outputs, self.log_std
        log_std = jnp.clip(self.log_std_multiplier * raw + self.log_std_offset, *LOG_STD_RANGE)
        return Gaussian(mean, log_std)


def mode(gaussian: Gaussian) -> jax.Array:
    """The deterministic action, tanh(mean)."""
    return jnp.tanh(gaussian.mean)


def sample(gaussian: Gaussian, key: jax.Array, samples: tuple[int, ...] = ()) -> tuple[jax.Array, jax.Array]:
    """Reparameterised actions [..., *samples, action] and their log-probabilities [..., *samples].

    The log-probability comes from the value before the tanh: no inverse tanh, so no saturation.
    """
    shape = (*gaussian.mean.shape[:-1], *(1 for _ in samples), gaussian.mean.shape[-1])
    mean, log_std = gaussian.mean.reshape(shape), gaussian.log_std.reshape(shape)
    full = (*gaussian.mean.shape[:-1], *samples, gaussian.mean.shape[-1])
    noise = jax.random.normal(key, full)
    before_tanh = mean + jnp.exp(log_std) * noise
    return jnp.tanh(before_tanh), _log_prob(before_tanh, noise, log_std)


def log_prob(gaussian: Gaussian, actions: jax.Array) -> jax.Array:
    """Log-probability of given actions strictly inside the box."""
    before_tanh = jnp.arctanh(actions)
    noise = (before_tanh - gaussian.mean) / jnp.exp(gaussian.log_std)
    return _log_prob(before_tanh, noise, gaussian.log_std)


def _log_prob(before_tanh: jax.Array, noise: jax.Array, log_std: jax.Array) -> jax.Array:
    """Gaussian density of the noise, divided by the volume change of std and tanh, summed over the action."""
    normal = -0.5 * (noise**2 + math.log(2.0 * math.pi)) - log_std
    log_tanh_slope = 2.0 * (math.log(2.0) - before_tanh - jax.nn.softplus(-2.0 * before_tanh))
    return jnp.sum(normal - log_tanh_slope, axis=-1)
