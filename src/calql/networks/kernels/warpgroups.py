"""What kernels of warpgroups are made of: one that fetches, two that multiply, and memory that goes from it to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
REGISTERS = 168 * (WARPGROUPS + 1)  # that a program begins with, one of each warpgroup's threads together
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
            place = slots.at[slot]
            if source.shape != place.shape:  # the rest of the slot is left as it is
                place = place.at[pl.ds(0, source.shape[0])]
            gpu.copy_gmem_to_smem(source, place, self._full.at[slot])

    def close(self) -> None:
        """By the one who fetches, after the last."""
        for slot in range(self._size):
            gpu.barrier_wait(self._free.at[slot])

    def wait(self, turn: Any) -> list[Any]:
        """The arrays of a slot, once they are there."""
        gpu.barrier_wait(self._full.at[self.slot(turn)])
        return self.held(turn)

    def held(self, turn: Any) -> list[Any]:
        """The same once more, before they are released."""
        return [slots.at[self.slot(turn)] for slots in self.slots]

    def release(self, turn: Any) -> None:
        gpu.barrier_arrive(self._free.at[self.slot(turn)])


class Step(NamedTuple):
    """One of those that a product is summed of: rows [row, inner] times a chunk [inner, width] of a ring."""

    rows: Callable[[], Any]  # asked for when it is their turn
    turn: Any  # of the chunk
    spent: tuple[Any, ...]  # turns whose slots are free after it


def product_of(ring: Ring, steps: Sequence[Step], width: int, turned: list[Any] | None = None) -> jax.Array:
    """The sum of all steps [row, width]. With `turned`, chunks of the ring are [width, inner]."""

    def over_steps(accumulator: Any) -> jax.Array:
        def release(step: Step) -> None:
            for turn in step.spent:
                ring.release(turn)

        for number, step in enumerate(steps):
            rows = step.rows()
            (right,) = ring.wait(step.turn)
            if turned is not None:
                right = transposed(right, turned)
            gpu.wgmma(accumulator, rows, right)
            if number:
                gpu.wgmma_wait(1)
                release(steps[number - 1])
        product: jax.Array = accumulator[...]
        release(steps[-1])
        return product

    product: jax.Array = pl.run_scoped(over_steps, gpu.ACC((ROWS, width), jnp.float32))
    return product


def steps_over(rows: Any, turn: Any) -> list[Step]:
    """Rows [row, inner] of shared memory times as many chunks of a ring, from this turn on."""

    def step(part: int) -> Step:
        return Step(lambda: rows.at[:, pl.ds(part * CHUNK, CHUNK)], turn + part, (turn + part,))

    return [step(part) for part in range(rows.shape[1] // CHUNK)]


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
    """Each warpgroup does its part, with as many registers a thread.

    Together they may have no more than the program began with: who asks for one more waits for it for ever.
    """
    assert WARPGROUPS * registers[0] + registers[1] <= REGISTERS, f"{registers} registers are more than {REGISTERS}"
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
