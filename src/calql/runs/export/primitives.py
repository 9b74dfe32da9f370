"""One small function for each primitive of JAX that acting functions use: how it is said in ONNX's operations.

A primitive that is not here is refused by its name, so a wrong answer is never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode
from numpy.typing import NDArray

from calql.runs.export.graph import Builder, Shape, Tensor, Value, integers, is_static, unsupported


@dataclass(frozen=True)
class Call:
    """One use of a primitive."""

    primitive: str
    params: Mapping[str, Any]
    shapes: tuple[Shape, ...]  # of its operands, as traced
    shape: Shape  # of its result
    dtype: Any


Write = Callable[[Builder, Call, list[Value]], Value]
PRIMITIVES: dict[str, Write] = {}


def writes(*names: str) -> Callable[[Write], Write]:
    def register(function: Write) -> Write:
        PRIMITIVES.update(dict.fromkeys(names, function))
        return function

    return register


# -- numbers in the same place ----------------------------------------------------------------------------

ELEMENTWISE = {
    "abs": "Abs", "add": "Add", "add_any": "Add", "ceil": "Ceil", "cos": "Cos", "div": "Div", "eq": "Equal",
    "erf": "Erf", "exp": "Exp", "floor": "Floor", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual",
    "log": "Log", "logistic": "Sigmoid", "lt": "Less", "max": "Max", "min": "Min", "mul": "Mul", "neg": "Neg",
    "pow": "Pow", "sign": "Sign", "sin": "Sin", "sqrt": "Sqrt", "sub": "Sub", "tanh": "Tanh",
}  # fmt: skip
LOGICAL = {"and": "And", "not": "Not", "or": "Or", "xor": "Xor"}
SAME = ("copy", "copy_p", "optimization_barrier", "stop_gradient")


@writes(*ELEMENTWISE)
def _elementwise(b: Builder, call: Call, values: list[Value]) -> Value:
    return b.stretched(ELEMENTWISE[call.primitive], values, call.shape, call.dtype)


@writes(*LOGICAL)
def _logical(b: Builder, call: Call, values: list[Value]) -> Value:
    if np.dtype(call.dtype) != np.bool_:
        raise unsupported(f"'{call.primitive}' of the bits of numbers")
    return b.stretched(LOGICAL[call.primitive], values, call.shape, call.dtype)


@writes(*SAME)
def _same(b: Builder, call: Call, values: list[Value]) -> Value:
    return values[0]


@writes("ne")
def _differs(b: Builder, call: Call, values: list[Value]) -> Value:
    equal = b.stretched("Equal", values, call.shape, call.dtype)
    return b.emit("Not", [equal], equal.shape, call.dtype)


@writes("square")
def _square(b: Builder, call: Call, values: list[Value]) -> Value:
    return b.stretched("Mul", values * 2, call.shape, call.dtype)


@writes("integer_pow")
def _integer_power(b: Builder, call: Call, values: list[Value]) -> Value:
    power = np.asarray(call.params["y"], call.dtype)
    return b.stretched("Pow", [values[0], power], call.shape, call.dtype)


@writes("rem")
def _remainder(b: Builder, call: Call, values: list[Value]) -> Value:
    return b.stretched("Mod", values, call.shape, call.dtype, fmod=1)


@writes("rsqrt")
def _inverse_root(b: Builder, call: Call, values: list[Value]) -> Value:
    root = b.stretched("Sqrt", values, call.shape, call.dtype)
    return b.emit("Reciprocal", [root], root.shape, call.dtype)


@writes("clamp")
def _clamped(b: Builder, call: Call, values: list[Value]) -> Value:
    low, x, high = values
    above = b.stretched("Max", [low, x], call.shape, call.dtype)
    return b.stretched("Min", [above, high], call.shape, call.dtype)


@writes("select_n")
def _selected(b: Builder, call: Call, values: list[Value]) -> Value:
    which, *cases = values
    if len(cases) != 2 or np.dtype(which.dtype) != np.bool_:
        raise unsupported("a choice among more than two arrays")
    return b.stretched("Where", [which, cases[1], cases[0]], call.shape, call.dtype)


@writes("convert_element_type")
def _converted(b: Builder, call: Call, values: list[Value]) -> Value:
    if np.dtype(values[0].dtype) == np.dtype(call.dtype):
        return values[0]
    return b.emit("Cast", values, values[0].shape, call.dtype, to=str(np.dtype(call.dtype)))


# -- shapes -----------------------------------------------------------------------------------------------


@writes("broadcast_in_dim")
def _broadcast(b: Builder, call: Call, values: list[Value]) -> Value:
    """New axes have length 1 until something needs them longer."""
    (value,), kept = values[:1], [int(axis) for axis in call.params["broadcast_dimensions"]]
    new = [axis for axis in range(len(call.shape)) if axis not in kept]
    if not new or not len(value.shape):
        return value
    if not isinstance(value, Tensor):
        return np.expand_dims(np.asarray(value), tuple(new))
    lengths = tuple(value.shape[kept.index(axis)] if axis in kept else 1 for axis in range(len(call.shape)))
    return b.emit("Unsqueeze", [value, integers(new)], lengths, call.dtype)


@writes("reshape", "squeeze", "expand_dims")
def _reshaped(b: Builder, call: Call, values: list[Value]) -> Value:
    return b.reshaped(b.whole(values[0], call.shapes[0]), call.shape)


@writes("transpose")
def _transposed(b: Builder, call: Call, values: list[Value]) -> Value:
    order = [int(axis) for axis in call.params["permutation"]]
    return _in_order(b, b.whole(values[0], call.shapes[0]), order)


def _in_order(b: Builder, value: Value, order: list[int]) -> Value:
    if order == sorted(order):
        return value
    if not isinstance(value, Tensor):
        return np.transpose(np.asarray(value), order)
    return b.emit("Transpose", [value], tuple(value.shape[axis] for axis in order), value.dtype, perm=order)


@writes("concatenate")
def _joined(b: Builder, call: Call, values: list[Value]) -> Value:
    whole = [b.whole(value, shape) for value, shape in zip(values, call.shapes, strict=True)]
    return b.emit("Concat", whole, call.shape, call.dtype, axis=int(call.params["dimension"]))


@writes("stack")
def _stacked(b: Builder, call: Call, values: list[Value]) -> Value:
    axis = int(call.params["axis"])
    rows = [
        b.emit("Unsqueeze", [b.whole(value, shape), integers([axis])], (*shape[:axis], 1, *shape[axis:]), call.dtype)
        for value, shape in zip(values, call.shapes, strict=True)
    ]
    return b.emit("Concat", rows, call.shape, call.dtype, axis=axis)


@writes("dim_as_value")
def _length(b: Builder, call: Call, values: list[Value]) -> Value:
    length = b.reshaped(b.lengths((call.params["dim"],)), ())
    return b.emit("Cast", [length], (), call.dtype, to=str(np.dtype(call.dtype)))


@writes("slice")
def _sliced(b: Builder, call: Call, values: list[Value]) -> Value:
    starts, ends = call.params["start_indices"], call.params["limit_indices"]
    steps = call.params["strides"] or [1] * len(starts)
    lengths = call.shapes[0]
    cut = [
        axis for axis, end in enumerate(ends) if not (starts[axis] == 0 and end == lengths[axis] and steps[axis] == 1)
    ]
    bounds = [integers([numbers[axis] for axis in cut]) for numbers in (starts, ends)]
    chosen = [*bounds, integers(cut), integers([steps[axis] for axis in cut])]
    return b.emit("Slice", [b.whole(values[0], lengths), *chosen], call.shape, call.dtype)


@writes("pad")
def _padded(b: Builder, call: Call, values: list[Value]) -> Value:
    value, filling = values
    config = call.params["padding_config"]
    if any(low < 0 or high < 0 or within for low, high, within in config):
        raise unsupported("padding that cuts, or between numbers")
    ends = integers([low for low, _, _ in config] + [high for _, high, _ in config])
    return b.emit("Pad", [b.whole(value, call.shapes[0]), ends, filling], call.shape, call.dtype)


# -- sums and products ------------------------------------------------------------------------------------

REDUCTIONS = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_sum": "ReduceSum"}


@writes(*REDUCTIONS)
def _reduced(b: Builder, call: Call, values: list[Value]) -> Value:
    over = [b.whole(values[0], call.shapes[0]), integers(call.params["axes"])]
    return b.emit(REDUCTIONS[call.primitive], over, call.shape, call.dtype, keepdims=0)


@writes("argmax", "argmin")
def _place_of_extreme(b: Builder, call: Call, values: list[Value]) -> Value:
    """The first one, where several are equal."""
    (axis,) = call.params["axes"]
    op = "ArgMax" if call.primitive == "argmax" else "ArgMin"
    found = b.emit(op, [b.whole(values[0], call.shapes[0])], call.shape, np.int64, axis=int(axis), keepdims=0)
    return b.emit("Cast", [found], call.shape, call.dtype, to=str(np.dtype(call.dtype)))


@writes("dot_general")
def _product(b: Builder, call: Call, values: list[Value]) -> Value:
    """A product of matrices, or of as many as there are common axes; in letters where it is neither."""
    (left_sum, right_sum), (left_common, right_common) = (
        [[int(axis) for axis in side] for side in pair] for pair in call.params["dimension_numbers"]
    )
    left, right = (b.whole(value, shape) for value, shape in zip(values, call.shapes, strict=True))
    left_free = [axis for axis in range(len(left.shape)) if axis not in (*left_sum, *left_common)]
    right_free = [axis for axis in range(len(right.shape)) if axis not in (*right_sum, *right_common)]
    many = left_common and len(left_free) != 1
    if len(left_sum) != 1 or len(right_free) != 1 or not left_free or many:
        return _in_letters(b, call, [left, right])
    left = _in_order(b, left, [*left_common, *left_free, *left_sum])
    right = _in_order(b, right, [*right_common, *right_sum, *right_free])
    return b.emit("MatMul", [left, right], call.shape, call.dtype)


def _in_letters(b: Builder, call: Call, values: list[Value]) -> Value:
    """Einstein's notation: common axes, free ones of the left, free ones of the right."""
    (left_sum, right_sum), (left_common, right_common) = call.params["dimension_numbers"]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in call.shapes[0]]
    shared = dict(zip([*right_sum, *right_common], [*left_sum, *left_common], strict=True))
    right = [left[shared[axis]] if axis in shared else next(letters) for axis in range(len(call.shapes[1]))]
    free_left = [left[axis] for axis in range(len(left)) if axis not in (*left_sum, *left_common)]
    result = [left[axis] for axis in left_common] + free_left
    result += [right[axis] for axis in range(len(right)) if axis not in shared]
    equation = f"{''.join(left)},{''.join(right)}->{''.join(result)}"
    return b.emit("Einsum", values, call.shape, call.dtype, equation=equation)


