"""Q of many actions per state with activations that stay on the chip, on a Hopper GPU: the critics' own derivative.

The plain path writes and reads the activations of every layer several times, for each of the 31 actions of a state.
Here each layer's activations are written once and read twice, and each layer's gradients are written and read once, but
for the first and the last layer's, which never leave the chip. The kernels are in hopper.py; here is what they are
given and what is made of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from calql.networks.mlp import MLP, set_apart

CAPABILITY = "9.0"  # of the GPUs that have these kernels' instructions
WIDTHS = {128, 256}  # of layers; at 512, the sums of a warpgroup's rows would take all its registers
INPUTS = 255  # at most, for the same reason
HALF = jnp.bfloat16

Arrays = tuple[jax.Array, ...]


class Weights(NamedTuple):
    """The critics' layers, in float32. Kernels are [critic, output, input]."""

    first: jax.Array  # [critic, width, input], with the bias as the weight of one of the inputs
    hidden: Arrays  # each [critic, width, width]
    biases: Arrays  # each [critic, width], of those
    output: jax.Array  # [critic, width]


def available() -> bool:
    """Whether this machine has a GPU for the kernels."""
    return jax.default_backend() == "gpu" and jax.devices()[0].compute_capability == CAPABILITY


def supports(members: MLP) -> bool:
    """Whether the kernels can do these critics."""
    widths = [layer.weight.shape[-2] for layer in members.hidden]
    inputs = members.hidden[0].weight.shape[-1]
    return obstacle(members.precision, widths, layer_norm=bool(members.norms)) is None and inputs <= INPUTS


def obstacle(precision: str, widths: Sequence[int], *, layer_norm: bool) -> str | None:
    """Why the kernels cannot do such critics, whatever the machine; None if they can."""
    if precision != "bfloat16":
        return "they need --precision bfloat16"
    if layer_norm:
        return "they have no layer norm"
    if len(widths) < 2 or len(set(widths)) > 1 or not set(widths) <= WIDTHS:
        return f"they do two or more layers of {' or '.join(map(str, sorted(WIDTHS)))} units each"
    return None


def q_of_pairs(members: MLP, features: jax.Array, actions: jax.Array, **how: Any) -> jax.Array:
    """Q [critic, batch, sample] of features [batch, feature] and actions [batch, sample, action].

    With actions [batch, action]: Q [critic, batch].
    """
    if actions.ndim == 2:
        return q_of_pairs(members, features, actions[:, None], **how)[..., 0]
    from calql.networks.warpgroups import CHUNK, TILE  # not above: takes a while, and few have the GPU

    first, *hidden = members.hidden
    (batch, samples, _), size = actions.shape, features.shape[-1]
    count, inputs = batch * samples, first.weight.shape[-1]
    spare = -(inputs + 1) % CHUNK
    features, actions = set_apart((features, actions))  # else each of a row's inputs computes all of them anew
    at_state = jnp.broadcast_to(features[:, None], (batch, samples, size))
    x = jnp.concatenate([at_state, actions, jnp.ones((batch, samples, 1))], axis=-1).reshape(count, -1)
    assert first.bias is not None
    assert members.output.bias is not None
    weights = Weights(
        jnp.pad(jnp.concatenate([first.weight, first.bias[..., None]], axis=-1), ((0, 0), (0, 0), (0, spare))),
        tuple(layer.weight for layer in hidden),
        tuple(layer.bias for layer in hidden if layer.bias is not None),
        members.output.weight[:, 0],
    )
    q = _values(jnp.pad(x, ((0, -count % TILE), (0, spare))), weights, tuple(how.items()))[:, :count]
    return q.reshape(-1, batch, samples) + members.output.bias[:, :, None]


# -- the function and its derivative ----------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _values(x: jax.Array, weights: Weights, how: tuple[Any, ...]) -> jax.Array:
    """Q [critic, row] of x [row, input], without the output's bias."""
    return _forward(x, weights, how, keep=False)[0]


def _values_forward(x: jax.Array, weights: Weights, how: tuple[Any, ...]) -> tuple[jax.Array, tuple[Any, ...]]:
    q, kept = _forward(x, weights, how, keep=True)
    return q, (x, weights, kept)


def _forward(x: jax.Array, weights: Weights, how: tuple[Any, ...], *, keep: bool) -> list[jax.Array]:
    from calql.networks import hopper

    kernel = _over_seeds(functools.partial(hopper.forward, keep=keep, **dict(how)))
    biases = jnp.stack(weights.biases, axis=1)
    return kernel(x.astype(HALF)[None], weights.first.astype(HALF), _stacked(weights.hidden), biases, weights.output)


def _values_backward(
    how: tuple[Any, ...], saved: tuple[jax.Array, Weights, jax.Array], q_gradient: jax.Array
) -> tuple[jax.Array, Weights]:
    """What the output's weights get follows from the layer before, whose gradients leave them out.

    A unit's weight gets the sum over rows of dL/dQ * unit, and unit = mask * (its row of the kernel * inputs + bias).
    The sum of dL/dQ * mask * inputs is the gradient of that row but for the output's weight. So nothing has to read
    the last layer again.
    """
    from calql.networks import hopper

    x, weights, kept = saved
    depth, last, scale = len(weights.hidden), weights.hidden[-1], weights.output[..., None]
    run: Callable[..., Any] = lambda kernel: _over_seeds(functools.partial(kernel, **dict(how)))  # noqa: E731
    rows, given = x.astype(HALF), (kept, q_gradient, _stacked(weights.hidden), (scale * last).astype(HALF))
    (of_inputs,) = run(hopper.backward)(*given)
    results = run(hopper.weight_gradients)(*given, rows[None])
    of_last, *kernels = (result.sum(axis=1) for result in results[:depth])
    of_last_bias, *biases = (result.sum(axis=1) for result in results[depth + 1 :])
    of_first = results[depth]
    if of_first.ndim == 4:
        of_first = of_first.sum(axis=1)
    else:
        of_first = jnp.einsum("crw,ri->cwi", of_first, rows, preferred_element_type=jnp.float32)
    return (
        jnp.einsum("crw,cwi->ri", of_inputs, weights.first.astype(HALF), preferred_element_type=jnp.float32),
        Weights(
            of_first,
            (*kernels[::-1], scale * of_last),
            (*biases[::-1], weights.output * of_last_bias),
            jnp.sum(of_last * last, axis=-1) + of_last_bias * weights.biases[-1],
        ),
    )


_values.defvjp(_values_forward, _values_backward)


def _stacked(kernels: Arrays) -> jax.Array:
    return jnp.stack([kernel.astype(HALF) for kernel in kernels], axis=1)


def _over_seeds(kernel: Callable[..., list[jax.Array]]) -> Callable[..., list[jax.Array]]:
    """The kernel, with what vmap adds joined to the leading axis of all that goes in and comes out."""

    @jax.custom_batching.custom_vmap
    def one(*operands: jax.Array) -> list[jax.Array]:
        return kernel(*operands)

    @one.def_vmap
    def many(size: int, mapped: list[bool], *operands: jax.Array) -> tuple[list[jax.Array], list[bool]]:
        every = [x if own else jnp.broadcast_to(x, (size, *x.shape)) for x, own in zip(operands, mapped, strict=True)]
        results = one(*(x.reshape(-1, *x.shape[2:]) for x in every))
        return [x.reshape(size, -1, *x.shape[1:]) for x in results], [True] * len(results)

    return one
