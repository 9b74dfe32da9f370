"""The critics' layers as three kernels for Hopper GPUs (H100, H200): forwards, backwards, gradients of the weights.

A program runs on each multiprocessor and takes one tile of rows after the other. Two of its warpgroups multiply, 64
rows each, which stay in shared memory from the first layer to the last; the third does nothing but fetch what they
multiply with, a few chunks ahead. Arrays have a leading axis of critics, those of all seeds together; operands are in
bfloat16 and sums in float32. Rows come in whole tiles, inputs in whole chunks.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from calql.networks.kernels.warpgroups import (
    CHUNK,
    HALF,
    MEMORY,
    ROWS,
    TILE,
    WARPGROUPS,
    Ring,
    Step,
    along_columns,
    along_rows,
    array,
    count_of_programs,
    for_interpreter,
    gpu,
    in_turn,
    launch,
    product_of,
    roles,
    steps_over,
    transposed,
)

LEAST = 8  # columns of a product


def forward(
    x: jax.Array, first: jax.Array, hidden: jax.Array, biases: jax.Array, output: jax.Array, *, keep: bool, **how: Any
) -> list[jax.Array]:
    """Q [critic, row] of x and, to keep, all layers after their ReLU [critic, layer, row, width].

    x [tile, row, column] holds a tile's first chunk of columns, then its next. Of the last layer, what is kept is
    whether units are above zero: one or zero.

    Weights are [critic, output, input], those of hidden layers [critic, layer, output, input]; a bias of the first
    layer is the weight of an input that is always one.
    """
    (seeds, tiles, depth, _), (critics, layers, width, _) = x.shape, hidden.shape
    count, members, of_first, of_hidden = tiles * TILE, critics // seeds, depth // TILE, width // CHUNK
    at_once = width // TILE  # chunks of x in the place of one of the weights, which comes before theirs
    places = -(-of_first // at_once)
    chunks = places + of_first + layers * of_hidden
    rest = 2 * TILE * (width + 2) + 4 * (layers + 1) * width
    size = (MEMORY - rest) // (2 * CHUNK * width)

    def kernel(*refs: Any, rows: Any, q: Any, turned: list[Any], **rings: list[Any]) -> None:
        x_ref, first_ref, hidden_ref, biases_ref, output_ref, q_ref, *kept = refs
        vectors, weights = Ring(rings["vectors"]), Ring(rings["weights"])

        def multiply(group: Any) -> None:
            mine = pl.ds(group * ROWS, ROWS)
            for ring in (weights, vectors):
                ring.open()

            def product(steps: list[Step]) -> jax.Array:
                return product_of(weights, steps, width, [ref.at[group] for ref in turned])

            def of_x(turn: Any) -> list[Step]:
                """Rows of x in the ring, each place of them before the weights that they are multiplied with."""

                def step(part: int) -> Step:
                    place, number = divmod(part, at_once)
                    at, own = turn + place * (at_once + 1), pl.ds(number * TILE + group * ROWS, ROWS)
                    last = number == at_once - 1 or part == of_first - 1
                    here = at + 1 + number
                    return Step(lambda: waited(at, number).at[own], here, (here, at) if last else (here,))

                def waited(at: Any, number: int) -> Any:
                    return weights.wait(at)[0] if number == 0 else weights.held(at)[0]

                return [step(part) for part in range(of_first)]

            def one(turn: Any, at: Any) -> None:
                critic, own = at // tiles, pl.ds(lax.rem(at, tiles) * TILE + group * ROWS, ROWS)

                def put(values: jax.Array) -> None:
                    gpu.wait_smem_to_gmem(0, wait_read_only=True)
                    rows[mine] = values.astype(HALF)
                    gpu.commit_smem()

                def store(layer: Any) -> None:
                    for ref in kept:
                        gpu.copy_smem_to_gmem(rows.at[mine], ref.at[critic, layer, own])

                above = product(of_x(turn * chunks))
                put(jnp.maximum(above, 0.0))
                biases, output = vectors.wait(turn)

                @pl.loop(0, layers)
                def _(layer: Any) -> None:
                    store(layer)
                    begin = turn * chunks + places + of_first + layer * of_hidden
                    above = product(steps_over(rows.at[mine], begin))
                    put(jnp.maximum(above + along_rows(biases[layer]), 0.0))

                values = rows[mine]
                total = jnp.sum(values.astype(jnp.float32) * along_rows(output[...]), axis=1)
                vectors.release(turn)
                if keep:
                    put(jnp.where(values > 0, 1.0, 0.0))
                    store(layers)
                q[mine] = total
                gpu.commit_smem()
                gpu.copy_smem_to_gmem(q.at[mine], q_ref.at[critic, own])

            in_turn(critics * tiles, one)
            gpu.wait_smem_to_gmem(0)

        def fetch() -> None:
            def one(turn: Any, at: Any) -> None:
                critic = at // tiles
                for part in range(of_first):
                    place, number = divmod(part, at_once)
                    begin = turn * chunks + place * (at_once + 1)
                    if number == 0:
                        here = pl.ds(place * width, min(width, depth - place * width))
                        weights.fetch(begin, x_ref.at[critic // members, lax.rem(at, tiles), here])
                    columns = pl.ds(part * CHUNK, CHUNK)
                    weights.fetch(begin + 1 + number, first_ref.at[critic, :, columns])
                vectors.fetch(turn, biases_ref.at[critic], output_ref.at[critic])

                @pl.loop(0, layers * of_hidden)
                def _(chunk: Any) -> None:
                    part = pl.ds(lax.rem(chunk, of_hidden) * CHUNK, CHUNK)
                    turn_of_chunk = turn * chunks + places + of_first + chunk
                    weights.fetch(turn_of_chunk, hidden_ref.at[critic, chunk // of_hidden, :, part])

            in_turn(critics * tiles, one)
            for ring in (weights, vectors):
                ring.close()

        roles(multiply, fetch)

    kept = [jax.ShapeDtypeStruct((critics, layers + 1, count, width), HALF)] if keep else []
    return launch(
        kernel,
        "critics_forward",
        (x, first, hidden, biases, output),
        [jax.ShapeDtypeStruct((critics, count), jnp.float32), *kept],
        {
            "rows": array(TILE, width),
            "q": array(TILE, dtype=jnp.float32),
            "turned": for_interpreter(how, WARPGROUPS, CHUNK, width),
            "weights": Ring.of(min(size, 4), jax.ShapeDtypeStruct((width, CHUNK), HALF)),
            "vectors": Ring.of(1, jax.ShapeDtypeStruct(biases.shape[1:], jnp.float32), output[0]),
        },
        how=how,
    )


def backward(kept: jax.Array, q_gradient: jax.Array, hidden: jax.Array, last: jax.Array, **how: Any) -> list[jax.Array]:
    """From dL/dQ [critic, row] and what `forward` kept to that of the first layer before its ReLU [critic, row, width].

    Weights of hidden layers are [critic, layer, output, input]; `last` [critic, output, input] are those of the last
    of them times the output's.

    A warpgroup has two buffers: one with the gradient that it multiplies with, one with the activations that mask the
    product, which then takes their place.
    """
    critics, depth, count, width = kept.shape
    layers, tiles, of_layer, programs = depth - 1, count // TILE, width // CHUNK, count_of_programs(how)
    size = (MEMORY - 4 * TILE * width - 4 * TILE) // (2 * CHUNK * width)

    def kernel(*refs: Any, buffers: Any, full: Any, q: Any, q_full: Any, weights: list[Any]) -> None:
        kept_ref, q_ref, hidden_ref, last_ref, gradients_ref = refs
        ring = Ring(weights)

        def multiply(group: Any) -> None:
            mine = pl.ds(group * ROWS, ROWS)
            ring.open()

            def own(at: Any) -> Any:
                return pl.ds(lax.rem(at, tiles) * TILE + group * ROWS, ROWS)

            def fetch_mask(at: Any, step: Any, buffer: Any) -> None:
                layer = kept_ref.at[at // tiles, layers - step, own(at)]
                gpu.copy_gmem_to_smem(layer, buffers.at[buffer, mine], full.at[2 * group + buffer])

            def fetch_q(at: Any) -> None:
                gpu.copy_gmem_to_smem(q_ref.at[at // tiles, own(at)], q.at[mine], q_full.at[group])

            begin = lax.axis_index("program")

            @pl.when(begin < critics * tiles)
            def _() -> None:
                fetch_mask(begin, 0, 0)
                fetch_q(begin)

            def one(turn: Any, at: Any) -> None:
                def put(step: Any, buffer: Any, above: jax.Array) -> None:
                    """Mask what comes from above, and have the next mask fetched to the other buffer."""
                    gpu.wait_smem_to_gmem(0, wait_read_only=True)  # now that one is free
                    more = step < layers
                    then_at, then_step = jnp.where(more, at, at + programs), jnp.where(more, step + 1, 0)
                    pl.when(then_at < critics * tiles)(lambda: fetch_mask(then_at, then_step, 1 - buffer))
                    gpu.barrier_wait(full.at[2 * group + buffer])
                    buffers[buffer, mine] = jnp.where(buffers[buffer, mine] > 0, above, 0.0).astype(HALF)
                    gpu.commit_smem()

                    @pl.when(step == layers)
                    def _() -> None:
                        gpu.copy_smem_to_gmem(buffers.at[buffer, mine], gradients_ref.at[at // tiles, own(at)])

                gpu.barrier_wait(q_full.at[group])
                put(jnp.int32(0), lax.rem(turn * depth, 2), along_columns(q[mine], width))
                later = at + programs
                pl.when(later < critics * tiles)(lambda: fetch_q(later))

                @pl.loop(0, layers)
                def _(layer: Any) -> None:
                    buffer = lax.rem(turn * depth + layer + 1, 2)
                    left = buffers.at[1 - buffer, mine]
                    steps = steps_over(left, (turn * layers + layer) * of_layer)
                    put(layer + 1, buffer, product_of(ring, steps, width))

            in_turn(critics * tiles, one)
            gpu.wait_smem_to_gmem(0)

        def fetch() -> None:
            def one(turn: Any, at: Any) -> None:
                critic = at // tiles
                for part in range(of_layer):
                    ring.fetch(turn * layers * of_layer + part, last_ref.at[critic, pl.ds(part * CHUNK, CHUNK)])

                @pl.loop(of_layer, layers * of_layer)
                def _(chunk: Any) -> None:
                    layer, part = layers - 1 - chunk // of_layer, pl.ds(lax.rem(chunk, of_layer) * CHUNK, CHUNK)
                    ring.fetch(turn * layers * of_layer + chunk, hidden_ref.at[critic, layer, part])

            in_turn(critics * tiles, one)
            ring.close()

        roles(multiply, fetch)

    return launch(
        kernel,
        "critics_backward",
        (kept, q_gradient, hidden, last),
        [jax.ShapeDtypeStruct((critics, count, width), HALF)],
        {
            "buffers": array(2, TILE, width),
            "full": gpu.Barrier(num_barriers=2 * WARPGROUPS),
            "q": array(TILE, dtype=jnp.float32),
            "q_full": gpu.Barrier(num_barriers=WARPGROUPS),
            "weights": Ring.of(min(size, 4), jax.ShapeDtypeStruct((CHUNK, width), HALF)),
        },
        how=how,
    )


def weight_gradients(
    kept: jax.Array, q_gradient: jax.Array, hidden: jax.Array, last: jax.Array, x: jax.Array, **how: Any
) -> list[jax.Array]:
    """dL/d(kernel) of the layers, last to first, each [critic, part, output, input]; dL/d(bias) of all but the first.

    Takes what `backward` takes and the rows that went in, as `forward` has them. Parts are to be added up: rows are
    shared out among as many of them as fill the multiprocessors. Of the first kernel, it is the gradient of the first
    chunk of columns. Where inputs are more than a chunk, so that columns are more than three, the first layer's
    gradient [critic, row, width] comes in its place.
    """
    layers, few = kept.shape[1] - 1, x.shape[2] <= 3 * TILE
    above, kernels, biases = kept, [], []
    for layer in range(layers, 0, -1):
        top, bottom = layer == layers, layer == 1 and few
        weights = last[:, None] if top else hidden
        of_kernel, of_bias, above = _of_layer(
            (above, layers if top else 0),
            (kept, layer - 1),
            (weights, 0 if top else layer - 1),
            q=q_gradient if top else None,
            x=x if bottom else None,
            how=how,
        )
        kernels.append(of_kernel)
        biases.append(of_bias)
    return [*kernels, above if bottom else above[:, 0], *biases]


def _of_layer(
    above: tuple[jax.Array, int],
    below: tuple[jax.Array, int],
    weights: tuple[jax.Array, int],
    *,
    q: jax.Array | None,
    x: jax.Array | None,
    how: dict[str, Any],
) -> list[jax.Array]:
    """One layer: dL/d(its kernel), dL/d(its bias) and dL/d(before the ReLU) of the layer below, or with x its kernel's.

    Arrays come with the index of the layer in them. `above` are gradients of the layer or, with q, what dL/dQ is
    masked with. Of a chunk of rows, each of two programs does one half of the units and one half of what is below;
    the weights for that stay.
    """
    critics, _, count, width = below[0].shape
    halves, chunks = width // TILE, count // CHUNK
    tasks = critics * halves
    parts = parts_of(tasks, chunks, count_of_programs(how))
    given = [operand for operand in (q, x) if operand is not None]
    least = CHUNK if how.get("interpret") else LEAST

    def kernel(*refs: Any, staged: Any, masked: list[Any], turned: list[Any], **rings: list[Any]) -> None:
        above_ref, below_ref, weights_ref, ones_ref, *rest = refs
        more, (products_ref, sums_ref, last_ref) = rest[: len(given)], rest[len(given) :]
        row_ring, weight_ring, one_ring = Ring(rings["rows"]), Ring(rings["weights"]), Ring(rings["ones"])

        def task(at: Any) -> tuple[Any, ...]:
            """Critic, half, part, and the first and last chunk of that."""
            half, at = lax.rem(at, halves), at // halves
            critic, part = lax.rem(at, critics), at // critics
            return critic, half, part, part * chunks // parts, (part + 1) * chunks // parts

        def multiply(group: Any) -> None:
            mine = pl.ds(group * ROWS, ROWS)
            own_turned, own_staged = [ref.at[group] for ref in turned], staged.at[group]
            for ring in (row_ring, weight_ring, one_ring):
                ring.open()
            (ones,) = one_ring.wait(0)

            def one(turn: Any, at: Any, done: Any) -> Any:
                critic, half, part, begin, end = task(at)
                units = pl.ds(half * TILE + group * ROWS, ROWS)
                (kernel,) = weight_ring.wait(turn)

                def over_rows(product: Any, total: Any, *first: Any) -> None:
                    @pl.loop(0, end - begin)
                    def _(chunk: Any) -> None:
                        of_units, of_below, *others = row_ring.wait(done + chunk)

                        def through(accumulator: Any) -> jax.Array:
                            gpu.wgmma(accumulator, of_units, kernel.at[:, mine])
                            return accumulator[...]

                        block = of_units.at[:, units]
                        for ref in masked:
                            ref[group] = jnp.where(block[...] > 0, along_columns(others[0][...]), 0.0).astype(HALF)
                            gpu.commit_smem()
                            block = ref.at[group]
                        gradient = pl.run_scoped(through, gpu.ACC((ROWS, ROWS), jnp.float32))
                        left = transposed(block, own_turned)
                        gpu.wgmma(product, left, of_below)
                        gpu.wgmma(total, left, ones if turned else transposed(ones, []))
                        gpu.wait_smem_to_gmem(0, wait_read_only=True)
                        if q is not None:
                            gradient = gradient * along_columns(others[0][...])
                        own_staged[...] = jnp.where(of_below[:, units] > 0, gradient, 0.0).astype(HALF)
                        gpu.commit_smem()
                        if x is None:
                            rows = pl.ds((begin + chunk) * CHUNK, CHUNK)
                            gpu.copy_smem_to_gmem(own_staged, last_ref.at[critic, 0, rows, units])
                        for accumulator in first:
                            gpu.wgmma(accumulator, transposed(own_staged, own_turned), others[-1])
                        gpu.wgmma_wait(0)
                        row_ring.release(done + chunk)

                    products_ref[critic, part, units] = product[...]
                    sums_ref[critic, part, units] = total[...]
                    for accumulator in first:
                        last_ref[critic, part, units] = accumulator[...]

                sizes = [width, least, *([CHUNK] if x is not None else [])]
                pl.run_scoped(over_rows, *(gpu.ACC((ROWS, size), jnp.float32) for size in sizes))
                weight_ring.release(turn)
                return done + end - begin

            in_turn(tasks * parts, one, jnp.int32(0))
            one_ring.release(0)
            gpu.wait_smem_to_gmem(0)

        def fetch() -> None:
            one_ring.fetch(0, ones_ref)

            def one(turn: Any, at: Any, done: Any) -> Any:
                critic, half, *_, begin, end = task(at)
                weight_ring.fetch(turn, weights_ref.at[critic, weights[1], :, pl.ds(half * TILE, TILE)])

                @pl.loop(0, end - begin)
                def chunks_of_task(chunk: Any) -> None:
                    rows = pl.ds((begin + chunk) * CHUNK, CHUNK)
                    tile, part = (begin + chunk) // (TILE // CHUNK), lax.rem(begin + chunk, TILE // CHUNK)
                    others = [ref.at[critic, rows] for ref in more[: q is not None]]
                    if x is not None:
                        own_x = more[-1].at[lax.div(critic, critics // x.shape[0]), tile]
                        others.append(own_x.at[pl.ds(part * CHUNK, CHUNK)])
                    layers = above_ref.at[critic, above[1], rows], below_ref.at[critic, below[1], rows]
                    row_ring.fetch(done + chunk, *layers, *others)

                return done + end - begin

            in_turn(tasks * parts, one, jnp.int32(0))
            for ring in (row_ring, weight_ring, one_ring):
                ring.close()

        roles(multiply, fetch)

    row = jax.ShapeDtypeStruct((CHUNK, width), HALF)
    others = [((CHUNK,), q), ((CHUNK, CHUNK), x)]
    slot = [row, row, *(jax.ShapeDtypeStruct(size, part.dtype) for size, part in others if part is not None)]
    ones = jnp.ones((least, CHUNK), HALF)
    of_below = (critics, 1, count, width) if x is None else (critics, parts, width, CHUNK)
    results = launch(
        kernel,
        "critics_weights",
        (above[0], below[0], weights[0], ones, *given),
        [
            jax.ShapeDtypeStruct((critics, parts, width, width), jnp.float32),
            jax.ShapeDtypeStruct((critics, parts, width, least), jnp.float32),
            jax.ShapeDtypeStruct(of_below, HALF if x is None else jnp.float32),
        ],
        {
            "staged": array(WARPGROUPS, ROWS, ROWS),
            "masked": [] if q is None else [array(WARPGROUPS, ROWS, ROWS)],
            "turned": for_interpreter(how, WARPGROUPS, ROWS, CHUNK),
            "rows": Ring.of(2, *slot),
            "weights": Ring.of(1, jax.ShapeDtypeStruct((width, TILE), HALF)),
            "ones": Ring.of(1, ones),
        },
        how=how,
    )
    return [results[0], results[1][..., 0], results[2]]


def parts_of(tasks: int, chunks: int, programs: int) -> int:
    """Into how many parts rows are best split: each takes a share of the time, and costs as much as a chunk or two."""
    return min(range(1, chunks + 1), key=lambda n: math.ceil(tasks * n / programs) * (math.ceil(chunks / n) + 2))
