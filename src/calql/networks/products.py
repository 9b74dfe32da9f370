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


def sum_of_halves(columns: jax.Array) -> jax.Array:
    """[..., 2 * input] to [..., input]: the inverse of `halves` side by side, or of what is linear in them."""
    size = columns.shape[-1] // 2
    return columns[..., :size] + columns[..., size:]


@jax.custom_vjp
def _in_parts(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x [..., input] times the transpose of weight [output, input], both float32, with a bfloat16 result."""
    return columns_of_inputs(x) @ columns_of_weights(weight).T


def _in_parts_forward(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _in_parts(x, weight), (x, weight)


def _in_parts_backward(kept: tuple[jax.Array, jax.Array], gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Products of a bfloat16 gradient with all digits of inputs and weights."""
    of_x, of_weight = (jnp.concatenate(halves(operand), axis=-1) for operand in kept)
    through = jnp.matmul(gradient, of_weight, preferred_element_type=jnp.float32)
    return sum_of_halves(through), sum_of_halves(_over_rows(gradient, of_x, lax.Precision.DEFAULT))


_in_parts.defvjp(_in_parts_forward, _in_parts_backward)
