"""A program of array operations, in ONNX's words: what ONNX files and NumPy exports are both written from.

Every node has one output. Shapes may hold one symbol, the number of observations in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax import export
from numpy.typing import NDArray

from calql.system.errors import UserError

BATCH = "batch"  # the name of the symbol
Shape = tuple[Any, ...]  # of integers and symbols
Attribute = int | str | Sequence[int]


@dataclass(frozen=True)
class Port:
    """An input or output of the whole program; 'batch' stands in its shape for any number."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    @classmethod
    def of(cls, name: str, like: Any) -> Port:
        shape = tuple(BATCH if export.is_symbolic_dim(length) else int(length) for length in like.shape)
        return cls(name, str(like.dtype), shape)


@dataclass(frozen=True)
class Node:
    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True)
class Tensor:
    """What a node computes.

    An axis may have length 1 where the traced program has more: operations between arrays stretch it as they go, and
    `Builder.whole` does it for the others.
    """

    name: str
    shape: Shape
    dtype: np.dtype[Any]


Array = jax.Array | NDArray[Any]  # known as the program is written: parameters, and what follows from them alone
Value = Tensor | Array


@dataclass(frozen=True)
class Graph:
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, NDArray[Any]]


class Builder:
    """Nodes and constants as they come."""

    def __init__(self, first: Port) -> None:
        """`first`: an input whose first axis is the batch."""
        self.nodes: list[Node] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._known: dict[tuple[str, Shape, bytes], str] = {}
        self._first = first
        self._batch: Tensor | None = None

    def emit(self, op: str, inputs: Sequence[Value], shape: Shape, dtype: Any, **attributes: Attribute) -> Tensor:
        output = f"v{len(self.nodes)}"
        self.nodes.append(Node(op, tuple(self.name(value) for value in inputs), output, attributes))
        return Tensor(output, shape, np.dtype(dtype))

    def give(self, output: str, value: Value) -> None:
        """Name a result of the whole program."""
        self.nodes.append(Node("Identity", (self.name(value),), output))

    def name(self, value: Value) -> str:
        """Of a tensor, or of the constant that holds an array; equal arrays are kept once."""
        if isinstance(value, Tensor):
            return value.name
        array = np.asarray(value)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"c{len(self.constants)}"
            self.constants[self._known[key]] = array
        return self._known[key]

    # -- shapes -------------------------------------------------------------------------------------------

    def stretched(self, op: str, values: Sequence[Value], shape: Shape, dtype: Any, **attributes: Attribute) -> Tensor:
        """An operation of numbers in the same place; an axis of which no operand has more than 1 stays so."""
        full = [value for value in values if len(value.shape)]
        lengths = tuple(
            length if any(value.shape[axis] == length for value in full) else 1 for axis, length in enumerate(shape)
        )
        return self.emit(op, values, lengths if full else (), dtype, **attributes)

    def whole(self, value: Value, shape: Shape) -> Value:
        """The value with every axis as long as the traced program has it."""
        if value.shape == shape:
            return value
        if not isinstance(value, Tensor) and is_static(shape):
            return np.broadcast_to(np.asarray(value), shape)
        return self.emit("Expand", [value, self.lengths(shape)], shape, value.dtype)

    def reshaped(self, value: Value, shape: Shape) -> Tensor:
        symbols = sum(not isinstance(length, int | np.integer) for length in shape)
        if symbols > 1:
            raise unsupported(f"an array of shape {shape}")
        lengths = integers([length if isinstance(length, int | np.integer) else -1 for length in shape])
        return self.emit("Reshape", [value, lengths], shape, value.dtype)

    def lengths(self, shape: Shape) -> Value:
        """A shape as numbers, of which the batch is known only when the program runs."""
        if is_static(shape):
            return integers(shape)
        parts: list[Value] = []
        for length in shape:
            if isinstance(length, int | np.integer):
                parts.append(integers([length]))
            elif str(length) == BATCH:
                parts.append(self._batch_length())
            else:
                raise unsupported(f"an array of shape {shape}")
        return parts[0] if len(parts) == 1 else self.emit("Concat", parts, (len(shape),), np.int64, axis=0)

    def _batch_length(self) -> Tensor:
        if self._batch is None:
            first = Tensor(self._first.name, self._first.shape, np.dtype(self._first.dtype))
            self._batch = self.emit("Shape", [first], (1,), np.int64, start=0, end=1)
        return self._batch


def is_static(shape: Sequence[Any]) -> bool:
    return all(isinstance(length, int | np.integer) for length in shape)


def integers(values: Sequence[Any]) -> NDArray[np.int64]:
    """Shapes, axes and bounds are arrays of int64 in ONNX, which JAX does not have unasked."""
    return np.array([int(value) for value in values], np.int64)


def unsupported(what: str) -> UserError:
    return UserError(
        f"the policy computes {what}, which this export does not know how to write",
        mend="choose --to stablehlo, which takes any policy",
    )


def pruned(graph: Graph) -> Graph:
    """Without nodes and constants that no output needs."""
    needed, nodes = {port.name for port in graph.outputs}, []
    for node in reversed(graph.nodes):
        if node.output in needed:
            needed.update(node.inputs)
            nodes.append(node)
    constants = {name: array for name, array in graph.constants.items() if name in needed}
    return Graph(graph.inputs, graph.outputs, tuple(reversed(nodes)), constants)
