"""What an update's matrix products alone cost: the floor under its time, measured beside the update itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from calql.bench.updates import Bench, Shapes
from calql.engine.program import Learning

ROUNDS = 20


@dataclass(frozen=True)
class Product:
    """One dot_general of an update, and how often it runs."""

    left: jax.ShapeDtypeStruct
    right: jax.ShapeDtypeStruct
    dimensions: Any
    precision: Any
    result: Any  # dtype
    times: int

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        (_, contracted), (_, batch) = self.dimensions
        free = [size for axis, size in enumerate(self.right.shape) if axis not in (*contracted, *batch)]
        return 2 * self.times * int(np.prod(self.left.shape)) * int(np.prod(free))


def products_of(jaxpr: Jaxpr, times: int = 1) -> Iterator[Product]:
    """Every dot_general of a program, those in the bodies of its loops as often as they run."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            left, right, result = (_shape(v.aval) for v in (*equation.invars, *equation.outvars))
            how = equation.params["dimension_numbers"], equation.params["precision"]
            yield Product(left, right, *how, result.dtype, times)
        inner = times * int(equation.params.get("length", 1))
        for parameter in equation.params.values():
            for part in parameter if isinstance(parameter, tuple | list) else (parameter,):
                if isinstance(part, ClosedJaxpr):
                    yield from products_of(part.jaxpr, inner)
                elif isinstance(part, Jaxpr):
                    yield from products_of(part, inner)


def _shape(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def measure_products(name: str, options: Any, shapes: Shapes, *, seconds: float = 5.0) -> dict[str, Any]:
    """Updates and their products in turns, so that both meet the same neighbours; CPU time and wall time of each."""
    bench = Bench(name, options, shapes)
    some = bench.whole_loops(1)
    traced = jax.make_jaxpr(lambda learning: bench.advance(learning, some))(bench.learning)
    found = [replace(product, times=product.times // some) for product in products_of(traced.jaxpr)]
    multiply = _multiply(found)
    operands = [(_noise(p.left, 0), _noise(p.right, 1)) for p in found]
    learning = _timed_update(bench, bench.learning, bench.whole_loops(2))[0]
    jax.block_until_ready(multiply(operands))
    once, _ = _clocks(lambda: jax.block_until_ready(multiply(operands)), 1)
    repeats = bench.whole_loops(max(int(seconds / ROUNDS / 2 / max(once, 1e-4)), 1))
    updates, alone = [], []
    for _ in range(ROUNDS):
        learning, taken = _timed_update(bench, learning, repeats)
        updates.append(taken)
        alone.append(_clocks(lambda: [jax.block_until_ready(multiply(operands)) for _ in range(repeats)], repeats))
    update, product = np.median(updates, axis=0), np.median(alone, axis=0)
    return {
        "method": name,
        "seeds": shapes.seeds,
        "products": len(found),
        "gflop_per_update": sum(p.operations for p in found) / 1e9,
        "update_ms": {"wall": 1e3 * update[0], "cpu": 1e3 * update[1]},
        "products_ms": {"wall": 1e3 * product[0], "cpu": 1e3 * product[1]},
        "ratio": {"wall": update[0] / product[0], "cpu": update[1] / product[1]},
    }


def _multiply(found: list[Product]) -> Callable[[list[tuple[jax.Array, jax.Array]]], list[jax.Array]]:
    def run(operands: list[tuple[jax.Array, jax.Array]]) -> list[jax.Array]:
        return [
            jax.lax.dot_general(
                left,
                right,
                product.dimensions,
                precision=product.precision,
                preferred_element_type=product.result,
            )
            for product, (left, right) in zip(found, operands, strict=True)
            for _ in range(product.times)
        ]

    return jax.jit(run)


def _noise(shape: jax.ShapeDtypeStruct, seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape.shape, jnp.float32).astype(shape.dtype)


def _timed_update(bench: Bench, learning: Learning, updates: int) -> tuple[Learning, tuple[float, float]]:
    held = [learning]

    def run() -> None:
        held[0] = jax.block_until_ready(bench.advance(held[0], updates))

    taken = _clocks(run, updates)
    return held[0], taken


def _clocks(run: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Wall and CPU seconds of one repeat."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return (time.perf_counter() - wall) / repeats, (time.process_time() - cpu) / repeats
