"""How linear layers start: by name, as the code bases that methods come from have it.

The names are values of `--initialiser`, which runs have recorded; two of them are of the one code base that starts so.
"""

from __future__ import annotations

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

Initialiser = Literal["orthogonal", "lecun", "xavier", "torch", "rebrac", "rlkit"]


def linear(
    inputs: int, outputs: int, key: jax.Array, initialiser: Initialiser, gain: float, *, output: bool = False
) -> eqx.nn.Linear:
    """A linear layer as it starts. `gain` is of orthogonal kernels, or the bound of rebrac's and rlkit's outputs."""
    weight, bias = _start(inputs, outputs, key, initialiser, gain, output)
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    return eqx.tree_at(lambda module: (module.weight, module.bias), layer, (weight, bias))


def _start(
    inputs: int, outputs: int, key: jax.Array, initialiser: Initialiser, gain: float, output: bool
) -> tuple[jax.Array, jax.Array]:
    """Weight [output, input] and bias."""
    zeros = jnp.zeros(outputs)
    key_bias = jax.random.fold_in(key, 1)

    def within(bound: float, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.uniform(key, shape, minval=-bound, maxval=bound)

    if initialiser == "torch":  # nn.Linear: kernel and bias alike
        bound = 1.0 / math.sqrt(inputs)
        return within(bound, key, (outputs, inputs)), within(bound, key_bias, (outputs,))
    if initialiser == "rebrac":
        bound = gain if output else 1.0 / math.sqrt(inputs)
        bias = within(gain, key_bias, (outputs,)) if output else jnp.full(outputs, 0.1)
        return within(bound, key, (outputs, inputs)), bias
    if initialiser == "rlkit":  # its fan-in is the number of outputs
        return within(gain if output else 1.0 / math.sqrt(outputs), key, (outputs, inputs)), zeros
    kernels = {
        "orthogonal": jax.nn.initializers.orthogonal(gain),
        "lecun": jax.nn.initializers.lecun_normal(),
        "xavier": jax.nn.initializers.glorot_uniform(),
    }
    return kernels[initialiser](key, (inputs, outputs), jnp.float32).T, zeros
