"""Perceptrons from the names and layouts of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks import MLP


def torch_perceptron(leaves: Mapping[str, jax.Array], names: Sequence[str], like: MLP) -> MLP:
    """From layers `NAME.weight` [output, input] and `NAME.bias`, the last of them the output."""
    layers = [
        eqx.tree_at(lambda m: (m.weight, m.bias), layer, (leaves[f"{name}.weight"], leaves[f"{name}.bias"]))
        for name, layer in zip(names, (*like.hidden, like.output), strict=True)
    ]
    return eqx.tree_at(lambda m: (m.hidden, m.output), like, (tuple(layers[:-1]), layers[-1]))


def stacked(members: Sequence[MLP]) -> MLP:
    """Critics one by one as an ensemble, every leaf [critic, ...]."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)


def member(ensemble: MLP, index: int = 0) -> MLP:
    return jax.tree.map(lambda leaf: leaf[index], ensemble)
