"""From what JAX traces of a function to a program of array operations: any policy passes by this one door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from calql.runs.export.graph import BATCH, Builder, Graph, Port, Tensor, Value, integers, is_static, pruned, unsupported
from calql.runs.export.primitives import PRIMITIVES, Call
from calql.system.tracing import loop_inputs

CALLS = ("call_jaxpr", "jaxpr", "fun_jaxpr")  # where a primitive that calls a function keeps it


def translate(function: Callable[..., Sequence[Any]], names: Sequence[str], like: Sequence[Any]) -> Graph:
    """The function of arrays as a graph; `names` and `like` are of its inputs, then of its outputs by name.

    The batch is a symbol in the shapes of `like`, and stays one: nothing is written for one batch and changed after.
    """
    closed = jax.make_jaxpr(function)(*like)
    inputs = [Port.of(name, each) for name, each in zip(names, like, strict=False)]
    outputs = [Port.of(name, each) for name, each in zip(names[len(like) :], closed.out_avals, strict=True)]
    first = next(port for port in inputs if port.shape[:1] == (BATCH,))
    builder = Builder(first)
    arguments: list[Value] = [
        Tensor(name, each.shape, np.dtype(each.dtype)) for name, each in zip(names, like, strict=False)
    ]
    results = evaluate(builder, closed.jaxpr, closed.consts, arguments)
    for port, value, aval in zip(outputs, results, closed.out_avals, strict=True):
        builder.give(port.name, builder.whole(value, aval.shape))
    return pruned(Graph(tuple(inputs), tuple(outputs), tuple(builder.nodes), builder.constants))


def evaluate(builder: Builder, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Value]) -> list[Value]:
    """Write the equations of one function, one after the other; its results."""
    known: dict[Any, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Value:
        is_known = isinstance(atom, core.Literal)
        return np.asarray(atom.val, atom.aval.dtype) if is_known else known[atom]

    for equation in jaxpr.eqns:
        results = _written(builder, equation, [read(atom) for atom in equation.invars])
        known.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _written(builder: Builder, equation: Any, values: list[Value]) -> list[Value]:
    name, params = equation.primitive.name, equation.params
    if name == "scan":
        return _unrolled(builder, params, values)
    inner = next((params[key] for key in CALLS if key in params), None)
    if inner is not None and name != "while":
        consts = inner.consts if isinstance(inner, core.ClosedJaxpr) else ()
        return evaluate(builder, getattr(inner, "jaxpr", inner), consts, values)
    if _is_known(equation, values):
        found = equation.primitive.bind(*values, **params)
        return list(found) if equation.primitive.multiple_results else [found]
    shapes = tuple(atom.aval.shape for atom in equation.invars)
    if name == "split":
        return _split(builder, params, values[0], shapes[0], equation.outvars)
    if name not in PRIMITIVES:
        raise unsupported(f"'{name}'")
    result = equation.outvars[0].aval
    return [PRIMITIVES[name](builder, Call(name, params, shapes, result.shape, result.dtype), values)]


def _is_known(equation: Any, values: Sequence[Value]) -> bool:
    """Whether the result follows from parameters alone, as they are: then it is one."""
    as_traced = all(
        not isinstance(value, Tensor) and np.shape(value) == atom.aval.shape
        for value, atom in zip(values, equation.invars, strict=True)
    )
    return (
        equation.primitive.name != "dim_as_value"
        and as_traced
        and all(is_static(variable.aval.shape) for variable in equation.outvars)
    )


def _split(builder: Builder, params: Any, value: Value, shape: Any, parts: Sequence[Any]) -> list[Value]:
    ends = np.cumsum([int(size) for size in params["sizes"]])
    axis, whole = integers([params["axis"]]), builder.whole(value, shape)
    return [
        builder.emit("Slice", [whole, integers([end - size]), integers([end]), axis], part.aval.shape, part.aval.dtype)
        for end, size, part in zip(ends, params["sizes"], parts, strict=True)
    ]


def _unrolled(builder: Builder, params: Any, values: list[Value]) -> list[Value]:
    """A loop of known length, written step after step."""
    (fixed, carried), body = loop_inputs(params), params["jaxpr"]
    shared, carry, stacked = values[:fixed], values[fixed : fixed + carried], values[fixed + carried :]
    steps = range(params["length"])
    if len(body.out_avals) > carried:
        raise unsupported("a loop that keeps what each of its steps gives")
    for step in reversed(steps) if params["reverse"] else steps:
        rows = [
            _row(builder, column, step, variable.aval)
            for column, variable in zip(stacked, body.jaxpr.invars[fixed + carried :], strict=True)
        ]
        carry = evaluate(builder, body.jaxpr, body.consts, [*shared, *carry, *rows])
    return carry


def _row(builder: Builder, column: Value, step: int, aval: Any) -> Value:
    if not isinstance(column, Tensor):
        return column[step]
    return builder.emit("Gather", [column, np.asarray(step, np.int64)], aval.shape, aval.dtype, axis=0)
