"""Q of many actions per state in two GPU kernels: a tile of rows stays on the chip through all layers.

The plain path writes and reads the activations of every layer, for each of the 31 actions of a state.
Here a program instance takes a tile of rows of one critic from their actions to their Q; the way back
takes them from dL/dQ to the first layer. Only what the weights' gradients need goes through memory:
each layer's activations once, each layer's gradients once. The weights' gradients are plain products.
Operands are in bfloat16 and sums in float32, as in the plain path at that precision.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from calql.networks.mlp import MLP

TILE = 128  # rows of one program instance
COLUMNS = 128  # of a layer that are multiplied at once
WIDTHS = {128, 256}  # whole columns; at 512, where a tile must be shorter, the plain path is faster
SHORT = (16, 32)  # inner sizes of a product on the tensor cores; actions are filled up to one of them with zeros
WARPS = 8
HALF = jnp.bfloat16

Arrays = tuple[jax.Array, ...]


class Weights(NamedTuple):
    """The critics' layers behind the state's part of the first, in float32. Kernels are [critic, output, input]."""

    of_action: jax.Array  # [critic, width, filled action]
    hidden: Arrays  # each [critic, width, width]
    biases: Arrays  # each [critic, width], of those
    output: jax.Array  # [critic, width]


def supports(members: MLP, actions: jax.Array) -> bool:
    """Whether the kernels can do these critics: bfloat16, no layer norm, equal widths of a kind."""
    widths = {layer.weight.shape[-2] for layer in members.hidden}
    return (
        members.precision == "bfloat16"
        and not members.norms
        and len(members.hidden) > 1
        and len(widths) == 1
        and widths <= WIDTHS
        and actions.shape[-1] <= SHORT[-1]
    )


def q_of_pairs(members: MLP, features: jax.Array, actions: jax.Array, *, interpret: bool = False) -> jax.Array:
    """Q [critic, batch, sample] of features [batch, feature] and actions [batch, sample, action].

    With actions [batch, action]: Q [critic, batch].
    """
    if actions.ndim == 2:
        return q_of_pairs(members, features, actions[:, None], interpret=interpret)[..., 0]
    first, *hidden = members.hidden
    size, (batch, samples, dim) = features.shape[-1], actions.shape
    short = next(size for size in SHORT if dim <= size)
    assert first.bias is not None
    assert members.output.bias is not None
    of_state, of_action = first.weight[..., :size], first.weight[..., size:]
    at_state = jnp.einsum("bf,cwf->cbw", features.astype(HALF), of_state.astype(HALF)) + first.bias[:, None].astype(
        HALF
    )
    weights = Weights(
        jnp.pad(of_action, ((0, 0), (0, 0), (0, short - dim))),
        tuple(layer.weight for layer in hidden),
        tuple(layer.bias for layer in hidden if layer.bias is not None),
        members.output.weight[:, 0],
    )
    rows = batch * samples
    filled = jnp.pad(actions.reshape(rows, dim), ((0, -rows % TILE), (0, short - dim)))
    q = _values(at_state, filled, weights, samples, interpret)[:, :rows]
    return q.reshape(-1, batch, samples) + members.output.bias[:, :, None]


# -- the function and its derivative ----------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _values(at_state: jax.Array, rows: jax.Array, weights: Weights, samples: int, interpret: bool) -> jax.Array:
    """Q [critic, row], without the output's bias; at_state [critic, batch, width] before the first ReLU."""
    return _forward(at_state, rows, weights, samples, interpret, keep=False)[0]


def _values_forward(
    at_state: jax.Array, rows: jax.Array, weights: Weights, samples: int, interpret: bool
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, Weights, Arrays]]:
    q, activations = _forward(at_state, rows, weights, samples, interpret, keep=True)
    return q, (at_state, rows, weights, activations)


