"""Adam with the step size as a traced number, so that it may differ between the seeds of one program."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
import optax

Parameters = TypeVar("Parameters")

ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


def descend(
    gradient: Parameters, adam: optax.OptState, parameters: Parameters, rate: jax.Array | float
) -> tuple[Parameters, optax.OptState]:
    """One Adam step down the gradient: the new parameters and moments."""
    direction, adam = ADAM.update(gradient, adam)
    return jax.tree.map(lambda p, d: p - rate * d, parameters, direction), adam


def drift(adam: optax.OptState, parameters: Parameters, rate: jax.Array | float) -> tuple[Parameters, optax.OptState]:
    """An Adam step with gradient 0: moments decay, and the parameters go on by what is left of them."""
    return descend(jax.tree.map(jnp.zeros_like, parameters), adam, parameters, rate)


def clip_by_norm(gradient: Parameters, most: float) -> Parameters:
    """The gradient, shortened to that norm where it is longer (torch's rule: norm + 1e-6 in the divisor)."""
    factor = jnp.minimum(most / (optax.global_norm(gradient) + 1e-6), 1.0)
    return jax.tree.map(lambda g: factor * g, gradient)


def trusted(direction: Parameters, parameters: Parameters) -> Parameters:
    """LAMB's trust ratio: each leaf of a step as long as the parameters it changes, where neither is 0."""

    def scaled(step: jax.Array, values: jax.Array) -> jax.Array:
        length, size = jnp.linalg.norm(step), jnp.linalg.norm(values)
        fair = (length > 0.0) & (size > 0.0)
        return jnp.where(fair, size / jnp.where(fair, length, 1.0), 1.0) * step

    return jax.tree.map(scaled, direction, parameters)
