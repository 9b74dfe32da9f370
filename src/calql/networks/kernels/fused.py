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
from calql.networks.products import HALF, halves, sum_of_input_columns, sum_of_weight_columns

CAPABILITY = "9.0"  # of the GPUs that have these kernels' instructions
WIDTHS = {128, 256, 512}  # of layers
WIDE = 512  # and more: the sums of a warpgroup's rows would take all its registers, so wide.py takes halves of a layer
UNTRIED = "those of 512 units have been tested without a GPU only: hold them against the plain ones (docs/speed.md)"
INPUTS = 84  # at most: with three columns for each, and for the bias, rows take all of a program's memory

Arrays = tuple[jax.Array, ...]


class Weights(NamedTuple):
    """The critics' layers, in float32. Kernels are [critic, output, input]."""

    first: jax.Array  # [critic, width, input]
    first_bias: jax.Array  # [critic, width]
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
        *few, most = sorted(WIDTHS)
        return f"they do two or more layers of {', '.join(map(str, few))} or {most} units each"
    return None


def q_of_pairs(members: MLP, features: jax.Array, actions: jax.Array, **how: Any) -> jax.Array:
    """Q [critic, batch, sample] of features [batch, feature] and actions [batch, sample, action].

    With actions [batch, action]: Q [critic, batch].
    """
    if actions.ndim == 2:
        return q_of_pairs(members, features, actions[:, None], **how)[..., 0]
    first, *hidden = members.hidden
    assert first.bias is not None
    assert members.output.bias is not None
    weights = Weights(
        first.weight,
        first.bias,
        tuple(layer.weight for layer in hidden),
        tuple(layer.bias for layer in hidden if layer.bias is not None),
        members.output.weight[:, 0],
    )
    q = _values(*set_apart((features, actions)), weights, tuple(how.items()))  # else each column computes all anew
    return q + members.output.bias[:, :, None]


# -- the function and its derivative ----------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _values(features: jax.Array, actions: jax.Array, weights: Weights, how: tuple[Any, ...]) -> jax.Array:
    """Q [critic, batch, sample] of features [batch, feature] and actions [batch, sample, action].

    Without the output's bias.
    """
    given = _rows(features, actions), _first_columns(weights)
    return _by_state(_forward(*given, weights, how, keep=False)[0], actions)


def _values_forward(
    features: jax.Array, actions: jax.Array, weights: Weights, how: tuple[Any, ...]
) -> tuple[jax.Array, tuple[Any, ...]]:
    rows, first = _rows(features, actions), _first_columns(weights)
    q, *kept = _forward(rows, first, weights, how, keep=True)
    return _by_state(q, actions), (actions, rows, first, weights, kept)


def _forward(
    rows: jax.Array, first: jax.Array, weights: Weights, how: tuple[Any, ...], *, keep: bool
) -> list[jax.Array]:
    from calql.networks.kernels import hopper, wide

    forward = wide.forward if _is_wide(weights) else hopper.forward
    kernel = _over_seeds(functools.partial(forward, keep=keep, **dict(how)))
    biases = jnp.stack(weights.biases, axis=1)
    return kernel(rows[None], first, _stacked(weights.hidden), biases, weights.output)


def _values_backward(
    how: tuple[Any, ...], saved: tuple[Any, ...], gradient: jax.Array
) -> tuple[jax.Array, jax.Array, Weights]:
    """What the output's weights get follows from the layer before, whose gradients leave them out.

    A unit's weight gets the sum over rows of dL/dQ * unit, and unit = mask * (its row of the kernel * inputs + bias).
    The sum of dL/dQ * mask * inputs is the gradient of that row but for the output's weight. So nothing has to read
    the last layer again.
    """
    actions, rows, first, weights, kept = saved
    last, scale, inputs = weights.hidden[-1], weights.output[..., None], weights.first.shape[-1]
    of_q = gradient.reshape(gradient.shape[0], -1)
    of_q = jnp.pad(of_q, ((0, 0), (0, rows.shape[0] - of_q.shape[1])))
    given = of_q, _stacked(weights.hidden), (scale * last).astype(HALF)
    found = (_wide if _is_wide(weights) else _narrow)(kept, given, rows[None], inputs + 1, dict(how))
    of_last, *of_hidden = found.kernels
    of_last_bias, *biases = found.biases
    of_first = _of_first(found.first, rows, inputs + 1)
    of_inputs = _through_first(found.layer, first, inputs + 1)[: actions.shape[0] * actions.shape[1], :inputs]
    of_features, of_actions = jnp.split(of_inputs.reshape(*actions.shape[:2], -1), [inputs - actions.shape[-1]], -1)
    return (
        of_features.sum(axis=1),
        of_actions,
        Weights(
            of_first[..., :inputs],
            of_first[..., inputs],
            (*of_hidden[::-1], scale * of_last),
            (*biases[::-1], weights.output * of_last_bias),
            jnp.sum(of_last * last, axis=-1) + of_last_bias * weights.biases[-1],
        ),
    )


