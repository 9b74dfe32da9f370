"""Q of many actions per state with activations that stay on the chip, on a Hopper GPU: the critics' own derivative.

The plain path writes and reads the activations of every layer several times, for each of the 31 actions of a state.
Here each layer's activations are written once and read twice, and each layer's gradients are written and read once, but
for the first and the last layer's, which never leave the chip. The kernels are in hopper.py; here is what they are
given and what is made of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from calql.networks.mlp import MLP, set_apart
from calql.networks.products import HALF, halves

CAPABILITY = "9.0"  # of the GPUs that have these kernels' instructions
WIDTHS = {128, 256, 512}  # of layers
WIDE = 512  # and more: the sums of a warpgroup's rows would take all its registers, so wide.py takes halves of a layer
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
    q = _values(features, actions, weights, tuple(how.items()))
    return q + members.output.bias[:, :, None]


# -- the function and its derivative ----------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _values(features: jax.Array, actions: jax.Array, weights: Weights, how: tuple[Any, ...]) -> jax.Array:
    """Q [critic, batch, sample] of features [batch, feature] and actions [batch, sample, action].

    Without the output's bias.
    """
    layout = Columns.of(features, actions)
    x = _laid_out(_rows(layout, features, actions), weights)
    return _by_state(_forward(x, layout.of_weights(weights), weights, how, keep=False)[0], actions)


def _values_forward(
    features: jax.Array, actions: jax.Array, weights: Weights, how: tuple[Any, ...]
) -> tuple[jax.Array, tuple[Any, ...]]:
    layout = Columns.of(features, actions)
    x, first = _laid_out(_rows(layout, features, actions), weights), layout.of_weights(weights)
    q, *kept = _forward(x, first, weights, how, keep=True)
    return _by_state(q, actions), (actions, x, first, weights, kept)


def _forward(x: jax.Array, first: jax.Array, weights: Weights, how: tuple[Any, ...], *, keep: bool) -> list[jax.Array]:
    from calql.networks.kernels import hopper, wide

    forward = wide.forward if _is_wide(weights) else hopper.forward
    kernel = _over_seeds(functools.partial(forward, keep=keep, **dict(how)))
    biases = jnp.stack(weights.biases, axis=1)
    return kernel(x[None], first, _stacked(weights.hidden), biases, weights.output)


def _values_backward(
    how: tuple[Any, ...], saved: tuple[Any, ...], gradient: jax.Array
) -> tuple[jax.Array, jax.Array, Weights]:
    """What the output's weights get follows from the layer before, whose gradients leave them out.

    A unit's weight gets the sum over rows of dL/dQ * unit, and unit = mask * (its row of the kernel * inputs + bias).
    The sum of dL/dQ * mask * inputs is the gradient of that row but for the output's weight. So nothing has to read
    the last layer again.
    """
    actions, x, first, weights, kept = saved
    last, scale = weights.hidden[-1], weights.output[..., None]
    layout = Columns(weights.first.shape[-1] - actions.shape[-1], actions.shape[-1])
    of_q = gradient.reshape(gradient.shape[0], -1)
    of_q = jnp.pad(of_q, ((0, 0), (0, kept[0].shape[2] - of_q.shape[1])))
    given = of_q, _stacked(weights.hidden), (scale * last).astype(HALF)
    found = (_wide if _is_wide(weights) else _narrow)(kept, given, x[None], dict(how))
    of_last, *of_hidden = found.kernels
    of_last_bias, *biases = found.biases
    of_first, of_first_bias = layout.of_kernel(_of_first(found.first, x))
    of_rows = jnp.einsum("crw,cwi->ri", found.layer, first, preferred_element_type=jnp.float32)
    of_features, of_actions = layout.of_pairs(of_rows[: actions.shape[0] * actions.shape[1]], *actions.shape[:2])
    return (
        of_features,
        of_actions,
        Weights(
            of_first,
            of_first_bias,
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


def _narrow(kept: list[jax.Array], given: Arrays, x: jax.Array, how: dict[str, Any]) -> Gradients:
    from calql.networks.kernels import hopper

    layers = given[1].shape[1]
    (of_layer,) = _over_seeds(functools.partial(hopper.backward, **how))(*kept, *given)
    results = _over_seeds(functools.partial(hopper.weight_gradients, **how))(*kept, *given, x)
    summed = [[parts.sum(axis=1) for parts in some] for some in (results[:layers], results[layers + 1 :])]
    return Gradients(of_layer, results[layers], *summed)


def _wide(kept: list[jax.Array], given: Arrays, x: jax.Array, how: dict[str, Any]) -> Gradients:
    """All columns of the first kernel are summed, whatever the inputs."""
    from calql.networks.kernels import wide

    layers, signs = kept
    (of_layers,) = _over_seeds(functools.partial(wide.backward, **how))(signs, *given)

    def of_weights(first: int, below: jax.Array) -> list[jax.Array]:
        return _over_seeds(functools.partial(wide.weight_gradients, first=first, **how))(of_layers, below)

    summed = [list(jnp.moveaxis(parts.sum(axis=2), 1, 0)[::-1]) for parts in of_weights(1, layers)]
    return Gradients(of_layers[:, 0], of_weights(0, x[:, None])[0][:, 0], *summed)


# -- the first layer, with all digits of what goes in -----------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Which column of a row holds what: three for each input, as in products.columns_of_inputs, in another order.

    Inputs are actions, features and a one, whose weight is the bias. First halves of all of them come first and second
    halves of features next, for the gradient of a kernel may have room for one chunk of columns: there the inputs whose
    second half is beyond it are rounded. What belongs to actions stands at the two ends, so that rows are those of
    their states with actions put in at three places. Joined of nine pieces, they took four times as long to write as
    the card's memory takes.
    """

    features: int
    actions: int

    @staticmethod
    def of(features: jax.Array, actions: jax.Array) -> Columns:
        return Columns(features.shape[-1], actions.shape[-1])

    @property
    def inputs(self) -> int:
        return self.actions + self.features + 1

    @property
    def count(self) -> int:
        """Whole chunks."""
        from calql.networks.kernels.warpgroups import CHUNK  # not above: takes a while, and few have the GPU

        return -(-3 * self.inputs // CHUNK) * CHUNK

    @property
    def ends(self) -> tuple[slice, slice, slice]:
        """Of actions: first halves, second halves, and first halves once more."""
        size, begin = self.actions, 3 * self.inputs - 2 * self.actions
        return slice(0, size), slice(begin, begin + size), slice(begin + size, begin + 2 * size)

    @property
    def middle(self) -> tuple[slice, slice, slice]:
        """Of features and the one, likewise."""
        begin, size = self.actions, self.features + 1
        first, second, again = (slice(begin + part * size, begin + (part + 1) * size) for part in range(3))
        return first, second, again

    def joined(self, ends: Arrays, middle: Arrays) -> jax.Array:
        """[..., column] of three parts of actions and three of the rest."""
        spare = jnp.zeros((*ends[0].shape[:-1], self.count - 3 * self.inputs), ends[0].dtype)
        return jnp.concatenate([ends[0], *middle, *ends[1:], spare], axis=-1)

    def of_weights(self, weights: Weights) -> jax.Array:
        """[critic, width, column]: against both halves of an input the weight's first, against the first its second."""
        high, low = (jnp.split(half, [self.features], axis=-1) for half in halves(weights.first))
        bias = halves(
            weights.first_bias[..., None]
        )  # joined to the rest as halves: before that, in a kernel of its own
        rest = [jnp.concatenate(both, axis=-1) for both in zip((high[0], low[0]), bias, strict=True)]
        return self.joined((high[1], high[1], low[1]), (rest[0], rest[0], rest[1]))

    def of_kernel(self, columns: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Gradients of the kernel [critic, width, input] and its bias, from those of columns, as many as there are."""
        missing = [(0, 0)] * (columns.ndim - 1) + [(0, self.count - columns.shape[-1])]
        columns = jnp.pad(columns, missing)
        actions, rest = (columns[..., first] + columns[..., second] for first, second, _ in (self.ends, self.middle))
        return jnp.concatenate([rest[..., :-1], actions], axis=-1), rest[..., -1]

    def of_pairs(self, columns: jax.Array, batch: int, samples: int) -> tuple[jax.Array, jax.Array]:
        """Gradients of features and actions, from those of rows times both halves of the weights."""
        actions, rest = (columns[..., first] + columns[..., again] for first, _, again in (self.ends, self.middle))
        return rest[:, :-1].reshape(batch, samples, -1).sum(axis=1), actions.reshape(batch, samples, -1)


def _rows(layout: Columns, features: jax.Array, actions: jax.Array) -> jax.Array:
    """Every pair in whole tiles of rows and whole chunks of columns [row, word], two columns a word.

    Rows are bound by what it takes to find out which column holds what, so two at a time are half the time.
    """
    from calql.networks.kernels.warpgroups import TILE

    high, low = halves(jnp.concatenate([features, jnp.ones((len(features), 1))], axis=-1))
    nothing = jnp.zeros((len(features), layout.actions), HALF)
    of_state = set_apart(layout.joined((nothing,) * 3, (high, low, high)))
    high, low = halves(actions)
    first, second, _ = layout.ends
    front, back = _whole_words(high, first.start), _whole_words(jnp.concatenate([low, high], axis=-1), second.start)
    parts = _words(set_apart(jnp.concatenate([front, back], axis=-1)))  # else each word rounds them anew
    rows = _words(of_state)[:, None]
    for part, place in zip(jnp.split(parts, [front.shape[-1] // 2], axis=-1), (first, second), strict=True):
        before = place.start // 2
        rows |= jnp.pad(part, ((0, 0), (0, 0), (before, rows.shape[-1] - before - part.shape[-1])))
    rows = rows.reshape(-1, rows.shape[-1])
    return jnp.pad(rows, ((0, -len(rows) % TILE), (0, 0)))


def _whole_words(columns: jax.Array, begin: int) -> jax.Array:
    """With a column of zeros on either side where the first or the last would be half a word."""
    before = begin % 2
    return jnp.pad(columns, ((0, 0), (0, 0), (before, (before + columns.shape[-1]) % 2)))


def _words(columns: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(columns.reshape(*columns.shape[:-1], -1, 2), jnp.uint32)


def _laid_out(rows: jax.Array, weights: Weights) -> jax.Array:
    """Of rows of words what the kernels fetch: wide ones any part [row, column], the others [tile, row, column]."""
    words = set_apart(rows if _is_wide(weights) else _in_tiles(rows))  # else XLA changes places after all else
    return jax.lax.bitcast_convert_type(words, HALF).reshape(*words.shape[:-1], -1)


def _in_tiles(rows: jax.Array) -> jax.Array:
    """Rows [row, word] as narrow kernels take them [tile, row, word]: a tile's first chunk of columns, then its next.

    So a chunk of a tile's rows has the form of one of the weights, or of a part of it, and goes through the same slots.
    """
    from calql.networks.kernels.warpgroups import CHUNK, TILE

    chunks = rows.reshape(-1, TILE, 2 * rows.shape[-1] // CHUNK, CHUNK // 2)
    return chunks.transpose(0, 2, 1, 3).reshape(len(chunks), -1, CHUNK // 2)


def _out_of_tiles(x: jax.Array) -> jax.Array:
    """The rows again [row, column], from the kernels' [tile, row, column]."""
    from calql.networks.kernels.warpgroups import CHUNK, TILE

    chunks = x.reshape(len(x), -1, TILE, CHUNK)
    return chunks.transpose(0, 2, 1, 3).reshape(len(x) * TILE, -1)


def _of_first(result: jax.Array, x: jax.Array) -> jax.Array:
    """Of columns of the first kernel [critic, width, column], from parts of a sum, or from the layer's own gradient."""
    if result.ndim == 3:
        rows = x if x.ndim == 2 else _out_of_tiles(x)
        return jnp.einsum("crw,ri->cwi", result, rows, preferred_element_type=jnp.float32)
    return result.sum(axis=1)


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
