"""Policies in the form in which they act: one state at a time, on one core of a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from calql.networks.copies import with_fields
from calql.networks.encoder import ImageEncoder
from calql.networks.mlp import MLP, Values
from calql.networks.transformer import Block

PRECISE = (MLP, ImageEncoder, Block)  # networks with a precision of their own, none within another


class Turned(eqx.Module):
    """A linear layer with its weight as [input, output]: the product with one row then reads it in order."""

    kernel: Any
    bias: Any
    layer: eqx.nn.Linear  # without its arrays

    def linear(self) -> eqx.nn.Linear:
        return with_fields(self.layer, weight=self.kernel.T, bias=self.bias)


def for_acting(policy: Values) -> Values:
    """A policy on the host, its linear layers turned and its products in float32."""
    return _each(in_float32(policy), eqx.nn.Linear, _turned)


def in_float32(policy: Values) -> Values:
    """Its parameters are float32 in any case, and a CPU gains nothing from fewer bits in its products."""
    return _each(policy, PRECISE, lambda network: with_fields(network, precision="float32"))


def as_trained(policy: Values) -> Values:
    """Within the compiled function: what methods know how to act with. The turning costs nothing there."""
    return _each(policy, Turned, Turned.linear)


def _turned(layer: eqx.nn.Linear) -> Turned:
    return Turned(
        np.ascontiguousarray(np.asarray(layer.weight).T), layer.bias, with_fields(layer, weight=None, bias=None)
    )


def _each(tree: Values, kind: Any, change: Callable[[Any], Any]) -> Values:
    """The tree with each module of a kind changed."""
    found = lambda node: isinstance(node, kind)  # noqa: E731
    return jax.tree.map(lambda node: change(node) if found(node) else node, tree, is_leaf=found)