# -- places that are known when the policy acts -----------------------------------------------------------


@writes("gather")
def _gathered(b: Builder, call: Call, values: list[Value]) -> Value:
    """Entries along one axis, the same for all of the batch, or of each array of the batch one along its first axis."""
    numbers, (table, indices) = call.params["dimension_numbers"], call.shapes
    if not isinstance(values[1], Tensor) and len(indices) == 1 and values[1].shape == indices:
        return _cut(b, call, values[0], np.asarray(values[1]))
    axis, column = _picked(call)
    whole, place = b.whole(values[0], table), _place(b, call, values[1], column, int(table[axis]))
    together = tuple(numbers.operand_batching_dims), tuple(numbers.start_indices_batching_dims)
    if together == ((0,), (0,)) and axis == 1 and len(indices) == 2:
        found = b.emit("GatherND", [whole, place], (table[0], *table[2:]), call.dtype, batch_dims=1)
        return found if found.shape == call.shape else b.reshaped(found, call.shape)
    ranks = len(indices) - 1
    around = (*range(axis), *range(axis + ranks, len(call.shape)))
    if together == ((), ()) and tuple(numbers.offset_dims) == around:
        return b.emit("Gather", [whole, b.reshaped(place, indices[:-1])], call.shape, call.dtype, axis=axis)
    raise unsupported("'gather' in another form than one entry a row")


