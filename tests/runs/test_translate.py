"""What the translator writes computes what JAX computes, in ONNX Runtime and in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jax import lax

from calql.runs.export.graph import Port
from calql.runs.export.numpy_policy import Program
from calql.runs.export.onnx_file import as_onnx
from calql.runs.export.translate import translate
from calql.system.errors import UserError

TABLE = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
Function = Callable[[jax.Array], Any]


def numbers(shape: tuple[int, ...] = (5, 3, 4)) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def graph_of(function: Function, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    (batch,) = jax.export.symbolic_shape("batch")
    like = jax.ShapeDtypeStruct((batch, *shape[1:]), dtype)
    return translate(lambda x: (function(x),), ["x", "y"], [like])


SAME: dict[str, Function] = {
    "numbers": lambda x: jnp.exp(x) + jnp.sin(x) * jnp.cos(x) - jnp.floor(x) / (1.0 + jnp.abs(x)) + jnp.ceil(-x),
    "roots": lambda x: lax.rsqrt(1.0 + x**2) + jnp.sqrt(jnp.square(x)) + jnp.log(1.5 + jnp.tanh(x)) + jnp.sign(x),
    "powers": lambda x: x**3 + jnp.abs(x) ** 1.5 + jax.nn.sigmoid(x) + lax.erf(x),
    "choices": lambda x: jnp.where((x > 0.2) & (x <= 1.0) | ~(x < -0.5) ^ (x == 0), x, jnp.clip(x, -0.1, 0.1)),
    "differs": lambda x: jnp.where(x != 0, 1.0, 2.0) * (x >= 0).astype(jnp.float32),
    "clamped": lambda x: lax.clamp(-0.5, x, 0.5),
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "reduced": lambda x: x.sum(1) + x.max(1) - x.min(1),
    "best": lambda x: x.argmax(-1) * 10 + x.argmin(-1),
    "columns": lambda x: jnp.concatenate([x[..., ::2], x[:, 1:2, :2] * jnp.ones((3, 1))], -1),
    "halves": lambda x: jnp.subtract(*jnp.split(x, 2, axis=-1)),
    "stacked": lambda x: jnp.stack([x[:, 0], x[:, 1] * 2], 1),
    "padded": lambda x: jnp.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=3.0),
    "rolled": lambda x: jnp.roll(x, 1, axis=1).swapaxes(1, 2).reshape(x.shape[0], -1),
    "product": lambda x: x @ TABLE.T + TABLE[:, 0],
    "of matrices": lambda x: jnp.einsum("bqf,bkf->bqk", x, x),
    "in letters": lambda x: jnp.einsum("bqf,bkf->bqkf", x, x) + jnp.einsum("bqf,bqf->b", x, x)[:, None, None, None],
    "from the left": lambda x: jnp.einsum("of,bqf->obq", TABLE, x),
    "broadcast alone": lambda x: jnp.broadcast_to(TABLE[0], (x.shape[0], 4)),
    "broadcast and joined": lambda x: jnp.concatenate([x[:, 0], jnp.broadcast_to(TABLE[0], (x.shape[0], 4))], -1),
    "rows of a table": lambda x: jnp.asarray(TABLE)[jnp.clip(x * 3, 0, 5).astype(int)],
    "an entry of each": jax.vmap(lambda row: row[(row[0, 0] > 0).astype(int)]),
    "an entry of each replaced": jax.vmap(lambda row: row.at[(row[0, 0] > 0).astype(int)].set(row[2] * 9)),
    "out of bounds": jax.vmap(lambda row: row.at[7 * (row[0, 0] > 0).astype(int)].set(0.0)),
    "loop": lambda x: lax.scan(lambda c, w: (jnp.tanh(c * w), None), x, jnp.asarray(TABLE))[0],
    "loop back": lambda x: lax.scan(lambda c, w: (c * 2 + w, None), x[:, 0], x.swapaxes(0, 1), reverse=True)[0],
    "by their number": lambda x: x.sum((1, 2)) / x.shape[0],
    "checkpointed": jax.checkpoint(lambda x: jnp.sin(x) * 2),
    "whole numbers": lambda x: (x * 10).astype(jnp.int32) // 3 * 1.0,
    "nothing": lambda x: x,
    "drawn from a fixed key": lambda x: x + jax.random.normal(jax.random.key(3), (3, 4)),
}


@pytest.mark.parametrize("name", SAME)
def test_it_computes_what_jax_does(name: str) -> None:
    x, graph = numbers(), graph_of(SAME[name], (5, 3, 4))
    right = np.asarray(SAME[name](jnp.asarray(x)))
    by_numpy = Program([vars(node) for node in graph.nodes], graph.constants, ["y"])({"x": x})["y"]
    np.testing.assert_allclose(by_numpy, right, atol=1e-5)
    session = onnxruntime.InferenceSession(as_onnx(graph, {"what": ""}))
    (by_runtime,) = session.run(["y"], {"x": x})
    np.testing.assert_allclose(by_runtime, right, atol=1e-5)
    assert by_runtime.dtype == right.dtype == np.dtype(graph.outputs[0].dtype)
    assert len(session.run(["y"], {"x": x[:2]})[0]) == (6 if name == "from the left" else 2)


UNKNOWN: dict[str, tuple[Function, str]] = {
    "sorted": (lambda x: jnp.sort(x, -1), "'sort'"),
    "as long as it takes": (lambda x: lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x), "'while'"),
    "kept steps": (lambda x: lax.scan(lambda c, w: (c, c * w), x, jnp.asarray(TABLE))[1], "a loop that keeps"),
    "filled": (lambda x: jnp.asarray(TABLE).at[x.astype(int)].get(mode="fill"), "places out of bounds filled"),
    "several": (jax.vmap(lambda x: lax.dynamic_slice(x, (x[0, 0].astype(int), 0), (2, 4))), "several numbers at once"),
    "bits": (lambda x: x.astype(int) & 3, "bits of numbers"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_it_does_not_know_is_refused_by_name(name: str) -> None:
    function, said = UNKNOWN[name]
    with pytest.raises(UserError, match=f"{said}.*choose --to stablehlo"):
        graph_of(function, (5, 3, 4))


def test_constants_are_worked_out_once_and_kept_once() -> None:
    """Transposed weights are weights; what no result needs is not written."""

    def function(x: jax.Array) -> jax.Array:
        jnp.sort(TABLE)  # of constants alone, and unused
        weights = jnp.asarray(TABLE).T * 2.0
        return x @ weights + x @ weights

    graph = graph_of(function, (5, 4))
    assert [node.op for node in graph.nodes] == ["MatMul", "MatMul", "Add", "Identity"]
    assert len(graph.constants) == 1
    np.testing.assert_array_equal(next(iter(graph.constants.values())), TABLE.T * 2.0)
    assert graph.inputs == (Port("x", "float32", ("batch", 4)),)
