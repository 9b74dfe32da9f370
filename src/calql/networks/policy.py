"""The tanh-Gaussian policy: a diagonal Gaussian squashed into the box of actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks import draws
from calql.networks.mlp import MLP, Style

LogStdForm = Literal["clipped", "sigmoid"]
LOG_STD_RANGE = (-20.0, 2.0)
INSIDE = 0.99999  # where a density is still finite; logged actions are clipped before, by the run's `action_limit`


class Gaussian(eqx.Module):
    """Mean and log standard deviation of the action before the tanh."""

    mean: jax.Array  # [..., action]
    log_std: jax.Array  # [..., action]


class TanhGaussianPolicy(eqx.Module):
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

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        state_dependent_std: bool = True,
        log_std_scalars: bool = True,
        log_std_offset: float = -1.0,
        log_std_range: tuple[float, float] = LOG_STD_RANGE,
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
            heads=2 if state_dependent_std and not log_std_scalars else 1,
            style=style,
        )
        self.log_std_multiplier = jnp.float32(1.0) if log_std_scalars else None
        self.log_std_offset = jnp.float32(log_std_offset) if log_std_scalars else None
        self.log_std = None if state_dependent_std else jnp.zeros(action_dim)
        self.log_std_range = log_std_range

    def __call__(self, observation: jax.Array) -> Gaussian:
        outputs = self.network(self.encoder(observation))
        if self.log_std is None:
            mean, raw = jnp.split(outputs, 2, axis=-1)
        else:
            mean, raw = outputs, jnp.broadcast_to(self.log_std, outputs.shape)
        if self.log_std_multiplier is not None and self.log_std_offset is not None:
            raw = self.log_std_multiplier * raw + self.log_std_offset
        return Gaussian(mean, jnp.clip(raw, *self.log_std_range))


class BoundedGaussianPolicy(eqx.Module):
    """A Gaussian around tanh of the network, not squashed itself; its log standard deviation is one vector.

    The vector is trained and cut to `log_std_range`, or what a sigmoid makes of it spans that range, or it is kept at
    the given standard deviation. The policy of IQL and AWAC.
    """

    encoder: Callable[[jax.Array], jax.Array]
    network: MLP
    log_std: jax.Array | None
    fixed_std: float = eqx.field(static=True)
    log_std_range: tuple[float, float] = eqx.field(static=True)
    log_std_form: LogStdForm = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        fixed_std: float = 0.0,
        log_std_range: tuple[float, float] = (-5.0, 2.0),
        log_std_form: LogStdForm = "clipped",
        dropout: float = 0.0,
        style: Style = Style(),
    ) -> None:
        self.encoder = encoder
        self.network = MLP(features, action_dim, widths, key=key, style=style)
        self.log_std = None if fixed_std else jnp.zeros(action_dim)
        self.fixed_std, self.log_std_range, self.log_std_form = fixed_std, log_std_range, log_std_form
        self.dropout = dropout

    def __call__(self, observations: jax.Array, key: jax.Array | None = None) -> Gaussian:
        """With a key, hidden units drop out; without one, none does."""
        mean = jnp.tanh(self.network(self.encoder(observations), dropout=self.dropout, key=key))
        if self.log_std is None:
            return Gaussian(mean, jnp.full_like(mean, math.log(self.fixed_std)))
        low, high = self.log_std_range
        if self.log_std_form == "sigmoid":
            log_std = low + jax.nn.sigmoid(self.log_std) * (high - low)
        else:
            log_std = jnp.clip(self.log_std, low, high)
        return Gaussian(mean, jnp.broadcast_to(log_std, mean.shape))


class DeterministicPolicy(eqx.Module):
    """One action per state: tanh of the network. The policy of TD3."""

    encoder: Callable[[jax.Array], jax.Array]
    network: MLP

    def __init__(
        self,
        encoder: Callable[[jax.Array], jax.Array],
        features: int,
        action_dim: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        layer_norm: bool = False,
        style: Style = Style(),
    ) -> None:
        self.encoder = encoder
        self.network = MLP(features, action_dim, widths, key=key, layer_norm=layer_norm, style=style)

    def __call__(self, observations: jax.Array) -> jax.Array:
        return jnp.tanh(self.network(self.encoder(observations)))


def mode(gaussian: Gaussian) -> jax.Array:
    """The deterministic action, tanh(mean)."""
    return jnp.tanh(gaussian.mean)


def sample(
    gaussian: Gaussian, key: jax.Array, samples: tuple[int, ...] = (), name: str = "action"
) -> tuple[jax.Array, jax.Array]:
    """Reparameterised actions [..., *samples, action] and their log-probabilities [..., *samples].

    The log-probability comes from the value before the tanh: no inverse tanh, so no saturation.
    """
    shape = (*gaussian.mean.shape[:-1], *(1 for _ in samples), gaussian.mean.shape[-1])
    mean, log_std = gaussian.mean.reshape(shape), gaussian.log_std.reshape(shape)
    full = (*gaussian.mean.shape[:-1], *samples, gaussian.mean.shape[-1])
    noise = draws.normal(name, key, full)
    before_tanh = mean + jnp.exp(log_std) * noise
    return jnp.tanh(before_tanh), _log_prob(before_tanh, noise, log_std)


def log_prob(gaussian: Gaussian, actions: jax.Array, inside: float = INSIDE) -> jax.Array:
    """Log-probability of given actions, which count as at most `inside` of the way to the edge of the box."""
    before_tanh = jnp.arctanh(jnp.clip(actions, -inside, inside))
    noise = (before_tanh - gaussian.mean) / jnp.exp(gaussian.log_std)
    return _log_prob(before_tanh, noise, gaussian.log_std)


def normal_log_prob(gaussian: Gaussian, actions: jax.Array) -> jax.Array:
    """Log-probability [...] of actions under the Gaussian itself, without a tanh."""
    noise = (actions - gaussian.mean) / jnp.exp(gaussian.log_std)
    return jnp.sum(-0.5 * (noise**2 + math.log(2.0 * math.pi)) - gaussian.log_std, axis=-1)


def plain_sample(gaussian: Gaussian, key: jax.Array, name: str = "action") -> jax.Array:
    """Actions drawn from the Gaussian itself, without a tanh: some lie beyond the box."""
    return gaussian.mean + jnp.exp(gaussian.log_std) * draws.normal(name, key, gaussian.mean.shape)


def clipped_sample(gaussian: Gaussian, key: jax.Array, name: str = "action") -> jax.Array:
    """The same, cut to the box."""
    return jnp.clip(plain_sample(gaussian, key, name), -1.0, 1.0)


def _log_prob(before_tanh: jax.Array, noise: jax.Array, log_std: jax.Array) -> jax.Array:
    """Gaussian density of the noise, divided by the volume change of std and tanh, summed over the action."""
    normal = -0.5 * (noise**2 + math.log(2.0 * math.pi)) - log_std
    log_tanh_slope = 2.0 * (math.log(2.0) - before_tanh - jax.nn.softplus(-2.0 * before_tanh))
    return jnp.sum(normal - log_tanh_slope, axis=-1)