def _cut(b: Builder, call: Call, value: Value, index: NDArray[Any]) -> Value:
    """From one place that is known: a slice, held within bounds as the mode has it."""
    sizes, table = call.params["slice_sizes"], call.shapes[0]
    starts = dict(zip(map(int, call.params["dimension_numbers"].start_index_map), index.tolist(), strict=True))
    axes = [axis for axis in starts if sizes[axis] != table[axis]]
    if not is_static([table[axis] for axis in axes]):
        raise unsupported("'gather' of a part of the batch")
    first = [min(max(starts[axis], 0), table[axis] - sizes[axis]) for axis in axes]
    last = [start + sizes[axis] for start, axis in zip(first, axes, strict=True)]
    bounds = [integers(first), integers(last), integers(axes)]
    return b.reshaped(b.emit("Slice", [b.whole(value, table), *bounds], sizes, call.dtype), call.shape)


def _picked(call: Call) -> tuple[int, int]:
    """The one axis along which single entries are picked, and which number of an index says where.

    Along the others the whole axis is taken, from its start: wherever the index points, it is held within bounds.
    """
    sizes, indexed = call.params["slice_sizes"], call.params["dimension_numbers"].start_index_map
    single = [(int(axis), column) for column, axis in enumerate(indexed) if sizes[axis] == 1]
    found = [(axis, column) for axis, column in single if call.shapes[0][axis] != 1] or single[:1]
    others = [axis for axis in indexed if axis != (found[0][0] if found else None)]
    if len(found) != 1 or any(sizes[axis] != call.shapes[0][axis] for axis in others):
        raise unsupported("'gather' of several numbers at once")
    return found[0]


