"""The critics' layers as three kernels for Hopper GPUs (H100, H200): forwards, backwards, gradients of the weights.

A program runs on each multiprocessor and takes one tile of rows after the other. Two of its warpgroups multiply, 64
rows each, which stay in shared memory from the first layer to the last; the third does nothing but fetch what they
multiply with, a few chunks ahead. Two neighbouring programs fetch that together, each one half for both. Arrays have a
leading axis of critics, those of all seeds together; operands are in bfloat16 and sums in float32. Rows come in whole
tiles for two programs, inputs in whole chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as gpu

HALF = jnp.bfloat16
ROWS = 64  # of a warpgroup: those of one instruction of the tensor cores
WARPGROUPS = 2  # that multiply
TILE = WARPGROUPS * ROWS
TOGETHER = 2  # programs that fetch together
CHUNK = 64  # of the inner axis of a product, fetched at once
PAIRS = 66  # of multiprocessors, on an H100 or H200
MEMORY = 222 * 1024  # bytes of shared memory for a program's arrays; barriers and reductions take the rest
TILED = (gpu.TilingTransform((8, CHUNK)), gpu.SwizzleTransform(128))


class Ring:
    """Slots of shared memory, fetched by one warpgroup and used by the others, in turn."""

    def __init__(self, parts: list[Any], shared: tuple[bool, ...] = (False,)) -> None:
        """`shared`: which of a slot's arrays are the same for the programs that fetch together."""
        *self.slots, self._full, self._free = parts
        self._size, self._shared = self.slots[0].shape[0], shared

    @staticmethod
    def of(size: int, *arrays: Any, together: int = 1) -> list[Any]:
        """What to allocate for slots that hold these arrays; `together`: programs, where some of them are shared."""
        slots = [_array(size, *array.shape, dtype=array.dtype) for array in arrays]
        counts = {"num_arrivals": WARPGROUPS, "num_barriers": size}
        free = gpu.ClusterBarrier(collective_axes=("pair",), **counts) if together > 1 else gpu.Barrier(**counts)
        return [*slots, gpu.Barrier(num_arrivals=len(arrays), num_barriers=size), free]

    def slot(self, turn: Any) -> Any:
        return lax.rem(turn, self._size) if self._size > 1 else 0

    def open(self) -> None:
        """By those who use it, once, before the first fetch."""
        for slot in range(self._size):
            gpu.barrier_arrive(self._free.at[slot])

    def fetch(self, turn: Any, *sources: Any) -> None:
        slot = self.slot(turn)
        gpu.barrier_wait(self._free.at[slot])
        for source, slots, shared in zip(sources, self.slots, self._shared, strict=True):
            axes = "pair" if shared else None
            gpu.copy_gmem_to_smem(source, slots.at[slot], self._full.at[slot], collective_axes=axes)

    def close(self) -> None:
        """By the one who fetches, after the last."""
        for slot in range(self._size):
            gpu.barrier_wait(self._free.at[slot])

    def wait(self, turn: Any) -> list[Any]:
        """The arrays of a slot, once they are there."""
        slot = self.slot(turn)
        gpu.barrier_wait(self._full.at[slot])
        return [slots.at[slot] for slots in self.slots]

    def release(self, turn: Any) -> None:
        gpu.barrier_arrive(self._free.at[self.slot(turn)])


