"""How far fused and plain critics in bfloat16 are from float32, on an H100 or H200 at AntMaze's shapes.

python docs/figures/fused_error.py [WIDTH ...]
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp

from calql.networks import Critics, Identity, Style, q_values
from calql.networks.kernels import fused

BATCH, SAMPLES, FEATURES, ACTION = 256, 31, 29, 8
WIDTHS = tuple(map(int, sys.argv[1:])) or (256,) * 4
features = jax.random.normal(jax.random.key(1), (BATCH, FEATURES))
actions = jax.random.uniform(jax.random.key(2), (BATCH, SAMPLES, ACTION), minval=-1.0)
weights = jax.random.uniform(jax.random.key(3), (2, BATCH, SAMPLES))


def both(q: Any, precision: Any) -> tuple[Any, ...]:
    """Q, and the gradients of a loss of it to weights, features and actions."""
    style = Style(precision=precision, output_gain=1.0)
    critics = Critics(Identity(), FEATURES, ACTION, WIDTHS, count=2, key=jax.random.key(0), style=style)

    def loss(*inputs: Any) -> tuple[jax.Array, jax.Array]:
        found = q(*inputs)
        return jnp.sum(weights * found**2), found

    gradients, found = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(critics, features, actions)
    return found, *gradients


def distance(x: Any, y: Any) -> float:
    """Relative, over all leaves."""
    a, b = (jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)]) for tree in (x, y))
    return float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))


if __name__ == "__main__":
    exact = both(q_values, "float32")
    plain = both(q_values, "bfloat16")
    kernel = both(lambda critics, *pairs: fused.q_of_pairs(critics.members, *pairs), "bfloat16")
    for name, ours, coarse, true in zip(("Q", "weights", "features", "actions"), kernel, plain, exact, strict=True):
        print(f"{name}: fused {100 * distance(ours, true):.2f}%, plain {100 * distance(coarse, true):.2f}%")
