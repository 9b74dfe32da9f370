"""Matrix products in a named precision, and products whose left side is an input, which no precision may round."""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

Precision = Literal["float32", "tf32", "bfloat16"]
HALF = jnp.bfloat16


def dtype_of(precision: Precision) -> jnp.dtype:
    """What operands and results are kept in. TF32 is a way to multiply float32 numbers, not to keep them."""
    return jnp.dtype(HALF if precision == "bfloat16" else jnp.float32)


def asked_of_xla(precision: Precision) -> lax.Precision | lax.DotAlgorithmPreset:
    """How XLA is to multiply. float32 has to be asked for: unasked, a GPU multiplies float32 numbers in TF32.

    Other machines have no TF32, and refuse a program that names it: there it is float32.
    """
    if precision == "bfloat16":
        return lax.Precision.DEFAULT
    if precision == "tf32" and jax.default_backend() == "gpu":
        return lax.DotAlgorithmPreset.TF32_TF32_F32
    return lax.Precision.HIGHEST


# -- in the given precision -------------------------------------------------------------------------------


def product(x: jax.Array, weight: jax.Array, precision: Precision) -> jax.Array:
    """x [..., input] times the transpose of weight [output, input]."""
    return _times(x.astype(dtype_of(precision)), weight, precision)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _times(x: jax.Array, weight: jax.Array, precision: Precision) -> jax.Array:
    """The weight's gradient is summed in its own precision and comes out in its own layout.

    What JAX derives is the transpose of that: on a GPU the optimiser then reads across rows, and all that it keeps is
    copied back.
    """
    return jnp.matmul(x, weight.T.astype(x.dtype), precision=asked_of_xla(precision))


def _times_forward(
    x: jax.Array, weight: jax.Array, precision: Precision
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _times(x, weight, precision), (x, weight)


def _times_backward(
    precision: Precision, kept: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    (x, weight), asked = kept, asked_of_xla(precision)
    of_x = jnp.matmul(gradient, weight.astype(gradient.dtype), precision=asked)
    return of_x, _over_rows(gradient, x, asked)


_times.defvjp(_times_forward, _times_backward)


def _over_rows(gradient: jax.Array, x: jax.Array, asked: lax.Precision | lax.DotAlgorithmPreset) -> jax.Array:
    """Of the weight [output, input]: gradient [..., output] times x [..., input], summed in float32."""
    outputs, inputs = (rows.reshape(-1, rows.shape[-1]) for rows in (gradient, x))
    return jnp.einsum("ro,ri->oi", outputs, inputs, precision=asked, preferred_element_type=jnp.float32)


# -- of inputs --------------------------------------------------------------------------------------------


def product_of_inputs(x: jax.Array, weight: jax.Array, precision: Precision) -> jax.Array:
    """The same for inputs of a network that come in many rows: they count with all their digits in any precision.

    In bfloat16, where 32 m are followed by 32.25 m, as more columns of a product in bfloat16: the tensor cores stay at
    work, and the result is no larger than that of another layer.
    """
    return _in_parts(x, weight) if precision == "bfloat16" else product(x, weight, "float32")


def halves(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two bfloat16 arrays with the sum x, to 2^-17 of each entry or better.

    By reduce_precision: XLA leaves out a cast to bfloat16 and back, after which the second array is zero.
    """
    high = lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)
    return high.astype(HALF), (x - high).astype(HALF)


def columns_of_inputs(x: jax.Array) -> jax.Array:
    """To be multiplied with `columns_of_weights`; what the product leaves out is the second half of both."""
    high, low = halves(x)
    return jnp.concatenate([high, low, high], axis=-1)


def columns_of_weights(weight: jax.Array) -> jax.Array:
    """Weights too are split: rounded, they would be off by as much as rounded inputs are."""
    high, low = halves(weight)
    return jnp.concatenate([high, high, low], axis=-1)


def sum_of_input_columns(columns: jax.Array, size: int) -> jax.Array:
    """What is linear in the columns of inputs, for each of `size` inputs: both halves of it, the first one once.

    Columns that are not there count as zero.
    """
    low = columns[..., size : 2 * size]
    missing = [(0, 0)] * (columns.ndim - 1) + [(0, size - low.shape[-1])]
    return columns[..., :size] + jnp.pad(low, missing)


def sum_of_weight_columns(columns: jax.Array, size: int) -> jax.Array:
    """The same for the columns of weights."""
    return columns[..., :size] + columns[..., 2 * size : 3 * size]


@jax.custom_vjp
def _in_parts(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x [..., input] times the transpose of weight [output, input], both float32, with a bfloat16 result."""
    return columns_of_inputs(x) @ columns_of_weights(weight).T


def _in_parts_forward(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    of_x, of_weight = columns_of_inputs(x), columns_of_weights(weight)
    return of_x @ of_weight.T, (of_x, of_weight)


def _in_parts_backward(kept: tuple[jax.Array, jax.Array], gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Products of a bfloat16 gradient with all digits of inputs and weights, in columns that are there already."""
    (of_x, of_weight), size = kept, kept[0].shape[-1] // 3
    through = jnp.matmul(gradient, of_weight, preferred_element_type=jnp.float32)
    over_rows = _over_rows(gradient, of_x, lax.Precision.DEFAULT)
    return sum_of_weight_columns(through, size), sum_of_input_columns(over_rows, size)


_in_parts.defvjp(_in_parts_forward, _in_parts_backward)


@jax.custom_vjp
def add_to_rows(at_state: jax.Array, rows: jax.Array) -> jax.Array:
    """float32 [batch, width] added to rows [batch, (sample,) width] of any precision, which is that of the sum.

    What JAX derives writes the gradient of the rows twice: it goes to float32 for the state's sum, and back.
    """
    return (_with_samples(at_state, rows) + rows).astype(rows.dtype)


def _add_forward(at_state: jax.Array, rows: jax.Array) -> tuple[jax.Array, None]:
    return add_to_rows(at_state, rows), None


def _add_backward(_: None, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    of_state = gradient.astype(jnp.float32)
    return (jnp.sum(of_state, axis=1) if gradient.ndim > 2 else of_state), gradient


add_to_rows.defvjp(_add_forward, _add_backward)


def _with_samples(at_state: jax.Array, rows: jax.Array) -> jax.Array:
    return at_state[:, None] if rows.ndim > at_state.ndim else at_state
