"""Multilayer perceptrons as pytrees: every leaf is an array, so jit, vmap and scan take them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from calql.networks import draws
from calql.networks.initialisers import Initialiser, linear
from calql.networks.products import Precision as Precision
from calql.networks.products import add_to_rows, dtype_of, product, product_of_inputs

Values = TypeVar("Values")  # any pytree


@dataclass(frozen=True)
class Style:
    """What the networks of one learner have in common."""

    initialiser: Initialiser = "orthogonal"
    hidden_gain: float = 2.0**0.5  # of orthogonal kernels
    output_gain: float = 0.01
    last_hidden_gain: float = 2.0**0.5
    norm_after: bool = False  # layer norms, where there are any: after the ReLU and not before it
    precision: Precision = "float32"  # of hidden layers; outputs are float32


class Norm(eqx.Module):
    """Layer norm of the last axis, whatever stands before it."""

    scale: jax.Array
    shift: jax.Array
    epsilon: float = eqx.field(static=True)

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        """Flax's epsilon, which the authors of critics with norms have; torch's is 1e-5."""
        self.scale, self.shift, self.epsilon = jnp.ones(width), jnp.zeros(width), epsilon

    def __call__(self, x: jax.Array) -> jax.Array:
        return _normalised(x, self.scale, self.shift, self.epsilon)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _normalised(x: jax.Array, scale: jax.Array, shift: jax.Array, epsilon: float) -> jax.Array:
    """With a derivative of its own, for a GPU: backwards it is two kernels in a row, where the derived one is five.

    Sums are set apart from what uses them: else XLA writes both as one Triton kernel, anew for each place, and
    compiling ten critics with norms takes three times as long.
    """
    return _normalised_forward(x, scale, shift, epsilon)[0]


def _normalised_forward(
    x: jax.Array, scale: jax.Array, shift: jax.Array, epsilon: float
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    mean = set_apart(jnp.sum(x, -1, keepdims=True)) / x.shape[-1]
    variance = set_apart(jnp.sum(jnp.square(x - mean), -1, keepdims=True)) / x.shape[-1]
    size = jax.lax.rsqrt(variance + epsilon)
    normal = (x - mean) * size
    return normal * scale + shift, (normal, size, scale)


def _normalised_backward(
    epsilon: float, saved: tuple[jax.Array, ...], gradient: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    normal, size, scale = saved
    of_normal, rows = gradient * scale, tuple(range(normal.ndim - 1))
    sums = tuple(jnp.sum(values, -1, keepdims=True) for values in (of_normal, of_normal * normal))
    along, across = (values / normal.shape[-1] for values in set_apart(sums))
    of_scale, of_shift = jnp.sum(gradient * normal, rows), jnp.sum(gradient, rows)
    return size * (of_normal - along - normal * across), of_scale, of_shift


_normalised.defvjp(_normalised_forward, _normalised_backward)


class MLP(eqx.Module):
    """ReLU layers of the given widths and a linear output, applied to the last axis."""

    hidden: tuple[eqx.nn.Linear, ...]
    norms: tuple[Norm, ...]  # one per hidden layer, or none
    output: eqx.nn.Linear
    norm_after: bool = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        widths: Sequence[int],
        *,
        key: jax.Array,
        layer_norm: bool = False,
        heads: int = 1,
        style: Style = Style(),
    ) -> None:
        """The output starts as `heads` layers side by side, each with a share of the outputs."""
        sizes = [inputs, *widths]
        keys = jax.random.split(key, len(sizes))
        gains = [style.hidden_gain] * len(widths)
        gains[-1:] = [style.last_hidden_gain] * bool(widths)
        self.hidden = tuple(
            linear(a, b, k, style.initialiser, gain)
            for a, b, k, gain in zip(sizes[:-1], sizes[1:], keys[:-1], gains, strict=True)
        )
        self.norms = tuple(Norm(width) for width in widths) if layer_norm else ()
        self.output = _side_by_side(sizes[-1], outputs, keys[-1], heads, style)
        self.norm_after, self.precision = style.norm_after, style.precision

    def __call__(self, x: jax.Array, *, dropout: float = 0.0, key: jax.Array | None = None) -> jax.Array:
        """[..., inputs] to [..., outputs]; the first layer and the output in float32, what is between as chosen.

        All rows at once rather than one by one under vmap: the product then comes out in the layout
        that the next layer reads, with no transposition in between.
        """
        return self._after_first(_affine(self._first, x, "float32"), dropout=dropout, key=key)

    def of_pairs(self, features: jax.Array, actions: jax.Array) -> jax.Array:
        """Of features [batch, feature] joined with actions [batch, (sample,) action], to [batch, (sample,) output].

        The first layer takes each state once, however many actions it is paired with.
        """
        first, size = self._first, features.shape[-1]
        at_state = _affine(first, features, "float32", slice(size))
        rows = actions.reshape(-1, actions.shape[-1])
        of_actions = product_of_inputs(rows, first.weight[:, size:], self.precision)
        joined = add_to_rows(at_state, of_actions.reshape(*actions.shape[:-1], -1))
        return self._after_first(joined.reshape(-1, joined.shape[-1]), apart=True).reshape(*actions.shape[:-1], -1)

    def _after_first(
        self, x: jax.Array, *, apart: bool = False, dropout: float = 0.0, key: jax.Array | None = None
    ) -> jax.Array:
        """From what the first layer gives, before its ReLU, to the output; biases `apart` where rows are many."""
        if not self.hidden:
            return x.astype(jnp.float32)
        for depth in range(len(self.hidden)):
            if depth:
                x = _affine(self.hidden[depth], x, self.precision, apart=apart)
            x = jax.nn.relu(x.astype(self.dtype)) if self.norm_after else x
            if self.norms:
                x = self.norms[depth](x.astype(jnp.float32)).astype(self.dtype)
            x = x if self.norm_after else jax.nn.relu(x.astype(self.dtype))
            if dropout and key is not None:
                x = drop_out(x, dropout, jax.random.fold_in(key, depth), f"keep/{depth}")
        return _affine(self.output, x, "float32")

    @property
    def dtype(self) -> jnp.dtype:
        return dtype_of(self.precision)

    @property
    def _first(self) -> eqx.nn.Linear:
        return self.hidden[0] if self.hidden else self.output


def drop_out(x: jax.Array, rate: float, key: jax.Array, name: str = "keep") -> jax.Array:
    """Zero a share of the entries and scale up the others, so that the mean stays."""
    kept = draws.kept(name, key, 1.0 - rate, x.shape)
    return jnp.where(kept, x / (1.0 - rate), 0.0).astype(x.dtype)


def _side_by_side(inputs: int, outputs: int, key: jax.Array, heads: int, style: Style) -> eqx.nn.Linear:
    keys = [key] if heads == 1 else list(jax.random.split(key, heads))
    layers = [linear(inputs, outputs // heads, k, style.initialiser, style.output_gain, output=True) for k in keys]
    if heads == 1:
        return layers[0]
    weight, bias = (jnp.concatenate([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
    return eqx.tree_at(
        lambda module: (module.weight, module.bias), eqx.nn.Linear(inputs, outputs, key=key), (weight, bias)
    )


def _affine(
    layer: eqx.nn.Linear, x: jax.Array, precision: Precision, inputs: slice = slice(None), *, apart: bool = False
) -> jax.Array:
    """The layer applied to those of its inputs that are there.

    The bias `apart`, on a GPU: XLA may else have the library add it, and write it out for every row to that end.
    """
    assert layer.bias is not None
    rows = product(x, layer.weight[:, inputs], precision)
    return (set_apart(rows) if apart else rows) + layer.bias.astype(dtype_of(precision))


def set_apart(values: Values) -> Values:
    """The same values; on a GPU, XLA then joins nothing across this point."""
    return jax.lax.optimization_barrier(values) if jax.default_backend() == "gpu" else values