def forward(
    x: jax.Array, first: jax.Array, hidden: jax.Array, biases: jax.Array, output: jax.Array, *, keep: bool, **how: Any
) -> list[jax.Array]:
    """Q [critic, row] of x [seed, row, input] and, to keep, all layers after their ReLU [critic, layer, row, width].

    Weights are [critic, output, input], those of hidden layers [critic, layer, output, input]; a bias of the first
    layer is the weight of an input that is always one.
    """
    (seeds, count, inputs), (critics, layers, width, _) = x.shape, hidden.shape
    together = _together(how)
    tiles, members, of_first, of_hidden = count // TILE // together, critics // seeds, inputs // CHUNK, width // CHUNK
    chunks = of_first + layers * of_hidden
    rest = 2 * TILE * (inputs + width + 2) + 4 * (layers + 1) * width
    size = (MEMORY - rest) // (2 * CHUNK * width)

    def kernel(*refs: Any, rows: Any, q: Any, turned: list[Any], **rings: list[Any]) -> None:
        x_ref, first_ref, hidden_ref, biases_ref, output_ref, q_ref, *kept = refs
        tile_of_x, vectors = Ring(rings["x"]), Ring(rings["vectors"], (False, False))
        weights = Ring(rings["weights"], (together > 1,))

        def begin(at: Any) -> Any:
            return (lax.rem(at, tiles) * together + _place(together)) * TILE

        def multiply(group: Any) -> None:
            mine = pl.ds(group * ROWS, ROWS)
            for ring in (tile_of_x, weights, vectors):
                ring.open()

            def product(turn: Any, number: int, left: Any) -> jax.Array:
                return _product(weights, turn, number, left, width, [ref.at[group] for ref in turned])

            def one(turn: Any, at: Any) -> None:
                critic, own = at // tiles, pl.ds(begin(at) + group * ROWS, ROWS)

                def put(layer: Any, above: jax.Array) -> None:
                    gpu.wait_smem_to_gmem(0, wait_read_only=True)
                    rows[mine] = jnp.maximum(above, 0.0).astype(HALF)
                    gpu.commit_smem()
                    for ref in kept:
                        gpu.copy_smem_to_gmem(rows.at[mine], ref.at[critic, layer, own])

                (x_rows,) = tile_of_x.wait(turn)
                above = product(turn * chunks, of_first, x_rows.at[mine])
                tile_of_x.release(turn)
                put(0, above)
                biases, output = vectors.wait(turn)

                @pl.loop(0, layers)
                def _(layer: Any) -> None:
                    above = product(turn * chunks + of_first + layer * of_hidden, of_hidden, rows.at[mine])
                    put(layer + 1, above + _along_rows(biases[layer]))

                total = jnp.sum(rows[mine].astype(jnp.float32) * _along_rows(output[...]), axis=1)
                vectors.release(turn)
                q[mine] = total
                gpu.commit_smem()
                gpu.copy_smem_to_gmem(q.at[mine], q_ref.at[critic, own])

            _in_turn(critics * tiles, one)
            gpu.wait_smem_to_gmem(0)

        def fetch() -> None:
            def one(turn: Any, at: Any) -> None:
                critic = at // tiles
                tile_of_x.fetch(turn, x_ref.at[critic // members, pl.ds(begin(at), TILE)])
                for part in range(of_first):
                    weights.fetch(turn * chunks + part, first_ref.at[critic, :, pl.ds(part * CHUNK, CHUNK)])
                vectors.fetch(turn, biases_ref.at[critic], output_ref.at[critic])

                @pl.loop(0, layers * of_hidden)
                def _(chunk: Any) -> None:
                    part = pl.ds(lax.rem(chunk, of_hidden) * CHUNK, CHUNK)
                    weights.fetch(turn * chunks + of_first + chunk, hidden_ref.at[critic, chunk // of_hidden, :, part])

            _in_turn(critics * tiles, one)
            for ring in (tile_of_x, weights, vectors):
                ring.close()

        _roles(multiply, fetch)

    kept = [jax.ShapeDtypeStruct((critics, layers + 1, count, width), HALF)] if keep else []
    return _launch(
        kernel,
        "critics_forward",
        (x, first, hidden, biases, output),
        [jax.ShapeDtypeStruct((critics, count), jnp.float32), *kept],
        {
            "rows": _array(TILE, width),
            "q": _array(TILE, dtype=jnp.float32),
            "turned": _for_interpreter(how, WARPGROUPS, CHUNK, width),
            "x": Ring.of(1, jax.ShapeDtypeStruct((TILE, inputs), HALF)),
            "weights": Ring.of(min(size, 4), jax.ShapeDtypeStruct((width, CHUNK), HALF), together=together),
            "vectors": Ring.of(1, jax.ShapeDtypeStruct(biases.shape[1:], jnp.float32), output[0]),
        },
        together=together,
        how=how,
    )


def backward(kept: jax.Array, q_gradient: jax.Array, hidden: jax.Array, last: jax.Array, **how: Any) -> list[jax.Array]:
    """From dL/dQ [critic, row] and what `forward` kept to dL/d(before the ReLU) of all layers, shaped as that.

    Weights of hidden layers are [critic, layer, output, input]; `last` [critic, output, input] are those of the last
    of them times the output's. The last layer's gradient leaves the output's out.

    A warpgroup has two buffers: one with the gradient that it multiplies with, one with the activations that mask the
    product, which then takes their place.
    """
    critics, depth, count, width = kept.shape
    together = _together(how)
    layers, tiles, of_layer, programs = depth - 1, count // TILE // together, width // CHUNK, _programs(how, together)
    size = (MEMORY - 4 * TILE * width - 4 * TILE) // (2 * CHUNK * width)

    def kernel(*refs: Any, buffers: Any, full: Any, q: Any, q_full: Any, weights: list[Any]) -> None:
        kept_ref, q_ref, hidden_ref, last_ref, gradients_ref = refs
        ring = Ring(weights, (together > 1,))

        def multiply(group: Any) -> None:
            mine = pl.ds(group * ROWS, ROWS)
            ring.open()

            def own(at: Any) -> Any:
                return pl.ds((lax.rem(at, tiles) * together + _place(together)) * TILE + group * ROWS, ROWS)

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
                    gpu.copy_smem_to_gmem(buffers.at[buffer, mine], gradients_ref.at[at // tiles, layers - step, own(at)])

                gpu.barrier_wait(q_full.at[group])
                put(0, lax.rem(turn * depth, 2), lax.broadcast_in_dim(q[mine], (ROWS, width), (0,)))
                later = at + programs
                pl.when(later < critics * tiles)(lambda: fetch_q(later))

                @pl.loop(0, layers)
                def _(layer: Any) -> None:
                    buffer = lax.rem(turn * depth + layer + 1, 2)
                    left = buffers.at[1 - buffer, mine]
                    put(layer + 1, buffer, _product(ring, (turn * layers + layer) * of_layer, of_layer, left, width))

            _in_turn(critics * tiles, one)
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

            _in_turn(critics * tiles, one)
            ring.close()

        _roles(multiply, fetch)

    return _launch(
        kernel,
        "critics_backward",
        (kept, q_gradient, hidden, last),
        [jax.ShapeDtypeStruct(kept.shape, HALF)],
        {
            "buffers": _array(2, TILE, width),
            "full": gpu.Barrier(num_barriers=2 * WARPGROUPS),
            "q": _array(TILE, dtype=jnp.float32),
            "q_full": gpu.Barrier(num_barriers=WARPGROUPS),
            "weights": Ring.of(min(size, 4), jax.ShapeDtypeStruct((CHUNK, width), HALF), together=together),
        },
        together=together,
        how=how,
    )


def weight_gradients(gradients: jax.Array, inputs: jax.Array, layers: range, *, sums: bool, **how: Any) -> list[jax.Array]:
    """Products [critic, layer, width, input] of the gradients of these layers and what went into them.

    Gradients are [critic, layer, row, width] as `backward` gives them, inputs [seed, layer, row, input] from the first
    of these layers on. With sums, also those of the gradients over rows [critic, layer, width]. A program takes half of
    a layer's units and some of the rows: as many parts of them as fill the multiprocessors, added up in a fixed order.
    """
    (critics, _, count, width), (seeds, *_, size) = gradients.shape, inputs.shape
    depth, members, halves, chunks = len(layers), critics // seeds, width // TILE, count // CHUNK
    together = min(_together(how), halves)
    tasks, own = critics * depth * halves // together, halves // together
    parts = _parts(tasks, chunks)

    def kernel(gradients_ref: Any, inputs_ref: Any, products_ref: Any, *refs: Any, **memory: list[Any]) -> None:
        ring, turned = Ring(memory["both"], (False, together > 1)), memory["turned"]

        def task(at: Any) -> tuple[Any, ...]:
            """Critic, layer, half and part, and the first and last chunk of that."""
            half, at = lax.rem(at, own) + _place(together), at // own
            layer, at = lax.rem(at, depth), at // depth
            critic, part = lax.rem(at, critics), at // critics
            return critic, layer, half, part, part * chunks // parts, (part + 1) * chunks // parts

        def multiply(group: Any) -> None:
            mine = pl.ds(group * ROWS, ROWS)
            ring.open()

            def one(done: Any, at: Any) -> Any:
                critic, layer, half, part, begin, end = task(at)

                def over_rows(accumulator: Any) -> tuple[jax.Array, Any]:
                    def step(chunk: Any, total: Any) -> Any:
                        of_units, of_inputs = ring.wait(done + chunk)
                        block = of_units.at[:, mine]
                        gpu.wgmma(accumulator, _transposed(block, [ref.at[group] for ref in turned]), of_inputs)
                        total = total + block[...].astype(jnp.float32) if sums else total
                        gpu.wgmma_wait(1)
                        pl.when(chunk > 0)(lambda: ring.release(done + chunk - 1))
                        return total

                    total = lax.fori_loop(0, end - begin, step, jnp.zeros((CHUNK, ROWS)) if sums else None)
                    product = accumulator[...]
                    ring.release(done + end - begin - 1)
                    return product, total

                product, total = pl.run_scoped(over_rows, gpu.ACC((ROWS, size), jnp.float32))
                units = pl.ds(half * TILE + group * ROWS, ROWS)
                products_ref[critic, layer, part, units] = product
                if sums:
                    refs[0][critic, layer, part, :, units] = total
                return done + end - begin

            _in_turn(tasks * parts, one, jnp.int32(0))

        def fetch() -> None:
            def one(done: Any, at: Any) -> Any:
                critic, layer, half, _, begin, end = task(at)

                @pl.loop(0, end - begin)
                def _(chunk: Any) -> None:
                    rows = pl.ds((begin + chunk) * CHUNK, CHUNK)
                    of_units = gradients_ref.at[critic, layers.start + layer, rows, pl.ds(half * TILE, TILE)]
                    ring.fetch(done + chunk, of_units, inputs_ref.at[critic // members, layer, rows])

                return done + end - begin

            _in_turn(tasks * parts, one, jnp.int32(0))
            ring.close()

        _roles(multiply, fetch)

    slot = [jax.ShapeDtypeStruct((CHUNK, columns), HALF) for columns in (TILE, size)]
    of_products = jax.ShapeDtypeStruct((critics, depth, parts, width, size), jnp.float32)
    of_sums = jax.ShapeDtypeStruct((critics, depth, parts, CHUNK, width), jnp.float32)
    results = _launch(
        kernel,
        "critics_weights",
        (gradients, inputs),
        [of_products, of_sums] if sums else [of_products],
        {
            "both": Ring.of(min(MEMORY // (2 * CHUNK * (TILE + size)), 8), *slot, together=together),
            "turned": _for_interpreter(how, WARPGROUPS, ROWS, CHUNK),
        },
        together=together,
        how=how,
    )
    return [result.sum(axis=axes) for result, axes in zip(results, (2, (2, 3)), strict=False)]


# -- what they have in common -----------------------------------------------------------------------------


def _product(ring: Ring, turn: Any, chunks: int, left: Any, width: int, turned: list[Any] | None = None) -> jax.Array:
    """left [row, inner] times the chunks [inner, width] that the ring holds from this turn on.

    With `turned`, chunks are [width, inner].
    """

    def over_chunks(accumulator: Any) -> jax.Array:
        for chunk in range(chunks):
            (right,) = ring.wait(turn + chunk)
            if turned is not None:
                right = _transposed(right, turned)
            gpu.wgmma(accumulator, left.at[:, pl.ds(chunk * CHUNK, CHUNK)], right)
            if chunk:
                gpu.wgmma_wait(1)
                ring.release(turn + chunk - 1)
        product: jax.Array = accumulator[...]
        ring.release(turn + chunks - 1)
        return product

    product: jax.Array = pl.run_scoped(over_chunks, gpu.ACC((ROWS, width), jnp.float32))
    return product


def _transposed(ref: Any, turned: list[Any]) -> Any:
    """The same numbers as an operand; interpreted, from memory of its own."""
    for own in turned:
        own[...] = ref[...].T
        return own
    return ref.transpose((1, 0))


def _for_interpreter(how: dict[str, Any], *shape: int) -> list[Any]:
    """Memory for transposed operands, which the interpreter does not know and the tensor cores do."""
    return [gpu.SMEM(shape, HALF)] if how.get("interpret") else []


def _together(how: dict[str, Any]) -> int:
    return 1 if how.get("interpret") else TOGETHER  # which it does not know either


def _programs(how: dict[str, Any], together: int) -> int:
    """How many run side by side, those that fetch together counted as one."""
    programs: int = how.get("programs", PAIRS * TOGETHER // together)
    return programs


def _place(together: int) -> Any:
    """Of this program among those that fetch together."""
    return lax.axis_index("pair") if together > 1 else 0


def _roles(multiply: Callable[[Any], None], fetch: Callable[[], None]) -> None:
    group = lax.axis_index("group")

    @pl.when(group < WARPGROUPS)
    def _() -> None:
        gpu.set_max_registers(232, action="increase")
        multiply(group)

    @pl.when(group == WARPGROUPS)
    def _() -> None:
        gpu.set_max_registers(40, action="decrease")
        fetch()


def _in_turn(tasks: int, one: Callable[[Any, Any], Any], carry: Any = None) -> None:
    """one(turn, task) for this program's share of the tasks; with a carry, that in place of the turn."""

    @gpu.nd_loop((tasks,), collective_axes="program", init_carry=carry)
    def _(info: Any, carry: Any = None) -> Any:
        return one(info.local_index if carry is None else carry, info.index[0])


def _launch(
    kernel: Callable[..., None],
    name: str,
    operands: tuple[jax.Array, ...],
    results: list[Any],
    memory: dict[str, Any],
    *,
    together: int,
    how: dict[str, Any],
) -> list[jax.Array]:
    pair = {"cluster": (together,), "cluster_names": ("pair",)} if together > 1 else {}
    run = gpu.kernel(
        kernel,
        out_type=results,
        scratch_types=memory,
        grid=(_programs(how, together),),
        grid_names=("program",),
        num_threads=WARPGROUPS + 1,
        thread_name="group",
        kernel_name=name,
        compiler_params=gpu.CompilerParams(lowering_semantics=gpu.LoweringSemantics.Warpgroup),
        interpret=how.get("interpret"),
        **pair,
    )
    return list(run(*operands))


def _array(*shape: int, dtype: Any = HALF) -> Any:
    return gpu.SMEM(shape, dtype, transforms=TILED if dtype == HALF else ())


def _along_rows(vector: jax.Array) -> jax.Array:
    return lax.broadcast_in_dim(vector, (ROWS, vector.shape[0]), (1,))


def _parts(tasks: int, chunks: int) -> int:
    """Into how many parts rows are best split: each takes a share of the time, and costs as much as a chunk or two."""
    return min(range(1, chunks + 1), key=lambda n: math.ceil(tasks * n / PAIRS) * (math.ceil(chunks / n) + 2))