def _values_backward(
    samples: int, interpret: bool, kept: tuple[jax.Array, jax.Array, Weights, Arrays], q_gradient: jax.Array
) -> tuple[jax.Array, jax.Array, Weights]:
    at_state, rows, weights, activations = kept
    gradients, of_output, of_biases = _backward(activations, q_gradient, weights, interpret)
    critics, batch, width = at_state.shape
    first = gradients[0]  # [critic, row, width]
    # One copy of the rows for each critic: as a batch axis, critics need no transposition of the gradient.
    of_critics = jnp.broadcast_to(rows.astype(HALF), (critics, *rows.shape))
    real = first[:, : batch * samples].reshape(critics, batch, samples, width)
    total = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    return (
        jnp.sum(real, axis=2, dtype=jnp.float32).astype(at_state.dtype),
        total("crw,cwa->ra", first, weights.of_action.astype(HALF)),
        Weights(
            total("crw,cra->cwa", first, of_critics),
            tuple(
                total("cro,cri->coi", after, before)
                for before, after in zip(activations[:-1], gradients[1:], strict=True)
            ),
            tuple(of_biases.sum(axis=1)[:, layer] for layer in range(len(weights.biases))),
            of_output.sum(axis=1),
        ),
    )


_values.defvjp(_values_forward, _values_backward)


# -- kernels ----------------------------------------------------------------------------------------------


def _forward(
    at_state: jax.Array, rows: jax.Array, weights: Weights, samples: int, interpret: bool, *, keep: bool
) -> tuple[jax.Array, Arrays]:
    """Q [critic, row] and, to keep, the activations of each layer [critic, row, width] after its ReLU."""
    (critics, batch, width), (count, short) = at_state.shape, rows.shape
    layers = len(weights.hidden)
    kept = layers + 1 if keep else 0

    def kernel(at_state_ref: Any, rows_ref: Any, of_action_ref: Any, *refs: Any) -> None:
        """One tile of one critic from its actions to its Q."""
        hidden_refs, bias_refs, (output_ref, q_ref) = refs[:layers], refs[layers : 2 * layers], refs[2 * layers :][:2]
        kept_refs, actions = refs[2 * layers + 2 :], rows_ref[...]
        state = jnp.minimum((pl.program_id(1) * TILE + jnp.arange(TILE)) // samples, batch - 1)
        hidden = []
        for part in _parts(width):
            columns = part.start + jnp.arange(COLUMNS)
            before = at_state_ref[state[:, None], columns[None, :]].astype(jnp.float32)
            hidden.append(_relu(before + _transposed(actions, of_action_ref[part])))
        _store(kept_refs[:1], hidden)
        for layer, (kernel_ref, bias_ref) in enumerate(zip(hidden_refs, bias_refs, strict=True)):
            hidden = [
                _relu(_sum(_transposed(x, kernel_ref[part, inputs]) for x, inputs in _over(hidden)) + bias_ref[part])
                for part in _parts(width)
            ]
            _store(kept_refs[layer + 1 : layer + 2], hidden)
        q_ref[...] = _sum(jnp.sum(x.astype(jnp.float32) * output_ref[part], axis=1) for x, part in _over(hidden))

    of_rows = jax.ShapeDtypeStruct((critics, count, width), HALF)
    q, *activations = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct((critics, count), jnp.float32), *[of_rows] * kept],
        grid=(critics, count // TILE),
        in_specs=[
            _whole(batch, width),
            pl.BlockSpec((TILE, short), lambda c, t: (t, 0)),
            _whole(width, short),
            *[_whole(width, width)] * layers,
            *[_whole(width)] * layers,
            _whole(width),
        ],
        out_specs=[pl.BlockSpec((None, TILE), lambda c, t: (c, t)), *[_tile(width)] * kept],
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        name="critics_forward",
    )(
        at_state,
        rows.astype(HALF),
        weights.of_action.astype(HALF),
        *(kernel.astype(HALF) for kernel in weights.hidden),
        *weights.biases,
        weights.output,
    )
    return q, tuple(activations)


