"""What kernels of warpgroups are made of: one that fetches, two that multiply, and memory that goes from it to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

gpu: Any = mosaic_gpu  # which leaves some of its names undeclared

HALF = jnp.bfloat16
ROWS = 64  # of a warpgroup: those of one instruction of the tensor cores
WARPGROUPS = 2  # that multiply
TILE = WARPGROUPS * ROWS
CHUNK = 64  # of the inner axis of a product, fetched at once
PROGRAMS = 132  # multiprocessors of an H100 or H200
MEMORY = 222 * 1024  # bytes of shared memory for a program's arrays; barriers and reductions take the rest


class Ring:
    """Slots of shared memory, fetched by one warpgroup and used by the others, in turn."""

    def __init__(self, parts: list[Any]) -> None:
        *self.slots, self._full, self._free = parts
        self._size = self.slots[0].shape[0]

    @staticmethod
    def of(size: int, *arrays: Any, step: int = CHUNK) -> list[Any]:
        """What to allocate for slots that hold these arrays."""
        slots = [array(size, *one.shape, dtype=one.dtype, step=step) for one in arrays]
        arrivals = len(arrays), WARPGROUPS
        return [*slots, *(gpu.Barrier(num_arrivals=number, num_barriers=size) for number in arrivals)]

    def slot(self, turn: Any) -> Any:
        return lax.rem(turn, self._size) if self._size > 1 else 0

    def open(self) -> None:
        """By those who use it, once, before the first fetch."""
        for slot in range(self._size):
            gpu.barrier_arrive(self._free.at[slot])

    def fetch(self, turn: Any, *sources: Any) -> None:
        slot = self.slot(turn)
        gpu.barrier_wait(self._free.at[slot])
        for source, slots in zip(sources, self.slots, strict=True):
            gpu.copy_gmem_to_smem(source, slots.at[slot], self._full.at[slot])

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


def product_of(ring: Ring, turn: Any, chunks: int, left: Any, width: int, turned: list[Any] | None = None) -> jax.Array:
    """left [row, inner] times the chunks [inner, width] that the ring holds from this turn on.

    With `turned`, chunks are [width, inner].
    """

    def over_chunks(accumulator: Any) -> jax.Array:
        for chunk in range(chunks):
            (right,) = ring.wait(turn + chunk)
            if turned is not None:
                right = transposed(right, turned)
            gpu.wgmma(accumulator, left.at[:, pl.ds(chunk * CHUNK, CHUNK)], right)
            if chunk:
                gpu.wgmma_wait(1)
                ring.release(turn + chunk - 1)
        product: jax.Array = accumulator[...]
        ring.release(turn + chunks - 1)
        return product

    product: jax.Array = pl.run_scoped(over_chunks, gpu.ACC((ROWS, width), jnp.float32))
    return product


def transposed(ref: Any, turned: list[Any]) -> Any:
    """The same numbers as an operand; interpreted, from memory of its own."""
    for own in turned:
        own[...] = ref[...].T
        return own
    return ref.transpose((1, 0))


def for_interpreter(how: dict[str, Any], *shape: int) -> list[Any]:
    """Memory for transposed operands, which the interpreter does not know and the tensor cores do."""
    return [gpu.SMEM(shape, HALF)] if how.get("interpret") else []


def count_of_programs(how: dict[str, Any]) -> int:
    """How many run side by side."""
    programs: int = how.get("programs", PROGRAMS)
    return programs


def roles(multiply: Callable[[Any], None], fetch: Callable[[], None], registers: tuple[int, int] = (232, 40)) -> None:
    """Each warpgroup does its part, with as many registers a thread: 512 for all three."""
    group = lax.axis_index("group")

    @pl.when(group < WARPGROUPS)
    def _() -> None:
        gpu.set_max_registers(registers[0], action="increase")
        multiply(group)

    @pl.when(group == WARPGROUPS)
    def _() -> None:
        gpu.set_max_registers(registers[1], action="decrease")
        fetch()


def in_turn(tasks: int, one: Callable[..., Any], carry: Any = None) -> None:
    """one(turn, task) for this program's share of the tasks; with a carry, one(turn, task, carry) gives the next."""

    def body(info: Any, **carry: Any) -> Any:
        return one(info.local_index, info.index[0], *carry.values())

    gpu.nd_loop((tasks,), collective_axes="program", init_carry=carry)(body)


def launch(
    kernel: Callable[..., None],
    name: str,
    operands: tuple[jax.Array, ...],
    results: list[Any],
    memory: dict[str, Any],
    *,
    how: dict[str, Any],
) -> list[jax.Array]:
    run = gpu.kernel(
        kernel,
        out_type=results,
        scratch_types=memory,
        grid=(count_of_programs(how),),
        grid_names=("program",),
        num_threads=WARPGROUPS + 1,
        thread_name="group",
        kernel_name=name,
        compiler_params=gpu.CompilerParams(lowering_semantics=gpu.LoweringSemantics.Warpgroup),
        interpret=how.get("interpret"),
    )
    return list(run(*operands))


def array(*shape: int, dtype: Any = HALF, step: int = CHUNK) -> Any:
    """Shared memory; what products take lies in tiles that are as wide as the step of their inner axis."""
    tiled = gpu.TilingTransform((8, step)), gpu.SwizzleTransform(2 * step)
    return gpu.SMEM(shape, dtype, transforms=tiled if jnp.dtype(dtype).itemsize == 2 else ())


def along_rows(vector: jax.Array) -> jax.Array:
    return lax.broadcast_in_dim(vector, (ROWS, vector.shape[0]), (1,))


def along_columns(vector: jax.Array, columns: int = ROWS) -> jax.Array:
    return lax.broadcast_in_dim(vector, (ROWS, columns), (0,))
