"""Seeds that diverge: kept at their last sound state while the others go on.

What is not finite is looked for after each block of updates, outside the compiled loop of updates: within it, any
further operation makes XLA round the numbers of healthy seeds differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calql.results import Row
from calql.results.arms import Member, member_of
from calql.system.errors import Diverged

Arrays = dict[str, NDArray[Any]]
Tree = TypeVar("Tree")
Stands = tuple[NDArray[np.int32], NDArray[np.int32]]  # gradient steps and environment steps so far, each [seed]
WELL = -1
MAY_BE_ABSENT = "reference"  # the column of a buffer that holds -inf where there is no reference value
SAVED = "health"
DIVERGED, MARKS = "diverged", ("update", "env_steps")  # in names of columns, which diverged seeds alone have


class Health(NamedTuple):
    """Of each seed [seed], int32: where it stood when it diverged, -1 while it is well."""

    gradient_steps: jax.Array
    env_steps: jax.Array

    @classmethod
    def fresh(cls, seeds: int) -> Health:
        return cls(jnp.full(seeds, WELL, jnp.int32), jnp.full(seeds, WELL, jnp.int32))

    def pack(self) -> Arrays:
        return {f"{SAVED}/{name}": np.asarray(value) for name, value in self._asdict().items()}

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> Health:
        """As it was saved; a checkpoint of a version that did not save it holds no seed that had diverged."""
        found = {name: arrays.get(f"{SAVED}/{name}") for name in self._fields}
        return self._replace(**{name: jnp.asarray(array) for name, array in found.items() if array is not None})


@jax.jit
def duplicate(tree: Any) -> Any:
    """A copy on the device, safe from the next block, which takes its inputs' memory."""
    return jax.tree.map(jnp.copy, tree)


@jax.jit
def are_sound(trees: Any) -> jax.Array:
    """[seed]: whether every number of a seed is finite; every leaf [seed, ...]."""
    leaves = [leaf for leaf in jax.tree.leaves(trees) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf.reshape(len(leaf), -1)), axis=1) for leaf in leaves]), axis=0)


@jax.jit
def keep_sound(before: Tree, after: Tree, sound: jax.Array, health: Health, stands: Stands) -> tuple[Tree, Health]:
    """What a block came to for seeds that are sound after it and were before; what was before it for the others.

    `stands` says where each was before it.
    """
    well = health.gradient_steps < 0
    advanced, lost = well & sound, well & ~sound

    def chosen(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(advanced.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    marked = jax.tree.map(lambda here, known: jnp.where(lost, here, known), Health(*map(jnp.asarray, stands)), health)
    return jax.tree.map(chosen, after, before), marked


def newly_lost(health: Health, before: Health) -> list[int]:
    """Indices of the seeds that diverged in between; waits for the device."""
    now, then = (np.asarray(each.gradient_steps) for each in (health, before))
    return [int(index) for index in np.flatnonzero((now >= 0) & (then < 0))]


def mark(health: Health, index: int) -> dict[str, int]:
    """Columns for the rows of a seed that has diverged, by its index; none for one that has not. On the host."""
    if health.gradient_steps[index] < 0:
        return {}
    return {f"{DIVERGED}_{name}": int(count[index]) for name, count in zip(MARKS, health, strict=True)}


def lost_in(rows: Sequence[Row]) -> dict[Member, dict[str, int]]:
    """Where each seed stood when it diverged, of those that the rows mark."""
    marked = [row for row in rows if f"{DIVERGED}_{MARKS[0]}" in row]
    return {member_of(row): {name: row[f"{DIVERGED}_{name}"] for name in MARKS} for row in marked}


def require_sound(arrays: Mapping[str, NDArray[Any]], columns: Sequence[str], where: str) -> None:
    """Refuse to save what is not finite: a checkpoint replaces one that is known to be sound.

    `columns` are the names of the buffer's arrays in their order.
    """
    for name, array in arrays.items():
        if not np.issubdtype(array.dtype, np.inexact) or _finite(array):
            continue
        kind, _, number = name.partition("/")
        column = columns[int(number)] if kind == "replay" else ""
        bad = np.isnan(array) | (array == np.inf) if column == MAY_BE_ABSENT else ~np.isfinite(array)
        if bad.any():
            what = f"the column '{column}' of the replay buffer" if column else f"'{name}'"
            mend = "the last sound checkpoint is kept: "
            mend += "look at what the environment gives" if column else "lower --critic-rate or --policy-rate"
            raise Diverged(f"{what} holds {int(bad.sum())} numbers that are not finite", where=where, mend=mend)


def _finite(array: NDArray[Any]) -> bool:
    """Quickly: a sum is finite only if all of its terms are. False may also be a sum that is too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()))