_values.defvjp(_values_forward, _values_backward)


class Gradients(NamedTuple):
    """What the kernels give, in float32 but for a layer's own; the last layer's leave out the output's weights."""

    layer: jax.Array  # the first layer's own [critic, row, width]
    first: jax.Array  # that again, or of columns of the first kernel [critic, part, width, column]
    kernels: list[jax.Array]  # last to second layer, each [critic, width, width]
    biases: list[jax.Array]  # of those, each [critic, width]


def _is_wide(weights: Weights) -> bool:
    return weights.output.shape[-1] >= WIDE


def _narrow(kept: list[jax.Array], given: Arrays, rows: jax.Array, inputs: int, how: dict[str, Any]) -> Gradients:
    from calql.networks.kernels import hopper

    layers = given[1].shape[1]
    (of_layer,) = _over_seeds(functools.partial(hopper.backward, **how))(*kept, *given)
    weight_gradients = functools.partial(hopper.weight_gradients, inputs=inputs, **how)
    results = _over_seeds(weight_gradients)(*kept, *given, rows)
    summed = [[parts.sum(axis=1) for parts in some] for some in (results[:layers], results[layers + 1 :])]
    return Gradients(of_layer, results[layers], *summed)


def _wide(kept: list[jax.Array], given: Arrays, rows: jax.Array, inputs: int, how: dict[str, Any]) -> Gradients:
    """All columns of the first kernel are summed, whatever the inputs."""
    from calql.networks.kernels import wide

    del inputs
    layers, signs = kept
    (of_layers,) = _over_seeds(functools.partial(wide.backward, **how))(signs, *given)

    def of_weights(first: int, below: jax.Array) -> list[jax.Array]:
        return _over_seeds(functools.partial(wide.weight_gradients, first=first, **how))(of_layers, below)

    summed = [list(jnp.moveaxis(parts.sum(axis=2), 1, 0)[::-1]) for parts in of_weights(1, layers)]
    return Gradients(of_layers[:, 0], of_weights(0, rows[:, None])[0][:, 0], *summed)


# -- the first layer, with all digits of what goes in -----------------------------------------------------


def _rows(features: jax.Array, actions: jax.Array) -> jax.Array:
    """Every pair in whole tiles of rows and whole chunks of columns, with one as the last input.

    Columns are joined once, in the order of products.columns_of_inputs: joined twice, they are written twice.
    """
    from calql.networks.kernels.warpgroups import TILE  # not above: takes a while, and few have the GPU

    batch, samples, _ = actions.shape
    parts = [(part[:, None], of_action) for part, of_action in zip(halves(features), halves(actions), strict=True)]
    high, low = (
        [jnp.broadcast_to(part, (batch, samples, part.shape[-1])) for part in (*both, jnp.full((1, 1, 1), one, HALF))]
        for both, one in zip(parts, (1, 0), strict=True)
    )
    joined = jnp.concatenate([*high, *low, *high, _spare(high)], axis=-1).reshape(batch * samples, -1)
    return jnp.pad(joined, ((0, -len(joined) % TILE), (0, 0)))


def _first_columns(weights: Weights) -> jax.Array:
    """[critic, width, column], in the order of products.columns_of_weights, the bias with the weights."""
    kernels, biases = halves(weights.first), halves(weights.first_bias[..., None])
    high, low = zip(kernels, biases, strict=True)
    return jnp.concatenate([*high, *high, *low, _spare(high)], axis=-1)


def _spare(parts: Sequence[jax.Array]) -> jax.Array:
    """Zeros that make three times these columns whole chunks."""
    from calql.networks.kernels.warpgroups import CHUNK

    columns = 3 * sum(part.shape[-1] for part in parts)
    return jnp.zeros((*parts[0].shape[:-1], -columns % CHUNK), HALF)


def _through_first(gradient: jax.Array, first: jax.Array, inputs: int) -> jax.Array:
    """Of the inputs [row, input], from the first layer's gradient [critic, row, width] and its columns."""
    columns = jnp.einsum("crw,cwi->ri", gradient, first, preferred_element_type=jnp.float32)
    return sum_of_weight_columns(columns, inputs)


def _of_first(result: jax.Array, rows: jax.Array, inputs: int) -> jax.Array:
    """Of the first kernel [critic, width, input], from what the kernels give for it.

    That is the gradient of a chunk of its columns, first halves before second halves: where the chunk ends, the inputs
    whose second half it has no room for are rounded. Or it is the layer's own gradient, and none is.
    """
    if result.ndim == 3:
        columns = jnp.einsum("crw,ri->cwi", result, rows[:, : 2 * inputs], preferred_element_type=jnp.float32)
    else:
        columns = result.sum(axis=1)
    return sum_of_input_columns(columns, inputs)


def _by_state(q: jax.Array, actions: jax.Array) -> jax.Array:
    """[critic, row] to [critic, batch, sample]."""
    batch, samples, _ = actions.shape
    return q[:, : batch * samples].reshape(-1, batch, samples)


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