def _place(b: Builder, call: Call, index: Value, column: int, length: int) -> Tensor:
    """One number of each index [..., 1], held within the axis that it is of."""
    if call.params["mode"] not in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
        raise unsupported("'gather' with places out of bounds filled")
    shape = (*call.shapes[1][:-1], 1)
    chosen = [integers([number]) for number in (column, column + 1, len(shape) - 1, 1)]
    one = b.emit("Slice", [b.whole(index, call.shapes[1]), *chosen], shape, index.dtype)
    wide = b.emit("Cast", [one], shape, np.int64, to="int64")
    above = b.emit("Max", [wide, integers([0])], shape, np.int64)
    return b.emit("Min", [above, integers([length - 1])], shape, np.int64)


@writes("scatter")
def _scattered(b: Builder, call: Call, values: list[Value]) -> Value:
    """One entry along the first axis of each array of the batch is replaced; none, if its place is out of bounds."""
    numbers, (shape, indices, updates) = call.params["dimension_numbers"], call.shapes
    form = (numbers.operand_batching_dims, numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims)
    alone = call.params["update_jaxpr"] is None and call.params["mode"] != GatherScatterMode.CLIP
    if [tuple(map(int, part)) for part in form] != [(0,), (1,), (1,)] or len(indices) != 2 or not alone:
        raise unsupported("'scatter' in another form than one entry a row")
    place = b.reshaped(b.whole(values[1], indices), (shape[0], *[1] * (len(shape) - 1)))
    steps = np.arange(shape[1], dtype=np.dtype(values[1].dtype)).reshape(-1, *[1] * (len(shape) - 2))
    here = b.emit("Equal", [place, steps], (shape[0], shape[1], *[1] * (len(shape) - 2)), np.bool_)
    row = b.emit("Unsqueeze", [b.whole(values[2], updates), integers([1])], (shape[0], 1, *shape[2:]), call.dtype)
    return b.emit("Where", [here, row, b.whole(values[0], shape)], shape, call.dtype)
