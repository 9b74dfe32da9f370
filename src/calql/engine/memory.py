"""Whether a run fits into memory, from shapes alone: told before any of it is taken.

What is added up is a lower bound (states, buffers, batches, the largest product of an update), so that nothing is
refused which would have run.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from calql.data import Dataset
from calql.engine.mixing import batch_shape
from calql.engine.options import RunOptions
from calql.engine.plan import buffer_rows
from calql.methods.base import Method, Spec, Transitions
from calql.system.errors import UserError
from calql.system.machine import device_memory, in_words

OPTIONAL = {"has_next_action": jnp.float32, "timestep": jnp.int32, "remaining": jnp.int32, "return_to_go": jnp.float32}
MANY_ROWS = 2**16  # of one update, from which on its products are looked at: that takes a second


def require_memory(method: Method, data: Dataset, options: RunOptions, limit: int) -> None:
    """Stop where the least that a run needs is more than there is, naming the option that asks for most of it."""
    needed = least_memory(method, data, options, limit)
    total, there = sum(needed.values()), device_memory()
    if total <= there:
        return
    worst = max(needed, key=lambda name: needed[name])
    raise UserError(
        f"needs at least {in_words(total)} of memory, and there are {in_words(there)}",
        mend=f"{in_words(needed[worst])} of it are for {worst}",
    )


def least_memory(method: Method, data: Dataset, options: RunOptions, limit: int) -> dict[str, int]:
    """Bytes by what they are for, with the option that makes it less."""
    row = one_row(method, data)
    image, layout = data.observations.dtype == np.uint8 and data.layout is None, data.form
    spec = Spec(data.observations.shape[1:], data.actions.shape[1], image=image, discrete=data.discrete, layout=layout)
    state = jax.eval_shape(lambda: method.init(jax.random.key(0), spec))
    shape = batch_shape(method)
    batch = jax.tree.map(lambda c: jax.ShapeDtypeStruct((*shape, *c.shape), c.dtype), row)
    working = size(batch)
    if math.prod(shape) * options.seeds > MANY_ROWS:
        working += largest_product(method, state, batch)
    seeds = f"the networks of {options.seeds} seeds: use fewer --seeds, or smaller networks"
    buffers = f"{options.seeds} online buffers: use a smaller --capacity"
    batches = f"{options.seeds} batches of {method.batch_size} rows: use a smaller --batch-size"
    return {
        seeds: options.seeds * size(state),
        buffers: options.seeds * buffer_rows(options, limit) * size(row),
        batches: options.seeds * working,
    }


def one_row(method: Method, data: Dataset) -> Transitions:
    """The shapes of one transition on the device."""

    def like(shape: tuple[int, ...], kind: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, kind)

    seen, action = like(data.observations.shape[1:], data.observations.dtype), like(data.actions.shape[1:], jnp.float32)
    scalar = like((), jnp.float32)
    optional = {name: like((), kind) for name, kind in OPTIONAL.items() if name in method.columns}
    if "next_actions" in method.columns:
        optional["next_actions"] = action
    optional |= {name: like(mask.shape[1:], jnp.bool_) for name, mask in data.masks.items()}
    return Transitions(seen, action, scalar, seen, scalar, scalar, **optional)


def size(tree: Any) -> int:
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def largest_product(method: Method, state: Any, batch: Any) -> int:
    """Bytes of the largest result of a matrix product or convolution in one update."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    traced = jax.make_jaxpr(method.update)(state, batch, key)
    return max(_products(traced.jaxpr), default=0)


def _products(jaxpr: Any) -> list[int]:
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "conv_general_dilated"):
            found += [math.prod(out.aval.shape) * out.aval.dtype.itemsize for out in equation.outvars]
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                found += _products(inner)
    return found
