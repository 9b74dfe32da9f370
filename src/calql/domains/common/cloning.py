"""Behaviour cloning: a small policy that imitates demonstrations, for data that are worse than they are."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from calql.domains.common.policies import Layer, StoredPolicy
from calql.networks import MLP, Style

WIDTHS = (256, 256)
UPDATES = 5_000
BATCH = 256
RATE = 1e-3


def clone(
    observations: NDArray[np.float32],
    actions: NDArray[np.float32],
    *,
    seed: int,
    noise: float,
    updates: int = UPDATES,
    least_spread: float = 1e-3,
) -> StoredPolicy:
    """A deterministic policy, tanh(MLP(o)), fitted by least squares; it acts with `noise` before the tanh.

    Observations are standardised while fitting; the policy that comes back takes them as they are.
    `least_spread` keeps what hardly moves small: blown up to the size of the rest, its noise is learnt by heart.
    """
    mean, spread = observations.mean(axis=0), observations.std(axis=0) + least_spread
    inputs, targets = jnp.asarray((observations - mean) / spread), jnp.asarray(actions)
    network = _fit(inputs, targets, jax.random.key(seed), updates)
    first, *others = [_layer(layer) for layer in network.hidden]
    return StoredPolicy(
        hidden=(_standardised(first, mean, spread), *others),
        mean=_layer(network.output),
        log_std=np.full(actions.shape[1], np.log(noise), np.float32) if noise > 0.0 else None,
        activation="relu",
        squashed=True,
    )


@eqx.filter_jit
def _fit(inputs: jax.Array, targets: jax.Array, key: jax.Array, updates: int) -> MLP:
    start, draw = jax.random.split(key)
    network = MLP(inputs.shape[1], targets.shape[1], WIDTHS, key=start, style=Style(initialiser="lecun"))
    optimiser = optax.adam(RATE)

    def loss(network: MLP, rows: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(network(inputs[rows])) - targets[rows]) ** 2)

    def update(carry: tuple[MLP, optax.OptState], key: jax.Array) -> tuple[tuple[MLP, optax.OptState], None]:
        network, state = carry
        rows = jax.random.randint(key, (BATCH,), 0, len(inputs))
        changes, state = optimiser.update(jax.grad(loss)(network, rows), state)
        return (optax.apply_updates(network, changes), state), None

    (network, _), _ = jax.lax.scan(update, (network, optimiser.init(network)), jax.random.split(draw, updates))
    return network


def _layer(layer: eqx.nn.Linear) -> Layer:
    assert layer.bias is not None
    return np.asarray(layer.weight).T.copy(), np.asarray(layer.bias)


def _standardised(layer: Layer, mean: NDArray[np.float32], spread: NDArray[np.float32]) -> Layer:
    """The layer that gives for raw inputs what this one gives for standardised ones."""
    weight, bias = layer
    return (weight / spread[:, None]).astype(np.float32), (bias - (mean / spread) @ weight).astype(np.float32)
