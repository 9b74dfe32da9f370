"""Seeds over several devices: each has its share of the seeds, and a copy of the logged data.

Seeds never speak to each other, so nothing goes from one device to another: a compiled program is the same for all of
them, and each goes through its own seeds' updates. Checkpoints hold arrays of all seeds, and know nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from calql.system.errors import UserError

Tree = TypeVar("Tree")
SEED = "seed"  # the axis that is shared out
ALL = 0  # of --devices


@dataclass(frozen=True)
class Shards:
    """How seeds lie on devices; hashable, so that programs can be compiled for it. Without a mesh: on one."""

    mesh: Mesh | None = None

    @property
    def count(self) -> int:
        return 1 if self.mesh is None else self.mesh.size

    def shared_out(self, tree: Tree) -> Tree:
        """Arrays [seed, ...] where they belong; on one device as they are."""
        return tree if self.mesh is None else jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec(SEED)))

    def copied(self, tree: Tree) -> Tree:
        """What all seeds share, on every device."""
        return tree if self.mesh is None else jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec()))

    def repeated(self, one: Tree, seeds: int) -> Tree:
        """One seed's arrays for each of several, made where they belong: all of them may be too much for one device."""

        def stacked(tree: Tree) -> Tree:
            return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], seeds, axis=0), tree)

        if self.mesh is None:
            return stacked(one)
        return jax.jit(stacked, out_shardings=NamedSharding(self.mesh, PartitionSpec(SEED)))(one)

    def each(self, function: Callable[..., Any], *of_seeds: Any, shared: tuple[Any, ...] = ()) -> Any:
        """A function of arrays [seed, ...] to such arrays, on every device of its own seeds alone.

        What is `shared` comes first among its arguments, the same on every device.
        """
        if self.mesh is None:
            return function(*shared, *of_seeds)
        given = (PartitionSpec(),) * len(shared) + (PartitionSpec(SEED),) * len(of_seeds)
        # Which values differ between devices need not be followed: nothing ever goes from one to another.
        run = jax.shard_map(function, mesh=self.mesh, in_specs=given, out_specs=PartitionSpec(SEED), check_vma=False)
        return run(*shared, *of_seeds)


ONE = Shards()


def shards_for(asked: int, seeds: int) -> Shards:
    """As many of this machine's devices as were asked for, or as few as have equal shares of the seeds."""
    count = devices_used(asked, seeds, jax.local_device_count())
    return ONE if count == 1 else Shards(Mesh(np.array(jax.local_devices()[:count]), (SEED,)))


def devices_used(asked: int, seeds: int, there: int) -> int:
    """The most that divide the seeds, of those that are there and were asked for (0: all)."""
    most = there if asked == ALL else min(asked, there)
    return max(count for count in range(1, most + 1) if seeds % count == 0)


def seeds_in_one_memory(asked: int, seeds: int) -> int:
    """Those of one GPU; all of them where devices are parts of the host and its memory is all there is."""
    return seeds if jax.default_backend() == "cpu" else seeds // shards_for(asked, seeds).count


def require_devices(asked: int) -> None:
    """Refuse more than there are: who asks for cards and gets fewer pays for what stands idle."""
    there = jax.local_device_count()
    if asked > there:
        seen = "1 device is" if there == 1 else f"{there} devices are"
        raise UserError(f"--devices is {asked}, and {seen} there", mend=f"give at most {there}, or 0 for all")


def in_words(asked: int, seeds: int) -> str | None:
    """Which devices a run uses, where that is not what was asked for, or was left open."""
    there = jax.local_device_count()
    wanted, used = there if asked == ALL else asked, devices_used(asked, seeds, there)
    if used == asked or used == wanted == 1:
        return None
    why = "" if used == wanted else f", of {there} that are there" if wanted > there else f", not {wanted}"
    return f"{used} device{'s' if used > 1 else ''}{why}: {seeds // used} of {seeds} seeds on each"