def _backward(
    activations: Arrays, q_gradient: jax.Array, weights: Weights, interpret: bool
) -> tuple[Arrays, jax.Array, jax.Array]:
    """dL/d(before ReLU) of each layer [critic, row, width]; of output kernel and biases, per tile."""
    critics, count, width = activations[0].shape
    layers, tiles = len(weights.hidden), count // TILE

    def kernel(*refs: Any) -> None:
        """One tile of one critic from dL/dQ to its first layer."""
        activation_refs, q_gradient_ref, output_ref = refs[: layers + 1], refs[layers + 1], refs[layers + 2]
        hidden_refs, gradient_refs = refs[layers + 3 : 2 * layers + 3], refs[2 * layers + 3 : 3 * layers + 4]
        of_output_ref, of_biases_ref = refs[3 * layers + 4 :]
        q_gradient = q_gradient_ref[...][:, None]
        for part in _parts(width):
            of_output_ref[part] = jnp.sum(q_gradient * activation_refs[layers][:, part].astype(jnp.float32), axis=0)
        upstream = [q_gradient * output_ref[part] for part in _parts(width)]
        for layer in range(layers, -1, -1):
            masked = [jnp.where(activation_refs[layer][:, part] > 0, above, 0.0) for above, part in _over(upstream)]
            gradient = [x.astype(HALF) for x in masked]
            _store(gradient_refs[layer : layer + 1], gradient)
            if layer:
                for x, part in _over(masked):
                    of_biases_ref[layer - 1, part] = jnp.sum(x, axis=0)
                upstream = [
                    _sum(_dot(x, hidden_refs[layer - 1][part, inputs]) for x, part in _over(gradient))
                    for inputs in _parts(width)
                ]

    *gradients, of_output, of_biases = pl.pallas_call(
        kernel,
        out_shape=[
            *[jax.ShapeDtypeStruct((critics, count, width), HALF)] * (layers + 1),
            jax.ShapeDtypeStruct((critics, tiles, width), jnp.float32),
            jax.ShapeDtypeStruct((critics, tiles, layers, width), jnp.float32),
        ],
        grid=(critics, tiles),
        in_specs=[
            *[_tile(width)] * (layers + 1),
            pl.BlockSpec((None, TILE), lambda c, t: (c, t)),
            _whole(width),
            *[_whole(width, width)] * layers,
        ],
        out_specs=[
            *[_tile(width)] * (layers + 1),
            pl.BlockSpec((None, None, width), lambda c, t: (c, t, 0)),
            pl.BlockSpec((None, None, layers, width), lambda c, t: (c, t, 0, 0)),
        ],
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        name="critics_backward",
    )(*activations, q_gradient, weights.output, *(kernel.astype(HALF) for kernel in weights.hidden))
    return tuple(gradients), of_output, of_biases


def _whole(*shape: int) -> pl.BlockSpec:
    """All of one critic's array."""
    return pl.BlockSpec((None, *shape), lambda c, t: (c, *(0 for _ in shape)))


def _tile(width: int) -> pl.BlockSpec:
    """The rows of one tile of one critic."""
    return pl.BlockSpec((None, TILE, width), lambda c, t: (c, t, 0))


def _parts(width: int) -> list[Any]:
    return [pl.ds(start, COLUMNS) for start in range(0, width, COLUMNS)]


def _over(pieces: list[jax.Array]) -> Iterable[tuple[jax.Array, Any]]:
    """Pieces [row, COLUMNS] of a layer with the columns that they are."""
    return zip(pieces, _parts(COLUMNS * len(pieces)), strict=True)


def _store(refs: tuple[Any, ...], pieces: list[jax.Array]) -> None:
    for ref in refs:
        for x, part in _over(pieces):
            ref[:, part] = x


def _dot(x: jax.Array, y: jax.Array, contracted: int = 0) -> jax.Array:
    return jax.lax.dot_general(x, y, (((1,), (contracted,)), ((), ())), preferred_element_type=jnp.float32)


def _transposed(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """x times the transposed kernel [output, input]."""
    return _dot(x, kernel, contracted=1)


def _relu(x: jax.Array) -> jax.Array:
    return jnp.maximum(x, 0.0).astype(HALF)


def _sum(terms: Iterable[jax.Array]) -> jax.Array:
    return functools.reduce(jnp.add, terms)
