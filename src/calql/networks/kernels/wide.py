"""Layers of 512 units as kernels for Hopper GPUs: forwards, backwards, gradients of the weights.

As in hopper.py, two warpgroups multiply and one fetches. At 512 units a warpgroup's sums of one layer are more than its
registers, so it does a layer in halves: it keeps the first as bfloat16 until the second is done, and then both take the
place of what went in. Weights come in pieces of half the size, for rows take most of the memory.

Backwards one kernel goes through all layers and writes the gradient of each, and another sums those of the weights: a
tile of sums is 128 by 256 of them. Which units are above zero goes from forwards to backwards as one bit each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from calql.networks.kernels.hopper import LEAST, parts_of
from calql.networks.kernels.warpgroups import (
    CHUNK,
    HALF,
    MEMORY,
    ROWS,
    TILE,
    WARPGROUPS,
    Ring,
    along_columns,
    along_rows,
    array,
    count_of_programs,
    for_interpreter,
    gpu,
    in_turn,
    launch,
    roles,
    transposed,
)

COLUMNS = 256  # that a warpgroup sums at once: half of its registers
REGISTERS = 240, 24  # of a thread that multiplies, and of one that fetches
BITS = jnp.int16  # numbers with a bit for each block of units
STEP = 32  # of the inner axis of a product, fetched at once


def forward(
    x: jax.Array, first: jax.Array, hidden: jax.Array, biases: jax.Array, output: jax.Array, *, keep: bool, **how: Any
) -> list[jax.Array]:
    """Q [critic, row] of x [seed, row, input] and, to keep, layers and signs.

    Layers are those before the last, after their ReLU [critic, layer, row, width]; signs [critic, layer, row, number]
    are of all, as `signs_of` packs them. Weights are those of hopper.forward.
    """
    (seeds, count, inputs), (critics, layers, width, _) = x.shape, hidden.shape
    tiles, members, halves = count // TILE, critics // seeds, width // COLUMNS
    of_first, of_hidden = inputs // STEP, width // STEP
    chunks = halves * (of_first + layers * of_hidden)
    biases = jnp.pad(biases, ((0, 0), (1, 0), (0, 0))).reshape(critics, -1, halves, COLUMNS)
    output = output.reshape(critics, halves, COLUMNS)

    def kernel(*refs: Any, rows: Any, signs: Any, x_full: Any, q: Any, turned: list[Any], **rings: list[Any]) -> None:
        x_ref, first_ref, hidden_ref, biases_ref, output_ref, q_ref, *kept = refs
        vectors, weights = Ring(rings["vectors"]), Ring(rings["weights"])

        def multiply(group: Any) -> None:
            own_rows, own_q = rows.at[group], q.at[pl.ds(group * ROWS, ROWS)]
            weights.open()
            vectors.open()

            def fetch_x(seed: Any, own: Any) -> None:
                gpu.wait_smem_to_gmem(0, wait_read_only=True)
                for block in range(inputs // CHUNK):
                    source = x_ref.at[seed, own, pl.ds(block * CHUNK, CHUNK)]
                    gpu.copy_gmem_to_smem(source, own_rows.at[block], x_full.at[group])

            def next_layer(turn: Any, number: Any, biases: Any) -> None:
                """Replace the rows by the layer after them."""
                done = []
                for half in range(halves):
                    own_turned = [ref.at[group] for ref in turned]
                    above = product_of(weights, turn + half * number, number, own_rows, own_turned)
                    for columns in blocks(COLUMNS):
                        biased = above[:, columns] + along_rows(biases[half, pl.ds(columns.start, CHUNK)])
                        done.append(apart(jnp.maximum(biased, 0.0).astype(HALF)))
                put(own_rows, done)

            def one(turn: Any, at: Any) -> None:
                critic, own = at // tiles, pl.ds(lax.rem(at, tiles) * TILE + group * ROWS, ROWS)
                fetch_x(critic // members, own)
                biases, output = vectors.wait(turn)
                gpu.barrier_wait(x_full.at[group])

                @pl.loop(0, layers + 1)
                def _(layer: Any) -> None:
                    number = jnp.where(layer == 0, of_first, of_hidden)
                    before = jnp.where(layer == 0, 0, of_first + (layer - 1) * of_hidden)
                    next_layer(turn * chunks + halves * before, number, biases.at[layer])
                    if keep:
                        pl.when(layer < layers)(lambda: store(own_rows, kept[0].at[critic, layer, own]))
                        signs[group] = signs_of(own_rows)
                        gpu.commit_smem()
                        gpu.copy_smem_to_gmem(signs.at[group], kept[1].at[critic, layer, own])

                own_q[...] = product_with(own_rows, output)
                vectors.release(turn)
                gpu.commit_smem()
                gpu.copy_smem_to_gmem(own_q, q_ref.at[critic, own])

            in_turn(critics * tiles, one)
            gpu.wait_smem_to_gmem(0)

        def fetch() -> None:
            def one(turn: Any, at: Any) -> None:
                critic = at // tiles
                vectors.fetch(turn, biases_ref.at[critic], output_ref.at[critic])

                @pl.loop(0, halves * of_first)
                def of_first_layer(chunk: Any) -> None:
                    outputs, inner = piece(chunk, of_first)
                    weights.fetch(turn * chunks + chunk, first_ref.at[critic, outputs, inner])

                @pl.loop(0, layers * halves * of_hidden)
                def of_others(chunk: Any) -> None:
                    outputs, inner = piece(chunk, of_hidden)
                    layer = chunk // (halves * of_hidden)
                    turn_of_chunk = turn * chunks + halves * of_first + chunk
                    weights.fetch(turn_of_chunk, hidden_ref.at[critic, layer, outputs, inner])

            in_turn(critics * tiles, one)
            for ring in (weights, vectors):
                ring.close()

        roles(multiply, fetch, REGISTERS)

    signs = jax.ShapeDtypeStruct((critics, layers + 1, count, CHUNK), BITS)
    kept = [jax.ShapeDtypeStruct((critics, layers, count, width), HALF), signs] if keep else []
    return launch(
        kernel,
        "wide_critics_forward",
        (x, first, hidden, biases, output),
        [jax.ShapeDtypeStruct((critics, count), jnp.float32), *kept],
        {
            "rows": array(WARPGROUPS, width // CHUNK, ROWS, CHUNK, step=STEP),
            "signs": array(WARPGROUPS, ROWS, CHUNK, dtype=BITS, step=STEP),
            "x_full": gpu.Barrier(num_arrivals=inputs // CHUNK, num_barriers=WARPGROUPS),
            "q": array(TILE, dtype=jnp.float32),
            "turned": for_interpreter(how, WARPGROUPS, STEP, COLUMNS),
            "weights": ring_of_weights(width, (COLUMNS, STEP), 4 * (layers + 2) * width),
            "vectors": Ring.of(1, jax.ShapeDtypeStruct(biases.shape[1:], jnp.float32), output[0]),
        },
        how=how,
    )


def backward(
    signs: jax.Array, q_gradient: jax.Array, hidden: jax.Array, last: jax.Array, **how: Any
) -> list[jax.Array]:
    """From dL/dQ [critic, row] to that of all layers before their ReLU [critic, layer, row, width].

    Weights are those of hopper.backward. As there, the last layer's gradient leaves out the output's weights.
    """
    (critics, depth, count, _), width = signs.shape, hidden.shape[-1]
    layers, tiles, halves, of_layer = depth - 1, count // TILE, width // COLUMNS, width // STEP
    chunks, programs = layers * halves * of_layer, count_of_programs(how)

    def kernel(*refs: Any, rows: Any, signs: Any, signs_full: Any, q: Any, q_full: Any, weights: list[Any]) -> None:
        signs_ref, q_ref, hidden_ref, last_ref, gradients_ref = refs
        ring = Ring(weights)

        def multiply(group: Any) -> None:
            own_rows, own_signs, own_q = rows.at[group], signs.at[group], q.at[pl.ds(group * ROWS, ROWS)]
            ring.open()

            def own(at: Any) -> Any:
                return pl.ds(lax.rem(at, tiles) * TILE + group * ROWS, ROWS)

            def fetch_signs(at: Any, layer: Any) -> None:
                gpu.copy_gmem_to_smem(signs_ref.at[at // tiles, layer, own(at)], own_signs, signs_full.at[group])

            def begin(at: Any) -> None:
                @pl.when(at < critics * tiles)
                def _() -> None:
                    fetch_signs(at, layers)
                    gpu.copy_gmem_to_smem(q_ref.at[at // tiles, own(at)], own_q, q_full.at[group])

            begin(lax.axis_index("program"))

            def one(turn: Any, at: Any) -> None:
                def finish(layer: Any, done: list[jax.Array]) -> None:
                    put(own_rows, done)
                    store(own_rows, gradients_ref.at[at // tiles, layer, own(at)])
                    pl.when(layer > 0)(lambda: fetch_signs(at, layer - 1))
                    pl.when(layer == 0)(lambda: begin(at + programs))

                gpu.barrier_wait(signs_full.at[group])
                gpu.barrier_wait(q_full.at[group])
                of_q = along_columns(own_q[...])
                top = [masked(is_on(own_signs[...], block), of_q) for block in range(width // CHUNK)]
                finish(jnp.int32(layers), top)

                @pl.loop(0, layers)
                def _(step: Any) -> None:
                    done: list[jax.Array] = []
                    for half in range(halves):
                        start = turn * chunks + (step * halves + half) * of_layer
                        product = product_of(ring, start, of_layer, own_rows)
                        if half == 0:
                            gpu.barrier_wait(signs_full.at[group])
                        bits = own_signs[...]
                        for columns in blocks(COLUMNS):
                            done.append(apart(masked(is_on(bits, len(done)), product[:, columns])))
                    finish(layers - 1 - step, done)

            in_turn(critics * tiles, one)
            gpu.wait_smem_to_gmem(0)

        def fetch() -> None:
            def one(turn: Any, at: Any) -> None:
                critic = at // tiles

                def pieces(begin: Any, end: int, source: Callable[[Any], Any]) -> None:
                    @pl.loop(begin, end)
                    def _(chunk: Any) -> None:
                        columns, inner = piece(chunk, of_layer)
                        ring.fetch(turn * chunks + chunk, source(chunk).at[inner, columns])

                of_last = halves * of_layer
                pieces(0, of_last, lambda _: last_ref.at[critic])
                pieces(of_last, chunks, lambda chunk: hidden_ref.at[critic, layers - 1 - chunk // of_last])

            in_turn(critics * tiles, one)
            ring.close()

        roles(multiply, fetch, REGISTERS)

    return launch(
        kernel,
        "wide_critics_backward",
        (signs, q_gradient, hidden, last),
        [jax.ShapeDtypeStruct((critics, depth, count, width), HALF)],
        {
            "rows": array(WARPGROUPS, width // CHUNK, ROWS, CHUNK, step=STEP),
            "signs": array(WARPGROUPS, ROWS, CHUNK, dtype=BITS, step=STEP),
            "signs_full": gpu.Barrier(num_barriers=WARPGROUPS),
            "q": array(TILE, dtype=jnp.float32),
            "q_full": gpu.Barrier(num_barriers=WARPGROUPS),
            "weights": ring_of_weights(width, (STEP, COLUMNS)),
        },
        how=how,
    )


def weight_gradients(gradients: jax.Array, below: jax.Array, *, first: int, **how: Any) -> list[jax.Array]:
    """dL/d(kernel) [critic, layer, part, output, input] and dL/d(bias) [critic, layer, part, output] of some layers.

    Takes the gradients [critic, layer, row, width] of all layers, the first that is meant, and what these layers got
    [critic or seed, layer, row, input]. Parts are to be added up, as in hopper.weight_gradients. Programs that run at
    the same time do tiles of the same rows.
    """
    (critics, _, count, width), (others, layers, _, inputs) = gradients.shape, below.shape
    columns = min(COLUMNS, inputs)
    across, tiles, chunks = inputs // columns, width // TILE * (inputs // columns), count // CHUNK
    parts = parts_of(critics * layers * tiles, chunks, count_of_programs(how))
    least = CHUNK if how.get("interpret") else LEAST

    def kernel(*refs: Any, turned: list[Any], **rings: list[Any]) -> None:
        above_ref, below_ref, ones_ref, products_ref, sums_ref = refs
        row_ring, one_ring = Ring(rings["rows"]), Ring(rings["ones"])

        def task(at: Any) -> tuple[Any, ...]:
            """Critic, layer, units, inputs, part, and the first and last chunk of that."""
            tile, at = lax.rem(at, tiles), at // tiles
            layer, at = lax.rem(at, layers), at // layers
            critic, part = lax.rem(at, critics), at // critics
            place = tile // across * TILE, lax.rem(tile, across) * columns
            return critic, layer, *place, part, part * chunks // parts, (part + 1) * chunks // parts

        def multiply(group: Any) -> None:
            own_turned = [ref.at[group] for ref in turned]
            row_ring.open()
            one_ring.open()
            (ones,) = one_ring.wait(0)

            def one(turn: Any, at: Any, done: Any) -> Any:
                critic, layer, unit, column, part, begin, end = task(at)

                def over_rows(product: Any, total: Any) -> None:
                    @pl.loop(0, end - begin)
                    def _(chunk: Any) -> None:
                        of_units, of_below = row_ring.wait(done + chunk)
                        left = transposed(of_units.at[:, pl.ds(group * ROWS, ROWS)], own_turned)
                        gpu.wgmma(product, left, of_below)
                        gpu.wgmma(total, left, ones if turned else transposed(ones, []))
                        gpu.wgmma_wait(0)
                        row_ring.release(done + chunk)

                    units = pl.ds(unit + group * ROWS, ROWS)
                    products_ref[critic, layer, part, units, pl.ds(column, columns)] = product[...]
                    sums_ref[critic, layer, part, units] = total[...]

                pl.run_scoped(over_rows, *(gpu.ACC((ROWS, size), jnp.float32) for size in (columns, least)))
                return done + end - begin

            in_turn(critics * layers * tiles * parts, one, jnp.int32(0))
            one_ring.release(0)

        def fetch() -> None:
            one_ring.fetch(0, ones_ref)

            def one(turn: Any, at: Any, done: Any) -> Any:
                critic, layer, unit, column, _, begin, end = task(at)

                @pl.loop(0, end - begin)
                def chunks_of_task(chunk: Any) -> None:
                    rows = pl.ds((begin + chunk) * CHUNK, CHUNK)
                    of_units = above_ref.at[critic, first + layer, rows, pl.ds(unit, TILE)]
                    member = lax.div(critic, critics // others)
                    of_below = below_ref.at[member, layer, rows, pl.ds(column, columns)]
                    row_ring.fetch(done + chunk, of_units, of_below)

                return done + end - begin

            in_turn(critics * layers * tiles * parts, one, jnp.int32(0))
            row_ring.close()
            one_ring.close()

        roles(multiply, fetch, REGISTERS)

    slot = [jax.ShapeDtypeStruct((CHUNK, size), HALF) for size in (TILE, columns)]
    ones = jnp.ones((least, CHUNK), HALF)
    of_kernels, of_biases = launch(
        kernel,
        "wide_critics_weights",
        (gradients, below, ones),
        [jax.ShapeDtypeStruct((critics, layers, parts, width, size), jnp.float32) for size in (inputs, least)],
        {
            "turned": for_interpreter(how, WARPGROUPS, ROWS, CHUNK),
            "rows": Ring.of(4, *slot),
            "ones": Ring.of(1, ones),
        },
        how=how,
    )
    return [of_kernels, of_biases[..., 0]]


# -- rows of a warpgroup [block, row, column] -------------------------------------------------------------


def blocks(width: int) -> list[slice]:
    return [slice(begin, begin + CHUNK) for begin in range(0, width, CHUNK)]


def piece(chunk: Any, number: int) -> tuple[Any, Any]:
    """Outer and inner part of a layer's weights, of which each half of the layer takes as many."""
    half = lax.rem(chunk // number, 2)
    return pl.ds(half * COLUMNS, COLUMNS), pl.ds(lax.rem(chunk, number) * STEP, STEP)


def product_of(ring: Ring, turn: Any, number: Any, rows: Any, turned: list[Any] | None = None) -> jax.Array:
    """Rows times as many steps of weights [step, COLUMNS] that the ring holds from this turn on.

    With `turned`, weights are [COLUMNS, step]. A loop, and not a row of all steps: their addresses would be
    computed ahead, which takes more registers than there are.
    """
    of_block = CHUNK // STEP

    def over_blocks(accumulator: Any) -> jax.Array:
        @pl.loop(0, number // of_block)
        def _(block: Any) -> None:
            begin = turn + block * of_block
            for step in range(of_block):
                (right,) = ring.wait(begin + step)
                if turned is not None:
                    right = transposed(right, turned)
                gpu.wgmma(accumulator, rows.at[block, :, pl.ds(step * STEP, STEP)], right)
                if step:
                    gpu.wgmma_wait(1)
                    ring.release(begin + step - 1)
            gpu.wgmma_wait(0)
            ring.release(begin + of_block - 1)

        product: jax.Array = accumulator[...]
        return product

    product: jax.Array = pl.run_scoped(over_blocks, gpu.ACC((ROWS, COLUMNS), jnp.float32))
    return product


def apart(values: jax.Array) -> jax.Array:
    """The same, made at this point: what waits as float32 takes twice the registers."""
    found: jax.Array = lax.optimization_barrier(values)
    return found


def put(rows: Any, values: list[jax.Array]) -> None:
    """Into the blocks, once nothing is copied from there any more."""
    gpu.wait_smem_to_gmem(0, wait_read_only=True)
    for block, value in enumerate(values):
        rows[block] = value
    gpu.commit_smem()


def store(rows: Any, to: Any) -> None:
    @pl.loop(0, rows.shape[0])
    def _(block: Any) -> None:
        gpu.copy_smem_to_gmem(rows.at[block], to.at[:, pl.ds(block * CHUNK, CHUNK)])


def product_with(rows: Any, vector: Any) -> jax.Array:
    """[row], with a vector [half, column]."""
    total = jnp.zeros((ROWS, CHUNK), jnp.float32)
    for block in range(rows.shape[0]):
        half, column = divmod(block * CHUNK, COLUMNS)
        total = total + rows[block].astype(jnp.float32) * along_rows(vector[half, pl.ds(column, CHUNK)])
    return jnp.sum(total, axis=1)


def ring_of_weights(width: int, piece: tuple[int, int], others: int = 0) -> list[Any]:
    """As many pieces as rows, their signs, Q and others leave memory for, and no more than four."""
    left = MEMORY - TILE * (2 * width + 2 * CHUNK + 4) - others
    return Ring.of(min(left // (2 * COLUMNS * STEP), 4), jax.ShapeDtypeStruct(piece, HALF), step=STEP)


# -- which units are above zero, one bit for each block ---------------------------------------------------


def signs_of(rows: Any) -> jax.Array:
    """Numbers [row, column] with a bit for each block."""
    total = jnp.zeros((ROWS, CHUNK), BITS)
    for block in range(rows.shape[0]):
        total = total | jnp.where(rows[block] > 0, jnp.asarray(1 << block, BITS), jnp.asarray(0, BITS))
    return total


def is_on(signs: jax.Array, block: int) -> jax.Array:
    """Which of a block's units are above zero."""
    return (signs & jnp.asarray(1 << block, BITS)) != 0


def masked(on: jax.Array, values: jax.Array) -> jax.Array:
    return jnp.where(on, values, 0.0).astype(HALF)
